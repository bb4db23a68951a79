#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A console in the guest, with rxe, the importer and the tool in place. Leave it with `exit`, or end QEMU with
# Control-A x.

set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

# A forgotten guest ends by itself.
readonly longest=$((12 * 3600))

provision
build_modules "$build/modules"
build_tool
pack "$build/guest/shell.cpio" --provider "$PROVIDER" --modules "modules=$build/modules"
size=''
if [[ -t 0 ]] && read -r rows columns < <(stty size); then
	size="rows=$rows columns=$columns"
fi
"$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/shell.cpio" \
	--run-dir "$build/run/shell" --job shell --timeout "$longest" --interactive --append "$size"
