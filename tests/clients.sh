#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs what programs of others do with dma-buf MRs, in guests. Provisions and builds what that needs.
#
#   tests/clients.sh [--long] [option of collect.py ...]
#
# --long adds what takes long or much memory; without it, those cases are printed as skipped.
# Prints what failed and what was left out, a table of suites, and as the last line `N passed, N failed, N skipped`.
# Exit status: 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/clients
limit=1500 memory=3584 append=''
if [[ ${1:-} == --long ]]; then
	limit=7200 memory=8192 append=long=1
	shift
fi
over=$build/clients/root

# client NAME LIBRARY...: one of tests/clients, with the sources that it is told to have.
client() {
	local name=$1 library libraries=()
	shift
	while (($#)) && [[ $1 == lib* ]]; do
		library=$(echo "$CLIENTS/lib/$1".so.?)
		libraries+=("$library")
		shift
	done
	# Of the libraries' own libraries the host has none, or others.
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -isystem "$CLIENTS/include" -I "$project/include" \
		-o "$over/project/bin/$name" "${@/#/$project/tests/clients/}" "${libraries[@]}" -Wl,--allow-shlib-undefined
}

compile_clients() {
	client fi_dmabuf libfabric fi_dmabuf.c buffer.c &&
		client uct_dmabuf libuct libucs uct_dmabuf.c line.c buffer.c
}

build_everything() {
	build_modules "$build/modules"
	build_preloads
	build_tool
	mkdir -p -- "$build/guest" "$over/project/bin"
	run_logged 'building the clients' "$build/log/clients.log" compile_clients
	"$project/scripts/selftests.sh" "$over/project/selftests"
	pack "$build/guest/clients.cpio" --provider "$PROVIDER" --modules "modules=$build/modules" \
		--over "$CLIENTS/guest" --over "$over"
}

# What each machine is asked to do; its verdict goes to RUN_DIR.result.
programs() {
	"$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/clients.cpio" \
		--run-dir "$run" --memory "$memory" --job clients_suite --job-timeout "$limit" --append "$append" \
		--qemu-arg -vga --qemu-arg none --qemu-arg -device --qemu-arg virtio-gpu-pci >"$run.result" || true
}

rdma_core() {
	"$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/clients.cpio" \
		--run-dir "$run-rdma-core" --job rdma_core_suite --job-timeout 1500 >"$run-rdma-core.result" || true
}

two_hosts() {
	"$project/tests/twohosts.sh" "$run-twohosts" "$build/guest/clients.cpio" >"$run-twohosts.result" || true
}

# show TABLE TITLE: what a guest has made, and where it is kept.
show() {
	local table=$1 title=$2
	[[ -r $table ]] || { say "no table of ${title%%,*}: the guest did not get there"; return 0; }
	printf '\n%s (%s)\n\n' "$title" "$table"
	cat -- "$table"
	echo
}

# A run that cannot be made has failed, and says so in the form that readers look for.
has_run=''
trap '[[ $has_run ]] || printf "\nthe tests could not be run, see above\n0 passed, 1 failed\n"' EXIT

provision
CLIENTS=${CLIENTS:-$("$project/scripts/clients.sh")}
build_everything
export KERNEL GUEST_ROOT
mkdir -p -- "$build/run"
rm -f -- "$run"*.result
# Both mostly wait. The machines of two hosts keep each other waiting if they have to wait for others too.
rdma_core &
programs
wait
two_hosts
has_run=1
ends=$(cat -- "$run-twohosts.result")
show "$run/share/exporters.md" 'dma-bufs of each exporter, and what RDMA did with them'
show "$run-rdma-core/share/rdma_core.md" "rdma-core's own tests, without the patches and with them"
python3 -B "$project/tests/collect.py" --kdir "$KDIR" --expected "$project/tests/expected-clients.list" \
	--ktap "$run/share/ktap" --console "$run/console.log" --guest-result "$(cat -- "$run.result")" \
	--ktap "$run-rdma-core/share/ktap" --guest rdma_core "$run-rdma-core/console.log" "$(cat -- "$run-rdma-core.result")" \
	--ktap "$run-twohosts/home/share/ktap" --guest home "$run-twohosts/home/console.log" "${ends%%, *}" \
	--guest peer "$run-twohosts/peer/console.log" killed \
	--guest peer_2 "$run-twohosts/peer-2/console.log" "${ends##*, }" "$@"
