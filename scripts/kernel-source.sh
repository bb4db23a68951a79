#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Finds the kernel's source and prints "NAME PATH": what it is called, and its tree or tarball.
# KERNEL_SRC= (a tree or a tarball), else the cache, else Debian's linux-source, else kernel.org.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

series=7.3 tested=7.3.4
kernel_org=${KERNEL_ORG:-https://cdn.kernel.org/pub/linux/kernel/v7.x}
sources=$cache/source
log=$cache/logs/kernel-source.log

# --- KERNEL_SRC -------------------------------------------------------------------------------

# A tarball is named after its contents, a tree after the names, sizes and times of its files.
given_source() {
	local path
	path=$(realpath -e -- "$KERNEL_SRC" 2>/dev/null) || die "KERNEL_SRC=$KERNEL_SRC does not exist"
	if [[ -f $path ]]; then
		printf 'tarball-%s %s\n' "$(short_hash <"$path")" "$path"
	elif [[ -f $path/Kbuild && -f $path/MAINTAINERS ]]; then
		printf 'tree-%s %s\n' "$(find "$path" -name .git -prune -o -type f -printf '%P %s %T@\n' | LC_ALL=C sort | short_hash)" "$path"
	else
		die "KERNEL_SRC=$path is neither a kernel tree nor a tarball of one"
	fi
}

# --- the cache --------------------------------------------------------------------------------

# An entry is a folder named after its version and origin, with the tarball and a stamp.
# The stamp's hash is compared when the tarball is unpacked (--verify), not at every run.
cached_source() {
	local stamp
	stamp=$(printf '%s\n' "$sources"/"$series"*/stamp | sort --version-sort | tail -n 1)
	[[ -s $stamp ]] && printf '%s %s\n' "$(basename -- "${stamp%/stamp}")" "${stamp%/stamp}/linux.tar.xz"
}

# keep NAME FILE: moves a finished download into the cache.
keep() {
	local entry=$sources/$1
	rm -rf -- "$entry"
	mkdir -p -- "$entry"
	mv -- "$2" "$entry/linux.tar.xz"
	write_stamp "$entry" linux.tar.xz
}

# --- Debian -----------------------------------------------------------------------------------

# The package is unpacked, not installed. Its tarball is upstream's with Debian's patches.
from_debian() {
	local found suite version work=$sources/debian.new
	found=$(find_in_suites "linux-source-$series" "^${series//./\\.}\.") || return 1
	read -r suite version <<<"$found"
	rm -rf -- "$work"
	suite_download "$suite" "linux-source-$series=$version" "$work" || return 1
	dpkg-deb --fsys-tarfile "$work"/*.deb |
		tar -x -C "$work" --strip-components=3 "./usr/src/linux-source-$series.tar.xz" || return 1
	keep "${version%%-*}-debian" "$work/linux-source-$series.tar.xz" || return 1
	rm -rf -- "$work"
}

# --- kernel.org -------------------------------------------------------------------------------

from_kernel_org() {
	local name=linux-$tested.tar.xz work=$sources/kernel.org.new hash
	rm -rf -- "$work"
	mkdir -p -- "$work"
	curl -fsSL --connect-timeout 20 --retry 2 -o "$work/sums" "$kernel_org/sha256sums.asc" || return 1
	hash=$(awk -v name="$name" '$2 == name { print $1 }' "$work/sums")
	[[ $hash ]] || { say "$kernel_org lists no $name"; return 1; }
	curl -fSL --connect-timeout 20 --retry 2 -o "$work/$name" "$kernel_org/$name" || return 1
	printf '%s  %s\n' "$hash" "$work/$name" | sha256sum --check --quiet || return 1
	keep "$tested-kernel.org" "$work/$name" || return 1
	rm -rf -- "$work"
}

# --- the choice -------------------------------------------------------------------------------

verify() {
	local name path entry
	read -r name path <<<"$(cached_source)"
	entry=$(dirname -- "$path")
	stamp_is_good "$entry" && return
	say "the cached source $name is damaged; removing it"
	rm -rf -- "$entry"
}

main() {
	if [[ ${KERNEL_SRC:-} ]]; then
		given_source
		return
	fi
	lock kernel-source
	[[ ${1:-} != --verify ]] || ! cached_source >/dev/null || verify
	cached_source && return
	[[ ${1:-} != --cached ]] || return 1
	run_logged "kernel source: linux-source-$series from Debian" "$log" from_debian ||
		run_logged "kernel source: linux-$tested from kernel.org" "$log" from_kernel_org ||
		die "no source of Linux $series: neither the Debian mirror nor $kernel_org gave one" \
			"$(mirror_remedy); or set KERNEL_SRC= to a tree or tarball of Linux $tested"
	cached_source
}

main "$@"
