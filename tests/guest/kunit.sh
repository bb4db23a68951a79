# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
# Runs the KUnit suites of a module by inserting it, sourced.

KUNIT=/sys/kernel/debug/kunit

# Any allocation may fail, but none does unless a case asks for it; and nothing is logged then.
allow_failing_allocations() {
	for kunit_attr in failslab fail_page_alloc; do
		echo N >"/sys/kernel/debug/$kunit_attr/ignore-gfp-wait" || return 1
		echo 0 >"/sys/kernel/debug/$kunit_attr/verbose" || return 1
	done
	echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
}

# run_kunit MODULE-FILE: each suite that appears leaves its results as /share/kunit/SUITE.ktap.
# Inserting a module succeeds whatever its suites say, and its results go when it is removed.
run_kunit() {
	kunit_module=$(basename "$1" .ko)
	mkdir -p /share/kunit
	ls "$KUNIT" >/tmp/kunit-before
	echo "rdma_dmabuf-suite: KUnit of $kunit_module" >/dev/kmsg
	allow_failing_allocations || return 1
	insmod "$1" || return 1
	for kunit_suite in "$KUNIT"/*; do
		kunit_suite=${kunit_suite##*/}
		grep -qxF "$kunit_suite" /tmp/kunit-before && continue
		cat "$KUNIT/$kunit_suite/results" >"/share/kunit/$kunit_suite.ktap" || return 1
	done
	rmmod "$kunit_module"
}
