#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Packs the project's own files into the initramfs that goes behind the guest root's.
#
#   scripts/pack-project.sh --kdir KDIR --out FILE [--provider FILE] [--modules NAME=FOLDER ...]
#                           [--over FOLDER ...]
#
#   --kdir KDIR            built kernel tree; its modules go to /lib/modules/RELEASE
#   --provider FILE        rxe's libibverbs provider, put in the place of the guest root's own
#   --modules NAME=FOLDER  the .ko files in FOLDER go to /project/NAME
#   --over FOLDER          all that is in FOLDER goes to the same place below /
#
# In the guest: /init, /project/tests (tests/guest), /project/bin/rdmabuf and the preloads in /project/lib if they are built, the rest as above.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

kdir='' out='' provider='' modules=() overlays=()
while (($# > 1)); do
	case $1 in
	--kdir) kdir=$2 ;;
	--out) out=$2 ;;
	--provider) provider=$2 ;;
	--modules) modules+=("$2") ;;
	--over) overlays+=("$2") ;;
	*) die "unknown option $1" "see the top of $0" ;;
	esac
	shift 2
done
[[ $kdir && $out && $# == 0 ]] || die 'usage: pack-project.sh --kdir KDIR --out FILE [option ...]'
[[ -r $kdir/include/config/kernel.release ]] || die "$kdir is not a built kernel tree" 'build one with: make kernel'
command -v depmod >/dev/null || [[ -x /sbin/depmod ]] || die 'depmod is missing' 'install it with: apt-get install kmod'

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT

# Under /usr throughout: a folder named /lib would replace the guest root's link of that name.
add_kernel_modules() {
	local release folder object
	release=$(<"$kdir/include/config/kernel.release")
	folder=lib/modules/$release
	mkdir -p -- "$stage/$folder"
	cp -- "$kdir"/modules.{order,builtin,builtin.modinfo} "$stage/$folder/"
	while read -r object; do
		[[ -r $kdir/${object%.o}.ko ]] || die "$kdir/${object%.o}.ko is missing" "finish the build: make -C $kdir modules"
		install -D -m 644 -- "$kdir/${object%.o}.ko" "$stage/$folder/kernel/${object%.o}.ko"
	done <"$kdir/modules.order"
	PATH=$PATH:/sbin depmod -b "$stage" "$release"
	mkdir -p -- "$stage/usr/lib"
	mv -- "$stage/lib/modules" "$stage/usr/lib/modules"
	rmdir -- "$stage/lib"
}

add_project_modules() {
	local entry name folder
	for entry in ${modules[@]+"${modules[@]}"}; do
		name=${entry%%=*} folder=${entry#*=}
		[[ -d $folder ]] || die "no folder $folder" 'build the modules with: make all'
		mkdir -p -- "$stage/project/$name"
		find "$folder" -maxdepth 1 -name '*.ko' -exec install -m 644 -t "$stage/project/$name" -- {} +
	done
}

add_tests() {
	install -D -m 755 -- "$project/tests/guest/init" "$stage/init"
	mkdir -p -- "$stage/project/tests"
	cp -R -- "$project/tests/guest/." "$stage/project/tests/"
	rm -rf -- "$stage/project/tests/__pycache__"
}

add_tool() {
	local tool=$project/build/bin/rdmabuf
	[[ ! -x $tool ]] || install -D -m 755 -- "$tool" "$stage/project/bin/rdmabuf"
}

# init names the folder in LD_LIBRARY_PATH.
add_preloads() {
	local library
	for library in "$project"/build/lib/librdmabuf-*.so; do
		[[ ! -r $library ]] || install -D -m 755 -t "$stage/project/lib" -- "$library"
	done
}

# libibverbs finds a provider by its folder and name.
add_provider() {
	[[ $provider ]] || return 0
	install -D -m 644 -- "$provider" "$stage/usr/lib/x86_64-linux-gnu/libibverbs/${provider##*/}"
}

add_overlays() {
	local folder
	for folder in ${overlays[@]+"${overlays[@]}"}; do
		cp -a -- "$folder/." "$stage/"
	done
}

add_kernel_modules
add_project_modules
add_tests
add_tool
add_preloads
add_provider
add_overlays
mkdir -p -- "$(dirname -- "$out")"
(cd -- "$stage" && find . -mindepth 1 -print0 | cpio --null -o -H newc -R 0:0 --quiet) >"$out.new"
mv -- "$out.new" "$out"
