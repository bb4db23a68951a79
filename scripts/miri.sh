#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs the host tests under Miri, which sees undefined behaviour where the kernel's own build cannot.
#
#   scripts/miri.sh ci|long LOG
#
# Exit status: cargo's. The toolchain is a nightly of its own, in the cache; the machine's own is not touched.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

size=${1:?usage: miri.sh ci|long LOG} log=${2:?usage: miri.sh ci|long LOG}
# Miri takes a hundred times as long: as many cases of each property as that leaves.
case $size in
ci) cases=1 ;;
long) cases=32 ;;
*) die "unknown size: $size" 'usage: miri.sh ci|long LOG' ;;
esac
export RUSTUP_HOME=$cache/miri/rustup CARGO_TARGET_DIR=$project/build/cargo/miri
unset RUSTC RUSTFLAGS RUSTUP_TOOLCHAIN CARGO RUSTDOC

command -v rustup >/dev/null || die 'Miri comes by rustup, which is missing' 'install it with: apt-get install rustup'
lock miri
if ! rustup run nightly cargo miri --version >/dev/null 2>&1; then
	run_logged 'fetching a nightly toolchain with Miri' "$cache/logs/miri.log" \
		timeout 600 rustup toolchain install nightly --profile minimal -c miri -c rust-src ||
		die 'the nightly toolchain with Miri cannot be had' 'check that rustup reaches its server (RUSTUP_DIST_SERVER)'
fi
# The failed cases are not to be kept: Miri's files are not the host's.
CARGO_TERM_COLOR=never PROPTEST_CASES=$cases MIRIFLAGS='-Zmiri-disable-isolation' \
	rustup run nightly cargo miri test --locked --manifest-path "$project/tests/host/Cargo.toml" >"$log" 2>&1
