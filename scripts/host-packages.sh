#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Installs the Debian packages that are missing, from the host's own release and no other.
# Does nothing, and asks for nothing, where all are there.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

# The kernel and its modules.
packages=(gcc libc6-dev flex bison bc libelf-dev libssl-dev perl python3 git make patch xz-utils cpio zstd kmod)
# clang 19 is in both Debian 12 and 13; bindgen loads libclang.
packages+=(clang-19 lld-19 llvm-19 libclang-19-dev)
# rdma-core's provider for rxe.
packages+=(cmake ninja-build pkg-config libnl-3-dev libnl-route-3-dev libudev-dev)
# The guest.
packages+=(mmdebstrap qemu-system-x86)
# Downloads, locks, and `make check`.
packages+=(debian-archive-keyring ca-certificates curl util-linux shellcheck)

# A rustc that is already there and new enough is used: toolchain.sh says more about it.
has_usable_rustc() {
	local version
	version=$("${RUSTC:-rustc}" --version 2>/dev/null | awk '{ print $2 }') || true
	[[ $version ]] && printf '1.85.0\n%s\n' "$version" | sort --check=quiet --version-sort
}

# Else Debian's own: release 12 has a current one under other names, in its security suite.
distribution_rust() {
	case $1 in
	12) printf '%s\n' rustc-web cargo-web rust-web-src rustfmt-web rust-web-clippy ;;
	*) printf '%s\n' rustc cargo rust-src rustfmt rust-clippy ;;
	esac
}

# Those of the arguments that are not installed.
missing_of() {
	comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' -- "$@" 2>/dev/null |
			awk '$2 == "installed" { print $1 }' | sort -u)
}

main() {
	local release missing log=$cache/logs/host-packages.log
	release=$(os_release VERSION_ID)
	[[ $(os_release ID) == debian ]] ||
		die "this is $(os_release PRETTY_NAME), and only Debian 12 and 13 are supported" \
			"on another system install the counterparts of: ${packages[*]}; then 'make all KDIR=...' works"
	[[ $release == 12 || $release == 13 ]] || say "Debian ${release:-of unknown version} was not tried; 12 and 13 were"
	# rustc of the machine wins; Debian's would conflict with a rustup package.
	has_usable_rustc || mapfile -t -O "${#packages[@]}" packages < <(distribution_rust "$release")
	# Debian 13 has a bindgen that the kernel accepts; Debian 12's is too old, so toolchain.sh builds one.
	[[ $release == 12 ]] || command -v bindgen >/dev/null || packages+=(bindgen)

	mapfile -t missing < <(missing_of "${packages[@]}")
	((${#missing[@]})) || return 0
	can_be_root || die "missing packages, and neither root nor sudo to install them" \
		"run as root: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
	lock host-packages
	run_logged "apt-get update" "$log" as_root apt-get update ||
		die "apt-get update failed" "$(mirror_remedy)"
	run_logged "installing ${#missing[@]} packages" "$log" \
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}" ||
		die "these packages could not be installed: ${missing[*]}" "see $log"
}

main
