#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Prints the folder of the built, patched kernel; builds it first where it is not in the cache.
#   --cached    only look: code 1 where there is none
#   --prepare   stop before the long build, in an entry that is not kept: a trial of patches and configuration
# KERNEL_KIND in the environment names a folder of scripts/config/ whose fragments come on top of the common ones:
# bench, debug, kcsan, plain.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

# Raised by hand when the steps below change in a way that changes their result.
recipe=2
# Entries kept besides the one in use; each is about 2.5 GB.
keep_entries=5
patches=("$project"/patches/7.3/*.patch)
[[ -e ${patches[0]} ]] || patches=()
common=("$project"/scripts/config/*.config)
kind=${KERNEL_KIND:-}
fragments=("${common[@]}")
if [[ $kind ]]; then
	fragments+=("$project/scripts/config/$kind"/*.config)
	[[ -e ${fragments[-1]} ]] || die "there is no kind of kernel '$kind'" "KERNEL_KIND is a folder of scripts/config/"
fi
log=$cache/logs/kernel${kind:+-$kind}.log

# --- the key ----------------------------------------------------------------------------------

toolchain_versions() {
	"$RUSTC" -vV
	"$BINDGEN" --version
	local tool
	for tool in clang ld.lld; do
		case $LLVM in
		-*) "$tool$LLVM" --version ;;
		*/) "$LLVM$tool" --version ;;
		*) "$tool" --version ;;
		esac
	done
}

# Sets base, common_base and entry. Entries with the same base differ in their patches alone, so that one can
# start from the other; a kind of kernel can start from the common one, too.
find_entry() {
	read -r source_name source_path <<<"$("$project/scripts/kernel-source.sh" "$@")"
	[[ $source_path ]] || exit 1
	base=$(base_key "${fragments[@]}")
	common_base=$(base_key "${common[@]}")
	entry=$cache/kernel/$(entry_key)
}

base_key() {
	{
		printf '%s\n' "$recipe" "$source_name"
		cat -- "$@"
		toolchain_versions
	} | short_hash
}

