#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Finds, and where it can completes, the toolchain; prints it as shell assignments for eval.
# RUSTC=, BINDGEN=, LLVM= and RUST_LIB_SRC= in the environment are taken as they are.
#   --lint   rustfmt and clippy are needed too
#   --quiet  does not say what it found
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

# The kernel's own minima (its scripts/min-tool-version.sh), clang's raised to what was tried.
rustc_min=1.85.0 bindgen_min=0.71.1 clang_min=17
# Built when there is no bindgen, or an older one.
bindgen_tested=0.72.1
log=$cache/logs/toolchain.log

at_least() { printf '%s\n%s\n' "$1" "$2" | sort --check=quiet --version-sort; }

# First x.y.z or x.y that a tool says of itself; nothing where it does not run.
version_of() { "$@" 2>/dev/null | grep -m1 -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n1; }

# --- rustc and its companions -----------------------------------------------------------------

rust_remedy() {
	if command -v rustup >/dev/null; then
		printf 'run: rustup update stable && rustup default stable'
	else
		printf 'run: scripts/host-packages.sh'
	fi
}

# rustup's rustc is a proxy that obeys the folder it runs in; the toolchain's own does not.
# Both the kernel and its modules must get the very same one.
find_rustc() {
	local name=${RUSTC:-rustc} path version sysroot
	path=$(command -v -- "$name") || die "there is no $name" "$(rust_remedy)"
	version=$(version_of "$path" --version) || die "$path does not run" "$(rust_remedy)"
	at_least "$rustc_min" "$version" ||
		die "$path is rustc $version, and the kernel needs $rustc_min or newer" "$(rust_remedy), or set RUSTC="
	sysroot=$("$path" --print sysroot)
	[[ -x $sysroot/bin/rustc ]] && path=$sysroot/bin/rustc
	RUSTC=$path rustc_version=$version rustc_sysroot=$sysroot
}

# A companion of rustc: from the same folder, else from PATH; nothing where there is none.
companion() {
	local beside
	beside=$(dirname -- "$RUSTC")/$1
	if [[ -x $beside ]]; then
		printf '%s' "$beside"
	else
		command -v -- "$1" || true
	fi
}

# Printed through their names by print_assignments.
# shellcheck disable=SC2034
find_companions() {
	CARGO=$(companion cargo) RUSTDOC=$(companion rustdoc)
	RUSTFMT=$(companion rustfmt) CLIPPY_DRIVER=$(companion clippy-driver)
	[[ $CARGO ]] || die "there is no cargo for $RUSTC" "$(rust_remedy)"
	[[ $lint ]] || return 0
	[[ $RUSTFMT ]] || die "there is no rustfmt" "$(lint_remedy rustfmt)"
	[[ $CLIPPY_DRIVER ]] || die "there is no clippy-driver" "$(lint_remedy clippy)"
}

lint_remedy() {
	if command -v rustup >/dev/null; then
		printf 'run: rustup component add %s' "$1"
	elif [[ $(os_release VERSION_ID) == 12 ]]; then
		printf 'run: apt-get install rustfmt-web rust-web-clippy'
	else
		printf 'run: apt-get install rustfmt rust-clippy'
	fi
}

# --- the library source -----------------------------------------------------------------------

is_library() { [[ -e $1/core/src/lib.rs ]]; }

# Debian's rust-src of the same version, from whichever suite has it; unpacked, not installed.
library_from_debian() {
	local target=$1 package found suite version work=$1.new
	for package in rust-src rust-web-src; do
		found=$(find_in_suites "$package" "^${rustc_version//./\\.}\+") && break
	done
	[[ $found ]] || return 1
	read -r suite version <<<"$found"
	rm -rf -- "$work"
	suite_download "$suite" "$package=$version" "$work" &&
		dpkg-deb -x "$work"/*.deb "$work/root" &&
		mv -- "$work/root/usr/src/rustc-$rustc_version" "$target" &&
		rm -rf -- "$work"
}

# The kernel compiles `core` itself, so the source must be that of this very rustc.
find_library() {
	local own=$rustc_sysroot/lib/rustlib/src/rust/library cached=$cache/rust-src/$rustc_version candidate
	if [[ ${RUST_LIB_SRC:-} ]]; then
		is_library "$RUST_LIB_SRC" || die "RUST_LIB_SRC=$RUST_LIB_SRC holds no core/src/lib.rs"
		return
	fi
	# Debian's sysroot is /usr, whose source may be that of another version.
	[[ $rustc_sysroot == /usr ]] && own=/usr/src/rustc-$rustc_version/library
	for candidate in "$own" "$cached/library"; do
		is_library "$candidate" && RUST_LIB_SRC=$candidate && return
	done
	lock toolchain
	if [[ $rustc_sysroot == */toolchains/* ]] && command -v rustup >/dev/null; then
		run_logged "rustup component add rust-src" "$log" \
			timeout 120 rustup component add rust-src --toolchain "$(basename -- "$rustc_sysroot")" &&
			is_library "$own" && RUST_LIB_SRC=$own && return
	fi
	run_logged "library source of rustc $rustc_version from Debian" "$log" library_from_debian "$cached" &&
		is_library "$cached/library" && RUST_LIB_SRC=$cached/library && return
	die "no library source for rustc $rustc_version ($RUSTC)" \
		"run: rustup component add rust-src, or set RUST_LIB_SRC=; and $(mirror_remedy)"
}

# --- clang, lld, llvm -------------------------------------------------------------------------

# LLVM as kbuild reads it: -19 is a suffix, DIR/ a prefix, 1 neither.
llvm_tool() {
	case $LLVM in
	-*) printf '%s%s' "$1" "$LLVM" ;;
	*/) printf '%s%s' "$LLVM" "$1" ;;
	*) printf '%s' "$1" ;;
	esac
}

