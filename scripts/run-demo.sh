#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Provisions, builds, boots the guest and runs the demo in it. The demo's output is this script's.
#
# Exit status: 0 if every row of the demo is ok.

set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

provision
build_modules "$build/modules"
build_tool
pack "$build/guest/demo.cpio" --provider "$PROVIDER" --modules "modules=$build/modules"
"$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/demo.cpio" \
	--run-dir "$build/run/demo" --job demo --job-timeout 240 --follow
