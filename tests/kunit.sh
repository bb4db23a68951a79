#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs the importer's KUnit suites alone, in a guest of busybox: the short way round while the importer changes.
#
# The last line is `N passed, N failed`; exit status 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/kunit

provision_kernel
build_kunit "$build/kunit"
mkdir -p -- "$build/guest"
"$project/scripts/mini-root.sh" "$build/guest/mini.cpio"
pack "$build/guest/kunit.cpio" --modules "kunit=$build/kunit"
result=$("$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$build/guest/mini.cpio" --initrd "$build/guest/kunit.cpio" \
	--run-dir "$run" --memory 512 --job kunit --job-timeout 120) || true
mapfile -t suites < <(kunit_suites)
python3 -B "$project/tests/collect.py" --kdir "$KDIR" --ktap "$run/share/kunit" --console "$run/console.log" \
	--guest-result "$result" "$@" --suites "${suites[@]}"
