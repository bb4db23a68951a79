#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs the tests on kernels that notice more, and those that are about what such a kernel notices: injected faults,
# hostile users, kills, pressure, bounce buffers, a real DMA engine. Provisions and builds what that needs.
#
#   tests/debug.sh [--long] [--only 'STEP ...'] [option of collect.py ...]
#
# --long has more rounds, all guest tests, the programs of `make test-clients`, a kernel with KCSAN and one without
# anything; it takes hours. --only runs, and expects, these steps alone: plain, iommu, limit, bounce, fuzz, checks,
# kills, removals, miri; long, kcsan, keys and clients too.
# Prints what failed, a table of what was tried, a table of suites, and as the last line `N passed, N failed`.
# Exit status: 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/debug
out=$build/debug
image=arch/x86/boot/bzImage
long='' size=ci rounds=20 append='' only=''
steps=(plain iommu limit bounce fuzz checks kills removals miri)
# Leaks are looked for where allocations fail, and in the long run. That, and the life of objects, make all else take
# twice as long: not for hundreds of rounds.
light=(--append 'kmemleak=off no_debug_objects')
lighter=("${light[@]}")
failed_steps=()
if [[ ${1:-} == --long ]]; then
	long=1 size=long rounds=500 append=long=1 lighter=()
	steps+=(kcsan keys clients)
	shift
fi
if [[ ${1:-} == --only ]]; then
	only=${2:?--only needs names of steps}
	for name in $only; do
		[[ " ${steps[*]} " == *" $name "* ]] || die "there is no step '$name'" "take of these: ${steps[*]}"
	done
	read -ra steps <<<"$only"
	shift 2
fi

has_step() { [[ " ${steps[*]} " == *" $1 "* ]]; }

# --- what is built ----------------------------------------------------------------------------

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
	printf '%s\n' "$KDIR" >"$out/kdir-debug"
}

build_bench() {
	build_modules "$out/modules-bench"
	pack "$out/bench.cpio" --provider "$PROVIDER" --modules "modules=$out/modules-bench"
	printf '%s\n' "$KDIR" >"$out/kdir-bench"
}

# For the KUnit suites alone.
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
	local name
	mkdir -p -- "$out" "$build/guest"
	build_tool
	"$project/scripts/mini-root.sh" "$build/guest/mini.cpio"
	# The kernel would take half a minute for it, instrumented as it is.
	zstd -dcq -- "$GUEST_ROOT" >"$out/root.cpio"
	run_logged 'building the coverage plug-in' "$build/log/plugin.log" build_plugin
	with_kernel debug build_debug
	for name in plain kcsan; do
		! has_step "$name" || with_kernel "$name" build_other "$name"
	done
	! has_step keys || with_kernel bench build_bench
}

# --- the steps --------------------------------------------------------------------------------

# boot KIND ROOT NAME [option of qemu.sh ...]: a guest of what was built for that kind of kernel; its verdict goes to
# $run/NAME.result.
boot() {
	local kind=$1 root=$2 name=$3
	shift 3
	"$project/scripts/qemu.sh" --kernel "$(<"$out/kdir-$kind")/$image" --initrd "$root" --initrd "$out/$kind.cpio" \
		--run-dir "$run/$name" "$@" >"$run/$name.result" || true
}

# no5lvl: while the kernel finds out what the processor can do, an interrupt makes KASAN take all memory for none.
guest() { boot debug "$out/root.cpio" "$@" --append "no5lvl rounds=$rounds $append"; }

kunit_guest() { boot "$1" "$build/guest/mini.cpio" "$1" --memory 512 --job kunit --job-timeout 300; }

edu_guest() {
	guest "$@" ${lighter[@]+"${lighter[@]}"} --job edu_suite --job-timeout 600 --append "edu=$1" \
		--qemu-arg -machine --qemu-arg q35 --qemu-arg -device --qemu-arg edu,dma_mask=0xffffffffffffffff
}

run_plain() { kunit_guest plain; }
run_kcsan() { kunit_guest kcsan; }

run_iommu() {
	edu_guest iommu --append "iommu.strict=1 intel_iommu=on" --qemu-arg -device --qemu-arg intel-iommu,intremap=off
}

run_limit() { edu_guest limit --memory 5120; }
run_bounce() { edu_guest bounce --append swiotlb=force; }

# Instructions are only seen by TCG.
run_fuzz() {
	ACCEL=tcg guest fuzz ${lighter[@]+"${lighter[@]}"} --job fuzz_suite --memory 2048 \
		--job-timeout $((long ? 7200 : 1200)) --qemu-arg -plugin --qemu-arg "$out/coverage.so,out=$run/executed"
}

