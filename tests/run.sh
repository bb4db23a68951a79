#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs every test: host tests, the harness's own, KUnit and the guest tests. Provisions and builds what they need.
#
# Prints what failed, a table of suites, and as the last line `N passed, N failed`. Exit status: 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/test
harness=(python3 -B -m harness.selftest)

build_everything() {
	build_modules "$build/modules"
	build_kunit "$build/kunit"
	build_tool
	mkdir -p -- "$build/guest"
	"$project/scripts/mini-root.sh" "$build/guest/mini.cpio"
	pack "$build/guest/test.cpio" --provider "$PROVIDER" --modules "modules=$build/modules" --modules "kunit=$build/kunit"
	pack "$build/guest/mustfail.cpio" --modules "mustfail=$build/kunit/tests/mustfail"
}

# KUnit, life cycle, the demo, bad input, the exporter: one guest for all. Its verdict goes to $run/guest-result.
guest_tests() {
	"$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/test.cpio" \
		--run-dir "$run/guest" --memory 3072 --job suite --job-timeout 1200 >"$run/guest-result"
}

host_tests() {
	local rc=0
	CARGO_TERM_COLOR=never "$CARGO" test --locked --manifest-path "$project/tests/host/Cargo.toml" \
		--target-dir "$build/cargo/host" >"$run/host.log" 2>&1 || rc=$?
	echo "$rc" >"$run/host-status"
	say "host tests: cargo ended with $rc (log: $run/host.log)"
}

tool_tests() {
	local rc=0
	CARGO_TERM_COLOR=never "$CARGO" test --locked --release --manifest-path "$project/tools/rdmabuf/Cargo.toml" \
		--target-dir "$build/cargo/rdmabuf" >"$run/tool.log" 2>&1 || rc=$?
	echo "$rc" >"$run/tool-status"
	say "tests of rdmabuf: cargo ended with $rc (log: $run/tool.log)"
}

# With small guests of its own.
harness_tests() {
	local rc=0
	(cd -- "$project/tests" && GUEST_KERNEL=$KERNEL GUEST_MINI=$build/guest/mini.cpio \
		GUEST_PROJECT=$build/guest/mustfail.cpio GUEST_RUNS=$run/small "${harness[@]}" "$run/harness") \
		>"$run/harness.log" 2>&1 || rc=$?
	say "tests of the harness: ended with $rc (log: $run/harness.log)"
}

# Each part runs to its end whatever becomes of the others, and leaves files; the verdict is drawn from those.
run_everything() {
	rm -rf -- "$run"
	mkdir -p -- "$run"
	say "running the tests (logs: $run)"
	guest_tests &
	(
		host_tests
		tool_tests
		harness_tests
	) &
	wait
}

status_of() { cat -- "$run/$1-status" 2>/dev/null || echo 99; }

collect() {
	python3 -B "$project/tests/collect.py" --kdir "$KDIR" \
		--ktap "$run/guest/share/kunit" --ktap "$run/guest/share/ktap" --ktap "$run/harness" \
		--console "$run/guest/console.log" --guest-result "$(cat -- "$run/guest-result" 2>/dev/null)" \
		--cargo host "$(status_of host)" "$run/host.log" --cargo rdmabuf "$(status_of tool)" "$run/tool.log" "$@"
}

# A run that cannot be made has failed, and says so in the form that readers look for.
has_run=''
trap '[[ $has_run ]] || printf "\nthe tests could not be run, see above\n0 passed, 1 failed\n"' EXIT

provision
build_everything
run_everything
has_run=1
collect "$@"
