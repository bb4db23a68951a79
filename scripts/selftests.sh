#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds what the guest runs the kernel's own selftests with, from the source in KDIR:
#
#   scripts/selftests.sh FOLDER
#
#   FOLDER/rdma, FOLDER/kselftest   the scripts for rxe, and what they source
#   FOLDER/udmabuf                  the program for udmabuf
#   FOLDER/stock/rdma_rxe.ko        rxe as it is without patches/7.3, for the same kernel

set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

# What the patches may change beside rxe itself, and still leave a stock rxe stock on this kernel: a module of its own,
# and exporters, which are the patched ones both times.
outside_of_rxe=(drivers/infiniband/Kconfig drivers/infiniband/core/Makefile drivers/infiniband/core/dmabuf_importer.c
	include/rdma/ib_dmabuf_importer.h drivers/dma-buf/udmabuf.c drivers/gpu/drm/virtio/virtgpu_kms.c)
rxe=drivers/infiniband/sw/rxe
selftests=tools/testing/selftests
work=$build/selftests
log=$build/log/selftests.log

check_patches() {
	local path
	while IFS= read -r path; do
		[[ $path == $rxe/* || " ${outside_of_rxe[*]} " == *" $path "* ]] ||
			die "patches/7.3 changes $path: an unpatched rxe on this kernel may then run another way than on a stock one" \
				"compare with a kernel that was built without the patches, or say here why it is the same"
	done < <(sed -n 's|^+++ b/||p' "$project"/patches/7.3/*.patch)
}

# The patched sources with the patches taken back, last one first.
unpatched_rxe() {
	local patches=("$project"/patches/7.3/*.patch) i
	rm -rf -- "${work:?}/tree"
	mkdir -p -- "$work/tree/$rxe"
	cp -- "$KDIR/$rxe"/{Makefile,Kconfig,*.[ch]} "$work/tree/$rxe/"
	rm -f -- "$work/tree/$rxe"/*.mod.c
	for ((i = ${#patches[@]} - 1; i >= 0; i--)); do
		# Outside of any repository, so that paths are those of the tree.
		(cd -- "$work/tree" && GIT_CEILING_DIRECTORIES=$work git apply --reverse "--include=$rxe/*" -- "${patches[i]}") || return 1
	done
}

# The module whose Makefile is in that folder.
external() {
	(
		lock "build-against-$(short_hash <<<"$KDIR")"
		make -C "$KDIR" --no-print-directory -j"$(nproc)" "LLVM=$LLVM" "RUSTC=$RUSTC" "HOSTRUSTC=$HOSTRUSTC" \
			"BINDGEN=$BINDGEN" "M=$1" modules
	)
}

build_rxe() {
	unpatched_rxe && external "$work/tree/$rxe" && install -D -m 644 -- "$work/tree/$rxe/rdma_rxe.ko" "$out/stock/rdma_rxe.ko"
}

copy_scripts() {
	mkdir -p -- "$out/rdma" "$out/kselftest"
	cp -- "$KDIR/$selftests"/rdma/*.sh "$out/rdma/"
	cp -- "$KDIR/$selftests"/kselftest/*.sh "$out/kselftest/"
	chmod +x -- "$out"/rdma/*.sh
}

build_udmabuf() {
	gcc -O2 -I "$KDIR/$selftests" -I "$KDIR/usr/include" -o "$out/udmabuf" "$KDIR/$selftests/drivers/dma-buf/udmabuf.c"
}

build_all() { copy_scripts && build_udmabuf && build_rxe; }

(($# == 1)) || die "usage: selftests.sh FOLDER"
[[ ${KDIR:-} && ${LLVM:-} ]] || provision_kernel
check_patches
mkdir -p -- "$1"
out=$(cd -- "$1" && pwd)
# All that the result depends on; written last.
key=$({ echo "$KDIR"; cat -- "$0" "$KDIR/.config" "$project"/patches/7.3/*.patch; } | short_hash)
[[ ! -s $out/key || $(<"$out/key") != "$key" ]] || exit 0
rm -rf -- "${out:?}"/*
run_logged "building the kernel's selftests and rxe without the patches" "$log" build_all ||
	die "they do not build" "see $log"
echo "$key" >"$out/key"
