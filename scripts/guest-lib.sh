# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# From a checkout to a guest that can be booted: provision, build, pack. Sourced; it brings lib.sh along.

# shellcheck source=lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

build=$project/build

# provision: all that is not built from this checkout. Sets and exports the toolchain's variables,
# KDIR (kernel tree), KERNEL (its image), GUEST_ROOT and PROVIDER; each is taken as it is if set already.
provision() {
	provision_kernel
	PROVIDER=${PROVIDER:-$("$project/scripts/rdma-core.sh")}
	export PROVIDER
}

# The same without the provider, for guests that do without libibverbs.
provision_kernel() {
	provision_toolchain
	KDIR=${KDIR:-$("$project/scripts/kernel.sh")}
	KERNEL=${KERNEL:-$KDIR/arch/x86/boot/bzImage}
	GUEST_ROOT=${GUEST_ROOT:-$("$project/scripts/guest-root.sh")}
	export KDIR KERNEL GUEST_ROOT
}

# With LINT=1 rustfmt and clippy too.
provision_toolchain() {
	"$project/scripts/host-packages.sh"
	find_toolchain
}

# Without installing anything.
find_toolchain() {
	local toolchain
	# The builds below are nobody's sub-make.
	unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
	toolchain=$("$project/scripts/toolchain.sh" ${LINT:+--lint})
	eval "$toolchain"
	export RUSTC HOSTRUSTC RUSTDOC RUSTFMT CLIPPY_DRIVER CARGO RUST_LIB_SRC BINDGEN LIBCLANG_PATH LLVM
}

# kbuild FOLDER TARGET [VARIABLE=VALUE ...]: the project's modules against KDIR, built in FOLDER.
# One at a time: with each crate, kbuild writes rust/kernel/generated_arch_*.rs in KDIR anew, and two would
# take them away from each other.
kbuild() {
	local folder=$1 target=$2
	shift 2
	(
		lock "build-against-$(short_hash <<<"$KDIR")"
		make -C "$KDIR" --no-print-directory -j"$(nproc)" "LLVM=$LLVM" "RUSTC=$RUSTC" "HOSTRUSTC=$HOSTRUSTC" \
			"BINDGEN=$BINDGEN" "M=$project" "MO=$folder" "$@" "$target"
	)
}

# build_modules FOLDER [VARIABLE=VALUE ...]
build_modules() {
	run_logged 'building the modules' "$build/log/modules.log" kbuild "$1" modules "${@:2}"
}

# build_kunit FOLDER: the importer with its KUnit suites, and the module that must fail.
build_kunit() {
	run_logged 'building the modules with their tests' "$build/log/kunit.log" \
		kbuild "$1" modules CONFIG_RDMA_DMABUF_KUNIT_TEST=y CONFIG_RDMA_DMABUF_MUSTFAIL=m \
		CONFIG_RDMA_DMABUF_VRAM_EXPORTER=n
}

build_tool() {
	run_logged 'building rdmabuf' "$build/log/tool.log" "$CARGO" build --locked --release \
		--manifest-path "$project/tools/rdmabuf/Cargo.toml" --target-dir "$build/cargo/rdmabuf"
	install -D -m 755 -- "$build/cargo/rdmabuf/release/rdmabuf" "$build/bin/rdmabuf"
}

build_preloads() {
	run_logged 'building the preloads' "$build/log/preloads.log" \
		make -C "$project/tools/preload" --no-print-directory "O=$build/lib"
}

# pack FILE [OPTION ...]: the initramfs that goes behind GUEST_ROOT.
pack() {
	local out=$1
	shift
	"$project/scripts/pack-project.sh" --kdir "$KDIR" --out "$out" "$@"
}

# The names of the suites in the importer's module.
kunit_suites() { sed -n 's|^\(rdma_dmabuf_[a-z_]*\)/.*|\1|p' "$project/tests/expected.list" | sort -u; }
