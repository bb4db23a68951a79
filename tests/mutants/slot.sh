#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds and boots the copy of the tree that this file is in, for tests/mutants.
#
#   tests/mutants/slot.sh build                    the importer with its KUnit suites, packed
#   tests/mutants/slot.sh boot RUN-DIR SECONDS     the guest that runs them, for at most that long
#
# The environment is that of tests/mutants.sh.

set -euo pipefail
# shellcheck source=../../scripts/guest-lib.sh
. "$(dirname -- "$0")/../../scripts/guest-lib.sh"

case ${1:-} in
build)
	mkdir -p -- "$build/guest"
	[[ -e $build/guest/mini.cpio ]] || "$project/scripts/mini-root.sh" "$build/guest/mini.cpio"
	# With the settings of tests/kunit.sh, which makes the first build of one copy.
	kbuild "$build/kunit" rdma_dmabuf.ko CONFIG_RDMA_DMABUF_KUNIT_TEST=y CONFIG_RDMA_DMABUF_MUSTFAIL=m
	pack "$build/guest/kunit.cpio" --modules "kunit=$build/kunit"
	;;
boot)
	exec "$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$build/guest/mini.cpio" \
		--initrd "$build/guest/kunit.cpio" --run-dir "$2" --memory 512 --job kunit --job-timeout "$3" --timeout "$3"
	;;
*) die "unknown argument: ${1:-none}" "see the top of $0" ;;
esac
