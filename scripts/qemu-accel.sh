#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Prints how QEMU shall run guests here: `kvm` if a boot under KVM reached user space in time, else `tcg`.
#
#   scripts/qemu-accel.sh BZIMAGE
#
# That /dev/kvm opens proves nothing: where virtualization is nested, guests may hang or die in it. The answer is
# kept for each kernel image until the host boots again.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

readonly limit=10
kernel=${1:?usage: qemu-accel.sh BZIMAGE}
[[ -r $kernel ]] || die "no kernel image $kernel" 'build one with: make kernel'

# A tiny guest says a word that nothing else says. Its init is the project's own, which names it to the console.
probe() {
	local dir word
	dir=$(mktemp -d)
	# shellcheck disable=SC2064 # the folder of now
	trap "rm -rf -- '$dir'" EXIT
	word=probe-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
	"$project/scripts/mini-root.sh" --with-init "$dir/initramfs"
	timeout --kill-after=1 "$limit" qemu-system-x86_64 -accel kvm -cpu host -m 256 -smp 2 -nic none -no-reboot \
		-display none -monitor none -serial "file:$dir/console" -kernel "$kernel" -initrd "$dir/initramfs" \
		-append "console=ttyS0 quiet panic=-1 rdinit=/init probe=$word" >/dev/null 2>&1 </dev/null &
	# In the background, so that the shell does not report how it died.
	wait "$!" 2>/dev/null || return 1
	grep -q "user space: $word" "$dir/console"
}

[[ -r /dev/kvm && -w /dev/kvm ]] || { echo tcg; exit; }

key=$({ cat /proc/sys/kernel/random/boot_id; sha256sum <"$kernel"; } | short_hash)
answer=$cache/accel/$key
lock accel
if [[ ! -s $answer ]]; then
	say "trying a boot under KVM, at most $limit s"
	mkdir -p -- "${answer%/*}"
	if probe; then echo kvm; else echo tcg; fi >"$answer.new"
	mv -- "$answer.new" "$answer"
	say "guests run under $(<"$answer")"
fi
cat -- "$answer"
