#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Breaks the importer in each of the ways that tests/mutants/list has, and names the KUnit case that notices.
#
#   tests/mutants.sh [--only REGEX]      only the mutants whose name or file matches
#
# The last line is `N caught, N survived`; exit status 0 if all are caught. Takes 20 minutes on two cores.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

provision_kernel
cd -- "$project/tests"
exec python3 -B -m mutants.run --work "$build/mutants" --logs "$build/run/mutants" "$@"
