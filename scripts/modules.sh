#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the modules against KDIR=, a built kernel tree, or installs what was built.
#
#   scripts/modules.sh build|install
#
# Without KDIR=, the kernel in the cache is taken. Nothing in KDIR is changed or repaired.

set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

config_of() { sed -n "s/^$1=//p" "$KDIR/.config" | tr -d '"'; }

# What the module needs of the kernel, each with its remedy.
check_kernel() {
	[[ -d $KDIR ]] || die "KDIR=$KDIR is no folder" "set KDIR= to a built kernel tree, or run: make kernel"
	KDIR=$(cd -- "$KDIR" && pwd)
	[[ -r $KDIR/.config && -r $KDIR/include/config/kernel.release ]] ||
		die "$KDIR is not a configured kernel tree" "build it first: make -C $KDIR LLVM=1"
	[[ $(<"$KDIR/include/config/kernel.release") == 7.3.* ]] ||
		die "$KDIR is Linux $(<"$KDIR/include/config/kernel.release"), and only 7.3 is supported" "give a 7.3 tree as KDIR="
	[[ $(config_of CONFIG_RUST) == y ]] ||
		die "CONFIG_RUST is not set in $KDIR" "set it: make -C $KDIR LLVM=1 rustavailable menuconfig"
	[[ $(config_of CONFIG_CC_IS_CLANG) == y ]] ||
		die "$KDIR was configured for gcc, whose flags bindgen cannot read" "configure and build it with LLVM=1"
	[[ -r $KDIR/include/rdma/ib_dmabuf_importer.h ]] ||
		die "$KDIR lacks the importer registry" "apply patches/7.3 to it: git am $project/patches/7.3/*.patch"
	[[ $(config_of CONFIG_INFINIBAND_DMABUF_IMPORTER) ]] ||
		die "CONFIG_INFINIBAND_DMABUF_IMPORTER is not set in $KDIR" "set it to m and build the kernel"
	[[ -r $KDIR/rust/libkernel.rmeta && -r $KDIR/Module.symvers ]] ||
		die "$KDIR is not built, or is a headers package without Rust's rust/*.rmeta" "build the tree, and give that as KDIR="
}

# Crates of two compilers do not mix.
check_rustc() {
	local built
	built=$(config_of CONFIG_RUSTC_VERSION_TEXT)
	[[ $("$RUSTC" --version) == "$built" ]] ||
		die "the kernel in $KDIR was built with $built, and $RUSTC is $("$RUSTC" --version)" "set RUSTC= to the former"
}

build() {
	check_kernel
	check_rustc
	build_modules "$build/modules"
	say "the modules for Linux $(<"$KDIR/include/config/kernel.release"):"
	printf '%s\n' "$build"/modules/*.ko
}

install_modules() {
	build
	run_logged 'installing the modules' "$build/log/install.log" as_root \
		make -C "$KDIR" --no-print-directory "LLVM=$LLVM" "M=$project" "MO=$build/modules" \
		${INSTALL_MOD_PATH:+"INSTALL_MOD_PATH=$INSTALL_MOD_PATH"} modules_install
}

find_toolchain
KDIR=${KDIR:-$("$project/scripts/kernel.sh" --cached)} ||
	die 'no kernel to build against' 'set KDIR= to a built kernel tree, or run: make kernel'
case ${1:-} in
build) build ;;
install) install_modules ;;
*) die "unknown argument: ${1:-none}" 'usage: modules.sh build|install' ;;
esac
