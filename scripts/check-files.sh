#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What every file of the project keeps to.
#
#   scripts/check-files.sh [FOLDER]      another checkout than this one
#
# 1. Source files open with an SPDX line (behind #! where there is one) and have at most 500 lines.
# 2. No file names a folder of one machine, or a host that packages come from: those are asked of apt.
# 3. No white space at line ends.

set -euo pipefail

longest=500

cd -- "${1:-$(dirname -- "$0")/..}"
bad=0

report() {
	local line
	while IFS= read -r line; do
		printf '%s: %s\n' "$line" "$1"
		bad=1
	done
}

# Committed or about to be, and still there.
files() {
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard -- "$@" |
		while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done
}

sources() {
	files '*.rs' '*.c' '*.h' '*.sh' '*.py' '*.toml' '*.config' '*Kbuild*' '*Makefile' 'tests/guest/*' '.ci/*' |
		grep -zv -e '/Cargo\.lock$' || true
}

without_spdx() {
	local file
	while IFS= read -r -d '' file; do
		head -n 3 -- "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0' || printf '%s\n' "$file"
	done < <(sources)
}

too_long() {
	sources | xargs -0 -r wc -l -- | awk -v longest="$longest" '$2 != "total" && $1 > longest { print $2 ": " $1 " lines" }'
}

# Hosts that this machine's apt and cargo take packages from; what is public everywhere may be named.
registry_hosts() {
	{
		# shellcheck disable=SC2016 # apt's variable
		timeout 15 apt-get indextargets --format '$(SITE)' 2>/dev/null || true
		sed -n 's/^ *\(registry\|index\|replace-with\) *= *"\([^"]*\)".*/\2/p' "${CARGO_HOME:-$HOME/.cargo}/config.toml" 2>/dev/null || true
	} | grep -oE '[a-z0-9.-]+\.[a-z0-9.-]+' | grep -vE '^(deb\.)?debian\.org$|crates\.io$' | sort -u | paste -sd'|' || true
}

named_places() {
	local hosts pattern='(^|[^[:alnum:]_./-])/(work|root|farm|home/[a-z]+)/'
	hosts=$(registry_hosts)
	[[ ! $hosts ]] || pattern+="|${hosts//./\\.}"
	files | xargs -0 -r grep -nIE -e "$pattern" -- || true
}

trailing_space() {
	files ':!patches/*' ':!LICENSE' | xargs -0 -r grep -nIE -e '[[:blank:]]+$' -- | cut -c1-160 || true
}

report 'no SPDX line at its top' < <(without_spdx)
report "more than $longest lines: would two files be clearer?" < <(too_long)
report 'a place that only some machines have' < <(named_places)
report 'white space at the end of the line' < <(trailing_space)
exit "$bad"
