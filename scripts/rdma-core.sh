#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Prints the path of rxe's libibverbs provider with patches/rdma-core applied; builds it first
# where it is not in the cache. It is for the guest root: built from the source package of the
# very version that is in there, as a provider fits no other libibverbs than its own.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

# The guest's.
suite=trixie
patches=("$project"/patches/rdma-core/*.patch)
log=$cache/logs/rdma-core.log

# --- the key ----------------------------------------------------------------------------------

# Sets guest, version, sources and entry.
find_entry() {
	[[ -e ${patches[0]} ]] || die "there is no patch in patches/rdma-core" "restore it: git restore patches/rdma-core"
	guest=$("$project/scripts/guest-root.sh" --entry)
	version=$(guest_version ibverbs-providers)
	[[ $version ]] || die "the guest root has no ibverbs-providers" "remove $guest and run again"
	sources=$cache/source/rdma-core-$version
	entry=$cache/rdma-core/$(cat -- "$0" "${patches[@]}" "$guest/packages.txt" "$guest/libibverbs.so.1" | short_hash)
}

# The source version of a package in the guest: +bN counts rebuilds of the same source.
guest_version() { awk -v package="$1" '$1 == package { sub(/\+b[0-9]+$/, "", $2); print $2 }' "$guest/packages.txt"; }

# --- the source -------------------------------------------------------------------------------

# Without the .dsc, which not every mirror has: the signed list holds the tarballs' hashes as well.
download() {
	local part
	for part in --tar-only --diff-only; do
		(cd -- "$1" && suite_apt "$suite/source" apt-get --download-only "$part" source "rdma-core=$version") || return 1
	done
}

update_list() {
	local rc=0 offered
	suite_update "$suite/source" || rc=$?
	((rc != 2)) || die "the source of rdma-core $version cannot be had: no Debian mirror answers" "$(mirror_remedy)"
	((rc == 0)) || die "the Debian mirror has no list of the source packages in $suite" \
		"take a mirror that has them; what apt said: $cache/apt/$suite/source/update.log"
	offered=$(suite_apt "$suite/source" apt-cache showsrc --only-source rdma-core | awk '$1 == "Version:" { print $2 }')
	grep -qxF -- "$version" <<<"$offered" ||
		die "the guest root has rdma-core $version, and the mirror has the source of ${offered:-none}" \
			"remove $guest and run again, for a guest root of the mirror's present packages"
}

fetch_source() {
	local work=$sources.new
	! stamp_is_good "$sources" || return 0
	update_list
	rm -rf -- "$sources" "$work"
	mkdir -p -- "$work"
	run_logged "rdma-core: source $version from Debian" "$log" download "$work" ||
		die "the source of rdma-core $version could not be downloaded" "$(mirror_remedy)"
	mv -- "$work" "$sources"
	write_stamp "$sources" "$(cd -- "$sources" && echo ./*.orig.tar.?z)" "$(cd -- "$sources" && echo ./*.debian.tar.?z)"
}

# --- the tree ---------------------------------------------------------------------------------

# No fuzz: a hunk that lands beside its place compiles, and is wrong.
patch_tree() {
	patch -d "$1" -p1 --batch --forward --fuzz=0 --no-backup-if-mismatch --reject-file="$3" <"$2"
}

# As dpkg-source does it: upstream's tarball, then Debian's folder, then the patches in there.
unpack() {
	local tree=$1 name
	mkdir -p -- "$tree"
	tar -C "$tree" --strip-components=1 -xf "$(echo "$sources"/*.orig.tar.?z)" || return 1
	tar -C "$tree" -xf "$(echo "$sources"/*.debian.tar.?z)" || return 1
	[[ -e $tree/debian/patches/series ]] || return 0
	sed 's/#.*//' "$tree/debian/patches/series" | while read -r name _; do
		[[ ! $name ]] || patch_tree "$tree" "$tree/debian/patches/$name" - || return 1
	done
}