entry_key() {
	{
		printf '%s\n' "$base"
		((!${#patches[@]})) || cat -- "${patches[@]}"
	} | short_hash
}

# --- patches ----------------------------------------------------------------------------------

# Turns patch's own report into "file, hunk 2 (line 123)", one a line.
failed_hunks() {
	awk '/^(checking|patching) file / { file = $3 }
	     /^Hunk #[0-9]+ (FAILED|NOT MERGED) at / { sub(/#/, "", $2); sub(/\.$/, "", $5); printf "    %s, hunk %s (line %s)\n", file, $2, $5; seen = 1 }
	     /already exists|Reversed \(or previously applied\)|find file to patch/ { print "    " $0; seen = 1 }
	     END { exit !seen }' "$1"
}

# No fuzz: a hunk that lands beside its place compiles, and is wrong.
apply_patch() {
	local tree=$1 patch=$2 reject out
	reject=$cache/logs/$(basename -- "$patch" .patch).rej out=$cache/logs/patch.out
	rm -f -- "$reject"
	cat -- "$patch" >>"$log"
	if patch -d "$tree" -p1 --batch --forward --fuzz=0 --no-backup-if-mismatch \
		--reject-file="$reject" <"$patch" >"$out" 2>&1; then
		return
	fi
	say "$(basename -- "$patch") does not apply to Linux $(kernel_version "$tree"):"
	failed_hunks "$out" >&2 || sed 's/^/    /' "$out" >&2
	[[ ! -s $reject ]] || say "    what did not apply: $reject"
	die "patches/7.3 does not fit the source $source_name" \
		"use Linux 7.3.4 (unset KERNEL_SRC), or rebase the patch named above"
}

apply_patches() {
	local tree=$1 patch
	((!${#patches[@]})) || for patch in "${patches[@]}"; do
		apply_patch "$tree" "$patch"
	done
	mkdir -p -- "$tree/../patches"
	((!${#patches[@]})) || cp -- "${patches[@]}" "$tree/../patches"
}

# --- the tree ---------------------------------------------------------------------------------

kernel_version() { awk '/^(VERSION|PATCHLEVEL|SUBLEVEL) =/ { v = v (v == "" ? "" : ".") $3 } END { print v }' "$1/Makefile"; }

unpack() {
	local tree=$1
	mkdir -p -- "$tree"
	if [[ -d $source_path ]]; then
		tar -C "$source_path" --exclude=./.git -cf - . | tar -C "$tree" -xf -
	else
		tar -C "$tree" --strip-components=1 -xf "$source_path"
	fi
}

fresh_tree() {
	local tree=$1
	run_logged "unpacking Linux ($source_name)" "$log" unpack "$tree" ||
		die "the kernel source $source_path does not unpack" "give another KERNEL_SRC=, or remove the file and run again"
	[[ -f $tree/Kbuild && -f $tree/Makefile ]] ||
		die "$source_path holds no kernel source at its top level"
	# A tree that was built in carries its configuration and objects along.
	[[ ! -e $tree/.config ]] || run_logged "cleaning the copy" "$log" kmake "$tree" mrproper
	[[ $(kernel_version "$tree") == 7.3.* ]] ||
		say "note: this is Linux $(kernel_version "$tree"); the patches were made for 7.3.4"
	apply_patches "$tree"
}

# The whole entry that was used last, of those with that base.
entry_of() {
	local other
	finished_entries | while read -r other; do
		[[ $(<"$other/base") != "$1" ]] || ! stamp_is_good "$other" || { printf '%s' "$other"; break; }
	done
}

# A finished entry that differs only in its patches saves most of the build: its copy is unpatched
# the way it was patched, and make finds out what changed. Only its Rust and its host programs
# carry the old folder's name, and make rebuilds those.
tree_from_sibling() {
	local tree=$1 sibling applied i
	sibling=$(entry_of "$base")
	sibling=${sibling:-$(entry_of "$common_base")}
	[[ $sibling ]] || return 1
	mkdir -p -- "$(dirname -- "$tree")"
	run_logged "starting from $(basename -- "$sibling")" "$log" cp -a --reflink=auto -- "$sibling/linux" "$tree" || return 1
	applied=("$sibling"/patches/*.patch)
	for ((i = ${#applied[@]} - 1; i >= 0; i--)); do
		[[ ! -e ${applied[i]} ]] || patch -d "$tree" -p1 --batch --reverse --fuzz=0 --no-backup-if-mismatch \
			<"${applied[i]}" >>"$log" 2>&1 || return 1
	done
	apply_patches "$tree"
}

# --- configuration ----------------------------------------------------------------------------

configure() {
	local tree=$1
	kmake "$tree" allnoconfig &&
		(cd -- "$tree" && scripts/kconfig/merge_config.sh -m .config "${fragments[@]}") &&
		kmake "$tree" olddefconfig
}

# The lines of the fragments, of each symbol the last one, as merge_config.sh has it.
wanted() {
	grep -hE '^(CONFIG_|# CONFIG_.* is not set)' -- "${fragments[@]}" | tac |
		awk 'match($0, /CONFIG_[A-Za-z0-9_]+/) && !seen[substr($0, RSTART, RLENGTH)]++' | tac
}

# Kconfig drops what it cannot fulfil without a word, so every line asked for is looked up.
unfulfilled() {
	local config=$1/.config line name
	wanted | while read -r line; do
		grep -qxF -- "$line" "$config" && continue
		name=$(grep -oE 'CONFIG_[A-Za-z0-9_]+' <<<"$line")
		[[ $line == '#'* ]] && ! grep -q "^$name=" "$config" && continue
		printf '    %s (result: %s)\n' "$line" "$(grep -m1 -E "^(# )?${name}[ =]" "$config" || printf 'no such symbol, or it depends on one that is not set')"
	done
}

configured_tree() {
	local tree=$1 missing
	run_logged "configuring Linux" "$log" configure "$tree" || die "the kernel's configuration failed" "see $log"
	missing=$(unfulfilled "$tree")
	[[ ! $missing ]] || {
		say "$missing"
		die "the configuration lacks what scripts/config/ asks for, listed above" \
			"look in $tree/.config for what the symbols depend on"
	}
	# Its own words name the tool that is missing or too old.
	kmake "$tree" rustavailable >>"$log" 2>&1 || {
		kmake "$tree" rustavailable >&2 || true
		die "the kernel does not accept this Rust toolchain, see above" "run: scripts/toolchain.sh"
	}
}

# --- the build --------------------------------------------------------------------------------

kmake() {
	local tree=$1
	shift
	make -C "$tree" --no-print-directory -j"$(nproc)" LLVM="$LLVM" RUSTC="$RUSTC" HOSTRUSTC="$HOSTRUSTC" \
		RUSTDOC="$RUSTDOC" RUSTFMT="$RUSTFMT" CLIPPY_DRIVER="$CLIPPY_DRIVER" BINDGEN="$BINDGEN" "$@"
}

# What is instrumented, and how, by kbuild's own variables for one object. Where the kernel has KCOV, it covers rxe,
# whose objects' names are its own. The unwinder runs for every allocation that KASAN or kmemleak follows, and reads
# nothing but stacks: instrumented it takes a quarter of the time of the tests.
instrumented() {
	local source
	for source in "$1"/drivers/infiniband/sw/rxe/rxe*.c; do
		printf 'KCOV_INSTRUMENT_%s.o=y\n' "$(basename -- "$source" .c)"
	done
	printf '%s\n' KASAN_SANITIZE_unwind_frame.o=n UBSAN_SANITIZE_unwind_frame.o=n
}

# The files by which damage is noticed: what boots, what modules are built against, the modules.
results() {
	(cd -- "$1" && printf '%s\n' linux/arch/x86/boot/bzImage linux/Module.symvers linux/.config linux/scripts/target.json \
		linux/rust/*.rmeta linux/rust/*.so && sed 's/\.o$/.ko/; s|^|linux/|' linux/modules.order)
}

build() {
	local files instrumented
	mapfile -t instrumented < <(instrumented "$entry/linux")
	run_logged "building Linux${kind:+, kind $kind} (a quarter of an hour on two cores, once)" "$log" \
		kmake "$entry/linux" "${instrumented[@]}" ||
		die "the kernel does not build" "see $log"
	mapfile -t files < <(results "$entry")
	printf '%s\n' "$base" >"$entry/base"
	write_stamp "$entry" "${files[@]}"
}

# --- the cache --------------------------------------------------------------------------------

# Last used first.
finished_entries() { find "$cache/kernel" -mindepth 2 -maxdepth 2 -name stamp -printf '%T@ %h\n' | sort -rn | cut -d' ' -f2-; }

# Other entries without a stamp were left by a build that was killed: the lock says none is running.
tidy() {
	local other
	for other in "$cache"/kernel/*/; do
		[[ ! -d $other || -s $other/stamp ]] || rm -rf -- "$other"
	done
	finished_entries | tail -n +$((keep_entries + 1)) | while read -r other; do
		rm -rf -- "$other"
	done
}

check_space() {
	local free
	free=$(df --output=avail -BG -- "$cache" | tail -n 1 | tr -dc 0-9)
	((free >= 4)) || die "only $free GB free in $cache, and a kernel takes about 3" \
		"make room, or set XDG_CACHE_HOME to a folder elsewhere"
}

make_entry() {
	: >"$log"
	[[ ! -e $entry ]] || say "the cached kernel $entry is unfinished or damaged; removing it"
	rm -rf -- "$entry"
	tidy
	check_space
	if ! tree_from_sibling "$entry/linux"; then
		rm -rf -- "$entry"
		fresh_tree "$entry/linux"
	fi
	configured_tree "$entry/linux"
}

use_entry() {
	touch -- "$entry/stamp"
	printf '%s\n' "$entry/linux"
}

main() {
	local mode=${1:-} toolchain
	[[ $mode =~ ^(--cached|--prepare)?$ ]] || die "unknown argument: $mode" "usage: kernel.sh [--cached|--prepare]"
	mkdir -p -- "$cache/kernel" "$cache/logs"
	[[ $mode != --cached ]] || [[ $(finished_entries) ]] || exit 1
	# Built in its own surroundings: not in those of the make that called us.
	unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES ARCH CROSS_COMPILE KBUILD_OUTPUT KCFLAGS KRUSTFLAGS KBUILD_EXTMOD
	# Who comes with a toolchain in the environment has been told of it.
	toolchain=$("$project/scripts/toolchain.sh" ${RUST_LIB_SRC:+--quiet})
	eval "$toolchain"
	export LIBCLANG_PATH RUST_LIB_SRC

	# Only --cached must not download.
	if [[ $mode == --cached ]]; then find_entry --cached; else find_entry; fi
	[[ $mode == --prepare ]] || ! stamp_is_good "$entry" || { use_entry; return; }
	[[ $mode != --cached ]] || exit 1
	lock kernel
	# Another run may have built it meanwhile; and what is unpacked now must be whole.
	find_entry --verify
	[[ $mode == --prepare ]] || ! stamp_is_good "$entry" || { use_entry; return; }
	if [[ $mode == --prepare ]]; then
		entry=$cache/kernel/trial
		make_entry
		run_logged "preparing Linux" "$log" kmake "$entry/linux" prepare || die "make prepare failed" "see $log"
		printf '%s\n' "$entry/linux"
	else
		make_entry
		build
		use_entry
	fi
}

main "$@"
