#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs the tests on kernels that notice more, and those that are about what such a kernel notices: injected faults,
# hostile users, kills, pressure, bounce buffers, a real DMA engine. Provisions and builds what that needs.
#
#   tests/debug.sh [--long] [option of collect.py ...]
#
# --long has more rounds, all guest tests, the programs of `make test-clients`, and a kernel with KCSAN. Prints what failed, a table of what was tried, a table of suites, and as the last line
# `N passed, N failed`. Exit status: 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/debug
out=$build/debug
image=arch/x86/boot/bzImage
long='' size=ci rounds=20 append=''
# Leaks are looked for where allocations fail. That, and the life of objects, make all else take twice as long.
lighter=(--append 'kmemleak=off no_debug_objects')
failed_steps=()
if [[ ${1:-} == --long ]]; then
	long=1 size=long rounds=500 append=long=1 lighter=()
	shift
fi

# with_kernel KIND COMMAND...: with KDIR and KERNEL of that kind.
with_kernel() {
	local -x KDIR KERNEL
	KDIR=$(KERNEL_KIND=$1 "$project/scripts/kernel.sh")
	KERNEL=$KDIR/$image
	"${@:2}"
}

build_debug() {
	build_modules "$out/modules" CONFIG_RDMA_DMABUF_EDU=m
	build_kunit "$out/kunit"
	pack "$out/debug.cpio" --provider "$PROVIDER" --modules "modules=$out/modules" --modules "kunit=$out/kunit" \
		--modules "edu=$out/modules/tests/edu"
	printf '%s\n' "$KDIR" >"$out/kdir"
}

build_other() {
	build_kunit "$out/kunit-$1"
	pack "$out/$1.cpio" --modules "kunit=$out/kunit-$1"
	printf '%s\n' "$KDIR" >"$out/kdir-$1"
}