apply_patches() {
	local tree=$1 patch name out reject
	for patch in "${patches[@]}"; do
		name=$(basename -- "$patch") reject=$cache/logs/$(basename -- "$patch" .patch).rej
		rm -f -- "$reject"
		if ! out=$(patch_tree "$tree" "$patch" "$reject" 2>&1); then
			say "$name does not apply to rdma-core $version:"
			say "    ${out//$'\n'/$'\n    '}"
			die "patches/rdma-core does not fit the guest's rdma-core" "rebase $name on $version"
		fi
		printf '%s\n' "$out" >>"$log"
	done
}

# --- the build --------------------------------------------------------------------------------

# Of Debian's own options only the build type reaches a provider. The path of the libibverbs that
# is linked against must not: the guest has its own.
compile() {
	local tree=$1 into=$2
	cmake -S "$tree" -B "$into" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_RPATH=ON \
		-DNO_MAN_PAGES=1 -DNO_PYVERBS=1 &&
		ninja -C "$into" "lib/$provider"
}

# The number in the names of the private interface and of every provider.
private_abi() { readelf --version-info --wide "$1" | grep -oE 'IBVERBS_PRIVATE_[0-9]+' | sort -u | tr -dc '0-9\n'; }

# versioned needed|offered FILE: its dynamic symbols as name@version, sorted.
versioned() {
	readelf --dyn-syms --wide "$2" | awk -v kind="$1" '
		$8 ~ /@/ && ($7 == "UND") == (kind == "needed") { sub(/@@/, "@", $8); print $8 }' | LC_ALL=C sort -u
}

# The guest's loader would refuse the file, and libibverbs would then go without rxe.
check_fit() {
	local file=$1 lacking needs has
	lacking=$(LC_ALL=C comm -23 <(versioned needed "$file" | grep @IBVERBS_) <(versioned offered "$guest/libibverbs.so.1"))
	[[ ! $lacking ]] || die "the built provider needs what the guest's libibverbs.so.1 lacks: ${lacking//$'\n'/, }" \
		"the patch must keep to the interface of rdma-core $version"
	needs=$(versioned needed "$file" | sed -n 's/.*@GLIBC_\([0-9.]*\)$/\1/p' | sort --version-sort | tail -n 1)
	has=$(guest_version libc6)
	has=${has%%-*}
	printf '%s\n%s\n' "$needs" "$has" | sort --check=quiet --version-sort ||
		die "the built provider needs glibc $needs, and the guest has $has" "build on Debian 12 or 13"
}

build() {
	local work=$entry.new abi source_abi
	# The lock says that no other run is at work on these.
	rm -rf -- "$entry" "$cache"/rdma-core/*.new
	mkdir -p -- "$work/result"
	: >"$log"
	fetch_source
	run_logged "rdma-core: unpacking" "$log" unpack "$work/tree" ||
		die "the source of rdma-core $version does not unpack" "remove $sources and run again"
	abi=$(private_abi "$guest/libibverbs.so.1")
	source_abi=$(sed -n 's/^set(IBVERBS_PABI_VERSION "\([0-9]*\)").*/\1/p' "$work/tree/CMakeLists.txt")
	[[ $abi && $abi == "$source_abi" ]] ||
		die "the guest's libibverbs.so.1 has IBVERBS_PRIVATE_${abi:-(none)}, and rdma-core $version makes IBVERBS_PRIVATE_$source_abi" \
			"remove $guest and run again"
	provider=librxe-rdmav$abi.so
	apply_patches "$work/tree"
	run_logged "rdma-core: building $provider" "$log" compile "$work/tree" "$work/build" ||
		die "rxe's provider does not build" "see $log"
	check_fit "$work/build/lib/$provider"
	install --strip -m 644 -- "$work/build/lib/$provider" "$work/result/$provider"
	mv -- "$work/result" "$entry"
	rm -rf -- "$work"
	write_stamp "$entry" "$provider"
}

main() {
	((!$#)) || die "unknown argument: $1" "usage: rdma-core.sh"
	# Built in its own surroundings, whatever the caller builds with.
	unset CC CFLAGS CPPFLAGS LDFLAGS
	find_entry
	if ! stamp_is_good "$entry"; then
		mkdir -p -- "$cache/rdma-core" "$cache/logs"
		lock rdma-core
		stamp_is_good "$entry" || build
	fi
	printf '%s\n' "$entry"/librxe-rdmav*.so
}

main "$@"