# Which of the tools that kbuild calls is not there; nothing where all are.
llvm_missing() {
	local tool
	for tool in clang ld.lld llvm-ar llvm-nm llvm-objcopy llvm-objdump llvm-readelf llvm-strip llvm-config; do
		command -v -- "$(llvm_tool "$tool")" >/dev/null || { llvm_tool "$tool"; return; }
	done
}

# Where libclang of the same LLVM is: bindgen must parse with the compiler's own version.
llvm_libdir() {
	local dir
	dir=$("$(llvm_tool llvm-config)" --libdir) && compgen -G "$dir/libclang*.so*" >/dev/null && printf '%s' "$dir"
}

llvm_is_usable() {
	[[ ! $(llvm_missing) ]] && at_least "$clang_min" "$(version_of "$(llvm_tool clang)" --version)" && llvm_libdir >/dev/null
}

# 19 first: Debian 12 and 13 both have it, and it is the one that was tried.
find_llvm() {
	local missing
	if [[ ${LLVM:-} ]]; then
		missing=$(llvm_missing)
		[[ ! $missing ]] || die "LLVM=$LLVM was asked for, but there is no $missing"
		llvm_is_usable || die "LLVM=$LLVM is older than $clang_min, or has no libclang beside it"
	else
		for LLVM in -19 -22 -21 -20 -18 -17 1; do
			llvm_is_usable && break
		done
		llvm_is_usable || die "no clang, lld, llvm and libclang of one version, $clang_min or newer" \
			"run: scripts/host-packages.sh"
	fi
	LIBCLANG_PATH=$(llvm_libdir)
}

# --- bindgen ----------------------------------------------------------------------------------

bindgen_is_usable() {
	local version
	version=$(LIBCLANG_PATH=$LIBCLANG_PATH version_of "$1" --version) && at_least "$bindgen_min" "$version"
}

find_bindgen() {
	local own=$cache/bindgen/$bindgen_tested path
	if [[ ${BINDGEN:-} ]]; then
		path=$(command -v -- "$BINDGEN") || die "there is no BINDGEN=$BINDGEN"
		bindgen_is_usable "$path" || die "BINDGEN=$BINDGEN is not bindgen $bindgen_min or newer"
		BINDGEN=$path
		return
	fi
	for path in "$(command -v bindgen || true)" "$own/bin/bindgen"; do
		[[ $path ]] && bindgen_is_usable "$path" && BINDGEN=$path && return
	done
	lock toolchain-bindgen
	# cargo installs the program last and in one step, so a broken build leaves none behind.
	run_logged "building bindgen $bindgen_tested" "$log" \
		env RUSTC="$RUSTC" CARGO_TARGET_DIR="$own/target" LIBCLANG_PATH="$LIBCLANG_PATH" \
		"$CARGO" install bindgen-cli --locked --version "$bindgen_tested" --root "$own" ||
		die "bindgen $bindgen_tested could not be built" \
			"see $log, or install bindgen $bindgen_min or newer and put it in PATH"
	rm -rf -- "$own/target"
	BINDGEN=$own/bin/bindgen
}

# --- the result -------------------------------------------------------------------------------

# shellcheck disable=SC2034
print_assignments() {
	local name
	# The kernel's build has a second name for rustc, for programs that run during the build.
	HOSTRUSTC=$RUSTC
	for name in RUSTC HOSTRUSTC RUSTDOC RUSTFMT CLIPPY_DRIVER CARGO RUST_LIB_SRC BINDGEN LIBCLANG_PATH LLVM; do
		printf '%s=%q\n' "$name" "${!name}"
	done
}

describe() {
	say "rustc $rustc_version ($RUSTC), library source $RUST_LIB_SRC"
	say "bindgen $(version_of "$BINDGEN" --version) ($BINDGEN), clang $(version_of "$(llvm_tool clang)" --version) (LLVM=$LLVM)"
}

lint='' quiet=''
for argument; do
	case $argument in
	--lint) lint=1 ;;
	--quiet) quiet=1 ;;
	*) die "unknown argument: $argument" "usage: toolchain.sh [--lint] [--quiet]" ;;
	esac
done
find_rustc
find_companions
find_library
find_llvm
find_bindgen
[[ $quiet ]] || describe
print_assignments
