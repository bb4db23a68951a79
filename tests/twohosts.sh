#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Two guests on one wire: the one at home runs the cases; its peer does as it is told, is killed when it is to be, and
# is started anew.
#
#   tests/twohosts.sh RUN_DIR INITRD
#
# RUN_DIR receives home/, peer/ and peer-2/, each with console.log and share/. Prints how the one at home ended and how
# the second peer did, as scripts/qemu.sh says it, in one line with a comma. KERNEL and GUEST_ROOT are given.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

(($# == 2)) || die "usage: twohosts.sh RUN_DIR INITRD"
run=$1 initrd=$2
home=192.0.2.1 peer=192.0.2.2
limit=600

# Short, as the names of sockets have to be.
wire=$(mktemp -d)

# machine NAME OWN_SOCKET OTHER_SOCKET MAC JOB WORDS: becomes a guest with a network card on the wire.
machine() {
	exec "$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$initrd" --run-dir "$run/$1" \
		--memory 1024 --job "$5" --job-timeout "$limit" --append "$6" \
		--qemu-arg -netdev --qemu-arg "dgram,id=wire,local.type=unix,local.path=$wire/$2,remote.type=unix,remote.path=$wire/$3" \
		--qemu-arg -device --qemu-arg "virtio-net-pci,netdev=wire,mac=$4,romfile="
}

start_peer() {
	rm -f -- "$wire/peer"
	machine "$1" peer home 02:00:00:00:00:02 twohosts_peer "address=$peer" >"$run/$1.result" &
	peer_pid=$!
}

# The peer dies when the one at home asks for it, without a chance to say anything.
replace_peer() {
	while kill -0 "$home_pid" 2>/dev/null; do
		if [[ -e $run/home/share/kill ]]; then
			kill "$peer_pid"
			wait "$peer_pid" || true
			say "the peer was killed (log: $run/peer/console.log); another one starts"
			start_peer peer-2
			return
		fi
		sleep 0.2
	done
}

stop() {
	local pid
	for pid in ${home_pid:-} ${peer_pid:-}; do
		kill "$pid" 2>/dev/null || true
	done
	rm -rf -- "$wire"
}

trap stop EXIT
rm -rf -- "${run:?}"
mkdir -p -- "$run"
start_peer peer
machine home home peer 02:00:00:00:00:01 twohosts_home "address=$home peer=$peer" >"$run/home.result" &
home_pid=$!
replace_peer
wait "$home_pid" || true
# It was told to halt; if the one at home did not get that far, nobody will.
for ((i = 0; i < 100; i++)); do
	kill -0 "$peer_pid" 2>/dev/null || break
	sleep 0.2
done
kill "$peer_pid" 2>/dev/null || true
wait "$peer_pid" || true
peer_pid='' home_pid=''
echo "$(<"$run/home.result"), $(cat -- "$run/peer-2.result" 2>/dev/null || echo 'no second peer')"
