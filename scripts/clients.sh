#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Prints the folder that holds what tests/clients is built against, and what the guest needs beyond its root
# to run it; downloads it first where it is not in the cache. In there:
#   include/  headers of libfabric and UCX    lib/  the libraries to link against
#   guest/    files that go over the guest root: UCX and ucx_info
#   packages.txt
# All of it from packages of the guest's release. Nothing is installed.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

# The guest's.
suite=trixie
packages=(libfabric-dev libfabric1 libucx-dev libucx0 ucx-utils)
# Of UCX's modules: those whose libraries the guest root has.
modules=(cma ib ib_mlx5 rdmacm)
libraries=usr/lib/x86_64-linux-gnu
log=$cache/logs/clients.log

# The list and the recipe, which is this file.
entry=$cache/clients/$(short_hash <"$0")

download() {
	local package
	for package in "${packages[@]}"; do
		suite_download "$suite" "$package" "$1/deb" || return 1
	done
	for package in "$1"/deb/*.deb; do
		# shellcheck disable=SC2016 # dpkg's variables
		dpkg-deb --show --showformat '${Package} ${Version}\n' "$package" >>"$1/packages.txt" || return 1
		dpkg-deb --extract "$package" "$1/tree" || return 1
	done
}

# Sorts the unpacked packages into the folders above.
arrange() {
	local work=$1 name
	mkdir -p -- "$work/lib" "$work/guest/usr/bin" "$work/guest/$libraries/ucx"
	mv -- "$work/tree/usr/include" "$work/include"
	cp -a -- "$work/tree/$libraries"/lib{fabric,uct,ucs}.so.* "$work/lib/"
	cp -a -- "$work/tree/usr/bin/ucx_info" "$work/guest/usr/bin/"
	cp -a -- "$work/tree/$libraries"/lib{ucm,ucp,ucs,uct}.so.* "$work/guest/$libraries/"
	for name in "${modules[@]}"; do
		cp -a -- "$work/tree/$libraries/ucx/libuct_$name".so.* "$work/guest/$libraries/ucx/"
	done
	rm -rf -- "$work/tree" "$work/deb"
}

build() {
	local work=$entry.new files rc=0
	# The lock says that no other run is at work on these.
	rm -rf -- "$entry" "$cache"/clients/*.new
	mkdir -p -- "$work"
	: >"$log"
	suite_update "$suite" || rc=$?
	((rc == 0)) || die "there is no Debian mirror with $suite to take ${packages[*]} from" "$(mirror_remedy)"
	run_logged "clients: ${#packages[@]} packages of $suite" "$log" download "$work" ||
		die "these packages could not be downloaded: ${packages[*]}" "$(mirror_remedy); the log: $log"
	arrange "$work"
	mv -- "$work" "$entry"
	mapfile -t files < <(cd -- "$entry" && find . -type f -name '*.so.*' | sort)
	write_stamp "$entry" packages.txt "${files[@]}"
}

main() {
	((!$#)) || die "unknown argument: $1" "usage: clients.sh"
	if ! stamp_is_good "$entry"; then
		mkdir -p -- "$cache/clients" "$cache/logs"
		lock clients
		stamp_is_good "$entry" || build
	fi
	printf '%s\n' "$entry"
}

main "$@"
