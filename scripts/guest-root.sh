#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Prints the path of the guest's base initramfs: user space from Debian 13 packages; builds it
# first where it is not in the cache. It has no /init and no file of the project: those come in
# a second initramfs at each run.
#   --entry   print the folder that holds it, with packages.txt and libibverbs.so.1 beside it
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

suite=trixie
# A shell and tools; network and RDMA; pyverbs with rdma-core's tests; libfabric; strace.
packages=(busybox kmod iproute2 iputils-ping
	rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest python3-pyverbs libfabric-bin strace)
# The file of more than 8 MiB that the demo sends.
packages+=(libmagic-mgc)
# What no guest of ours needs. It boots without an init system, and is never upgraded; mmdebstrap
# takes the first two from the host.
unwanted=(
	etc/hostname etc/resolv.conf
	etc/apt etc/systemd etc/udev etc/init.d etc/cron.daily
	usr/lib/systemd usr/lib/udev usr/lib/apt usr/lib/dpkg usr/lib/init
	usr/lib/x86_64-linux-gnu/gconv usr/lib/x86_64-linux-gnu/perl-base usr/lib/x86_64-linux-gnu/systemd
	usr/lib/x86_64-linux-gnu/libapt-pkg.so.7.0{,.0} usr/lib/x86_64-linux-gnu/libapt-private.so.0.0{,.0}
	usr/share/perl5 usr/share/zoneinfo usr/share/locale usr/share/man usr/share/info usr/share/common-licenses
	usr/share/bash-completion usr/share/debconf usr/share/lintian usr/share/bug usr/share/polkit-1
	var/lib/apt var/lib/dpkg var/cache var/log
	usr/bin/perl usr/bin/perl5.40.1 usr/bin/dpkg{,-deb,-query,-split} usr/bin/apt{,-get,-cache,-mark} usr/bin/sqv
)
log=$cache/logs/guest-root.log

# The list and the recipe, which is this file.
entry=$cache/guest/$(short_hash <"$0")

# mmdebstrap runs apt without the host's configuration, and so without its proxy.
apt_proxy() { apt-config dump --format '%f "%v";%n' Acquire::http::Proxy Acquire::https::Proxy | grep -v ' "";$' || true; }

install_packages() {
	local root=$1 site=$2 proxy
	mapfile -t proxy < <(apt_proxy)
	as_root mmdebstrap --mode=root --variant=minbase --format=directory --architectures=amd64 \
		--keyring="$debian_keyring" \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "2"' \
		${proxy[@]+"${proxy[@]/#/--aptopt=}"} \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/rdma-core' --dpkgopt='path-include=/usr/share/doc/rdma-core/tests*' \
		--include="$(IFS=, && echo "${packages[*]}")" \
		"$suite" "$root" "deb [signed-by=$debian_keyring] $site $suite main"
}

# What is in it, for people and for rdma-core.sh; kept outside, as the guest loses its dpkg.
record() {
	local root=$1 into=$2
	dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat '${Package} ${Version}\n' >"$into/packages.txt" &&
		cp -L -- "$root/usr/lib/x86_64-linux-gnu/libibverbs.so.1" "$into/libibverbs.so.1"
}

slim() {
	local root=$1
	as_root gunzip -- "$root"/usr/share/doc/rdma-core/tests/*.gz &&
		(cd -- "$root" && as_root rm -rf -- "${unwanted[@]}") &&
		as_root find "$root" -xdev -name __pycache__ -prune -exec rm -rf -- {} + &&
		as_root mkdir -p -- "$root/var/log" "$root/var/cache" "$root/share" "$root/project"
}

pack() {
	local root=$1 into=$2
	# shellcheck disable=SC2016
	as_root sh -c 'cd -- "$1" && find . -xdev ! -path "./proc/*" ! -path "./sys/*" ! -path "./dev/*" -print0 |
		LC_ALL=C sort -z | cpio --null --create --format=newc --quiet' sh "$root" | zstd -q -T0 -6 -o "$into/root.cpio.zst"
}

build() {
	local work=$entry.new site
	site=$(mirror_site main) || die "there is no Debian mirror to build the guest from" "$(mirror_remedy)"
	can_be_root || die "making the guest's root takes root, and there is no sudo" "run as root, or install sudo"
	# The lock says that no other run is at work on these.
	as_root rm -rf -- "$entry" "$cache"/guest/*.new
	mkdir -p -- "$work"
	: >"$log"
	run_logged "guest: installing Debian $suite packages in a folder" "$log" install_packages "$work/root" "$site" ||
		die "the guest's packages could not be installed" "$(mirror_remedy); the log: $log"
	run_logged "guest: packing" "$log" finish "$work/root" "$work" || die "the guest's root could not be packed" "see $log"
	as_root rm -rf -- "$work/root"
	mv -- "$work" "$entry"
	write_stamp "$entry" root.cpio.zst packages.txt libibverbs.so.1
}

finish() { record "$1" "$2" && slim "$1" && pack "$1" "$2"; }

main() {
	local mode=${1:-}
	[[ $mode =~ ^(--entry)?$ ]] || die "unknown argument: $mode" "usage: guest-root.sh [--entry]"
	if ! stamp_is_good "$entry"; then
		mkdir -p -- "$cache/guest" "$cache/logs"
		lock guest
		stamp_is_good "$entry" || build
	fi
	if [[ $mode ]]; then
		printf '%s\n' "$entry"
	else
		printf '%s\n' "$entry/root.cpio.zst"
	fi
}

main "$@"