# The plug-in interface of QEMU has no header on Debian 12; its number changed with 9.0.
build_plugin() {
	local api=1
	(($(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p') < 9)) || api=2
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared "-DAPI=$api" -o "$out/coverage.so" \
		"$project/tests/coverage/plugin.c"
}

build_everything() {
	mkdir -p -- "$out" "$build/guest"
	build_tool
	"$project/scripts/mini-root.sh" "$build/guest/mini.cpio"
	# The kernel would take half a minute for it, instrumented as it is.
	zstd -dcq -- "$GUEST_ROOT" >"$out/root.cpio"
	run_logged 'building the coverage plug-in' "$build/log/plugin.log" build_plugin
	with_kernel debug build_debug
	with_kernel plain build_other plain
	[[ ! $long ]] || with_kernel kcsan build_other kcsan
}

# guest NAME [option of qemu.sh ...]: on the debug kernel; its verdict goes to $run/NAME.result.
# no5lvl: while the kernel finds out what the processor can do, an interrupt makes KASAN take all memory for none.
guest() {
	local name=$1
	shift
	"$project/scripts/qemu.sh" --kernel "$(<"$out/kdir")/$image" --initrd "$out/root.cpio" --initrd "$out/debug.cpio" \
		--run-dir "$run/$name" --append "no5lvl rounds=$rounds $append" "$@" >"$run/$name.result" || true
}

lighter_guest() { guest "$@" ${lighter[@]+"${lighter[@]}"}; }

other_guest() {
	local name=$1
	"$project/scripts/qemu.sh" --kernel "$(<"$out/kdir-$name")/$image" --initrd "$build/guest/mini.cpio" \
		--initrd "$out/$name.cpio" --run-dir "$run/$name" --memory 512 --job kunit --job-timeout 300 \
		>"$run/$name.result" || true
}

edu_guest() {
	local name=$1
	shift
	lighter_guest "$name" --job edu_suite --job-timeout 600 --append "edu=$name" \
		--qemu-arg -machine --qemu-arg q35 --qemu-arg -device --qemu-arg edu,dma_mask=0xffffffffffffffff "$@"
}

# Instructions are only seen by TCG.
fuzz() {
	ACCEL=tcg lighter_guest fuzz --job fuzz_suite --memory 2048 --job-timeout $((long ? 7200 : 1200)) \
		--qemu-arg -plugin --qemu-arg "$out/coverage.so,out=$run/executed"
}

miri() {
	local rc=0
	"$project/scripts/miri.sh" "$size" "$run/miri.log" || rc=$?
	echo "$rc" >"$run/miri-status"
	say "host tests under Miri: ended with $rc (log: $run/miri.log)"
}

# One machine at a time: two would keep each other's processors waiting, and take several times as long.
run_everything() {
	other_guest plain
	[[ ! $long ]] || other_guest kcsan
	edu_guest iommu --append "iommu.strict=1 intel_iommu=on" --qemu-arg -device --qemu-arg intel-iommu,intremap=off
	edu_guest limit --memory 5120
	edu_guest bounce --append swiotlb=force
	fuzz
	guest checks --job debug_suite --memory 3072 --job-timeout $((long ? 7200 : 1800))
	lighter_guest kills --job kills_suite --memory 2048 --job-timeout $((long ? 36000 : 1800)) \
		--qemu-arg -vga --qemu-arg none --qemu-arg -device --qemu-arg virtio-gpu-pci
	miri
}

# What of which objects the fuzzer went through, in build/run/debug/coverage.
covered() {
	local rxe
	rxe=$(<"$out/kdir")/drivers/infiniband/sw/rxe
	python3 -B "$project/tests/coverage/report.py" --guest "$run/fuzz/share/coverage" --executed "$run/executed" \
		--objects "rdma_dmabuf=$out/modules/rdma_dmabuf.ko:$out/modules/rust/rdma_dmabuf.o,$out/modules/rust/helpers.o" \
		--objects "rxe's rxe_dmabuf.c=$rxe/rdma_rxe.ko:$rxe/rxe_dmabuf.o" \
		--objects "rxe's rxe_mr.c=$rxe/rdma_rxe.ko:$rxe/rxe_mr.o"
}

show_figures() {
	covered >"$run/coverage" || failed_steps+=(--failed-step coverage)
	python3 -B "$project/tests/figures.py" --size "$size" --out "$run/figures.json" --coverage "$run/coverage" \
		"$run"/*/ || failed_steps+=(--failed-step figures)
}

collect() {
	local name guests=() again=(--again plain "$run/plain/share/kunit") suites=(e2e)
	for name in checks fuzz kills iommu limit bounce plain ${long:+kcsan}; do
		guests+=(--guest "$name" "$run/$name/console.log" "$(cat -- "$run/$name.result" 2>/dev/null)")
		[[ ! -d $run/$name/share/ktap ]] || guests+=(--ktap "$run/$name/share/ktap")
	done
	if [[ $long ]]; then
		again+=(--again kcsan "$run/kcsan/share/kunit")
		suites+=(badinput vram_exporter stress operations replay lifecycle teardown)
	fi
	mapfile -t -O "${#suites[@]}" suites < <(kunit_suites)
	python3 -B "$project/tests/collect.py" --kdir "$(<"$out/kdir")" \
		--suites "${suites[@]}" --more "$project/tests/expected-debug.list" \
		--ktap "$run/checks/share/kunit" "${guests[@]}" "${again[@]}" \
		--cargo miri "$(cat -- "$run/miri-status" 2>/dev/null || echo 99)" "$run/miri.log" ${failed_steps[@]+"${failed_steps[@]}"} "$@"
}

# A run that cannot be made has failed, and says so in the form that readers look for.
has_run=''
trap '[[ $has_run ]] || printf "\nthe tests could not be run, see above\n0 passed, 1 failed\n"' EXIT

provision
build_everything
rm -rf -- "$run"
mkdir -p -- "$run"
say "running the tests on the debug kernel (logs: $run)"
run_everything
# What programs of others do, on this kernel; with a result of its own.
[[ ! $long ]] || with_kernel debug "$project/tests/clients.sh" || failed_steps+=(--failed-step clients-on-the-debug-kernel)
has_run=1
show_figures
collect "$@"