run_checks() { guest checks --job debug_suite --memory 3072 --job-timeout $((long ? 7200 : 1800)); }

run_kills() {
	guest kills "${light[@]}" --job kills_suite --memory 2048 --job-timeout $((long ? 14400 : 1800))
}

run_removals() {
	guest removals "${light[@]}" --job removals_suite --memory 2048 --job-timeout $((long ? 14400 : 1800)) \
		--qemu-arg -vga --qemu-arg none --qemu-arg -device --qemu-arg virtio-gpu-pci
}

run_keys() { boot bench "$out/root.cpio" keys --job keys_suite --job-timeout 7200 --append long=1; }

run_miri() {
	local rc=0
	"$project/scripts/miri.sh" "$size" "$run/miri.log" || rc=$?
	echo "$rc" >"$run/miri-status"
	say "host tests under Miri: ended with $rc (log: $run/miri.log)"
}

# What programs of others do, on this kernel; with a result of its own.
run_clients() {
	with_kernel debug "$project/tests/clients.sh" || failed_steps+=(--failed-step clients-on-the-debug-kernel)
}

# One machine at a time: two would keep each other's processors waiting, and take several times as long.
run_everything() {
	local name start
	for name in "${steps[@]}"; do
		start=$SECONDS
		"run_$name"
		say "step $name took $(elapsed $((SECONDS - start)))"
	done
}

# --- what they say ----------------------------------------------------------------------------

# The suites of a step, of tests/expected.list and tests/expected-debug.list.
suites_of() {
	case $1 in
	iommu | limit | bounce) echo "edu_$1" ;;
	checks)
		kunit_suites
		printf '%s\n' faults pressure ${long:+badinput vram_exporter stress operations replay lifecycle}
		;;
	kills) printf '%s\n' e2e hostile ;;
	removals) printf '%s\n' removals ${long:+teardown} ;;
	fuzz | keys) echo "$1" ;;
	esac
	# A few rounds, where there is no kernel for many.
	[[ $1 != kills || $long ]] || echo keys
}

# All that are about the debug kernel must be there, whichever step has them.
expected_suites() {
	local name
	for name in "${steps[@]}"; do
		suites_of "$name"
	done
	[[ $only ]] || sed -n 's|^\([a-z_]*\)/.*|\1|p' "$project/tests/expected-debug.list" | sort -u
}

# What of which objects the fuzzer went through, in build/run/debug/coverage.
covered() {
	local rxe
	rxe=$(<"$out/kdir-debug")/drivers/infiniband/sw/rxe
	python3 -B "$project/tests/coverage/report.py" --guest "$run/fuzz/share/coverage" --executed "$run/executed" \
		--objects "rdma_dmabuf=$out/modules/rdma_dmabuf.ko:$out/modules/rust/rdma_dmabuf.o,$out/modules/rust/helpers.o" \
		--objects "rxe's rxe_dmabuf.c=$rxe/rdma_rxe.ko:$rxe/rxe_dmabuf.o" \
		--objects "rxe's rxe_mr.c=$rxe/rdma_rxe.ko:$rxe/rxe_mr.o"
}

show_figures() {
	local coverage=()
	if has_step fuzz; then
		coverage=(--coverage "$run/coverage")
		covered >"$run/coverage" || failed_steps+=(--failed-step coverage)
	fi
	python3 -B "$project/tests/figures.py" show --size "$size" --out "$run/figures.json" \
		${coverage[@]+"${coverage[@]}"} "$run"/*/ || failed_steps+=(--failed-step figures)
}

collect() {
	local name options=() suites
	for name in "${steps[@]}"; do
		case $name in
		miri) options+=(--cargo miri "$(cat -- "$run/miri-status" 2>/dev/null || echo 99)" "$run/miri.log") ;;
		clients) ;;
		*) options+=(--guest "$name" "$run/$name/console.log" "$(cat -- "$run/$name.result" 2>/dev/null)") ;;
		esac
		case $name in
		plain | kcsan) options+=(--again "$name" "$run/$name/share/kunit") ;;
		checks) options+=(--ktap "$run/checks/share/kunit") ;;
		esac
		[[ ! -d $run/$name/share/ktap ]] || options+=(--ktap "$run/$name/share/ktap")
	done
	mapfile -t suites < <(expected_suites)
	python3 -B "$project/tests/collect.py" --kdir "$KDIR" --suites ${suites[@]+"${suites[@]}"} \
		--more "$project/tests/expected-debug.list" "${options[@]}" ${failed_steps[@]+"${failed_steps[@]}"} "$@"
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
has_run=1
show_figures
collect "$@"
