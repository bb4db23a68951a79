#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Removes everything that the scripts have downloaded or built outside the checkout.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

[[ -d $cache ]] || exit 0
say "removing $cache ($(du -sh -- "$cache" | cut -f1))"
# Guest roots are made by root.
rm -rf -- "$cache" 2>/dev/null || as_root rm -rf -- "$cache"
