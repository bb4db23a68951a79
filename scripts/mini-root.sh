#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Makes a small initramfs, busybox and its libraries out of the guest root, for guests that need no more.
#
#   scripts/mini-root.sh FILE               busybox alone; the project's own initramfs goes behind it
#   scripts/mini-root.sh --with-init FILE   with the project's init, bootable as it is
#
# GUEST_ROOT in the environment names the guest root's initramfs; else scripts/guest-root.sh does.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

with_init=''
if [[ ${1:-} == --with-init ]]; then
	with_init=1
	shift
fi
out=${1:?usage: mini-root.sh [--with-init] FILE}
root=${GUEST_ROOT:-$("$project/scripts/guest-root.sh")}
[[ -r $root ]] || die "no guest root $root" 'build one with: make guest'

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT

# The root is one with merged /usr: the top-level names are links, made here as they are there.
wanted=(bin sbin lib lib64 usr/bin/busybox usr/lib64/ld-linux-x86-64.so.2)
for name in ld-linux-x86-64.so.2 libc.so.6 libresolv.so.2; do
	wanted+=("usr/lib/x86_64-linux-gnu/$name")
done
# Archives differ in whether their names start with a dot.
zstd -dc -- "$root" | (cd -- "$stage" && cpio -idm --quiet --no-absolute-filenames "${wanted[@]}" "${wanted[@]/#/./}")
[[ -x $stage/usr/bin/busybox && -L $stage/bin ]] || die "no busybox in the guest root $root" 'build it anew with: make distclean guest'
ln -sf busybox "$stage/usr/bin/sh"
[[ ! $with_init ]] || install -m 755 -- "$project/tests/guest/init" "$stage/init"
(cd -- "$stage" && find . -print0 | cpio --null -o -H newc -R 0:0 --quiet) >"$out.new"
mv -- "$out.new" "$out"
