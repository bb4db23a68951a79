#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The crate's layers: raw bindings, abstractions over them, logic over those, and no arrow back.
#
#   scripts/check-layers.sh [FOLDER]      another checkout than this one
#
# 1. `unsafe` and `bindings::` stand in raw and abstraction files alone.
# 2. An abstraction imports no logic; `ffi` and `c_driver`, where C calls in, are the exceptions.
# 3. Pure files use nothing of the kernel crate.
# 4. Every `unsafe` block and impl has a `// SAFETY:` comment right above it.

set -euo pipefail

# Files of rust/, without .rs.
raw=(bindings)
abstractions=(attachment c_driver device dma_buf dma_resv ffi gate signal trace)
pure=(blocks window)
# The same for tests: what stands between a KUnit case and C.
test_abstractions=(tests/kunit/{bare,check,core_importer,driver,fd,hardware,nic,nic_c,probe,thread}.rs
	tests/exporter/{callbacks,fence,memory,mmap,ops,reclaim,resv,shrinker,table,ticker,uapi}.rs)

cd -- "${1:-$(dirname -- "$0")/..}"
[[ -d rust ]] || { echo "check-layers.sh: no folder rust in $PWD" >&2; exit 2; }
bad=0

# report RULE: each line of standard input breaks it.
report() {
	local line
	while IFS= read -r line; do
		printf '%s\n    %s\n' "$line" "$1"
		bad=1
	done
}

# The code of a file, as FILE:LINE: TEXT; comments and what stands in quotes are blanked.
code() {
	awk '{ gsub(/"([^"\\]|\\.)*"/, "\"\""); sub(/\/\/.*/, ""); if (/[^ \t]/) printf "%s:%d: %s\n", FILENAME, FNR, $0 }' "$1"
}

is_one_of() {
	local name=$1 other
	shift
	for other; do [[ $name != "$other" ]] || return 0; done
	return 1
}

logic_modules() {
	local file name
	for file in rust/*.rs; do
		name=$(basename -- "$file" .rs)
		is_one_of "$name" "${raw[@]}" "${abstractions[@]}" "${pure[@]}" rdma_dmabuf || printf '%s\n' "$name"
	done | paste -sd'|'
}

# Where an unsafe block or impl has no SAFETY comment: none among the comments above its statement.
undocumented() {
	awk '
		function code_of(text) { gsub(/"([^"\\]|\\.)*"/, "", text); sub(/\/\/.*/, "", text); return text }
		/^[ \t]*\/\// { if (/SAFETY:/) safe = 1; next }
		{
			code = code_of($0)
			if (code ~ /unsafe[ \t]*(\{|impl[ \t<])/ && !safe) printf "%s:%d: %s\n", FILENAME, FNR, $0
			# The comment speaks of one statement: it ends with that.
			if (code ~ /[;}][ \t]*$/ || code !~ /[^ \t]/) safe = 0
		}' "$1"
}

logic=$(logic_modules)
for file in rust/*.rs tests/kunit/*.rs tests/exporter/*.rs; do
	[[ -e $file && $file != *_generated.rs ]] || continue
	name=$(basename -- "$file" .rs)
	report "has no SAFETY comment right above it" < <(undocumented "$file")
	if [[ $file == rust/* ]] && is_one_of "$name" "${raw[@]}" "${abstractions[@]}"; then
		[[ ! $logic || $name == ffi || $name == c_driver ]] || report "an abstraction must not know the logic above it" \
			< <(code "$file" | grep -E "\bcrate::($logic)\b" || true)
	elif ! is_one_of "$file" "${test_abstractions[@]}"; then
		report "only for the files at the top of scripts/check-layers.sh" \
			< <(code "$file" | grep -E '\bunsafe\b|\bbindings::' || true)
	fi
	if [[ $file == rust/* ]] && is_one_of "$name" "${pure[@]}"; then
		# But for the attribute that makes their cases KUnit's in the kernel.
		report "pure files use core alone: they are also built on the host" \
			< <(code "$file" | grep -v 'kernel::prelude::kunit_tests' | grep -E '\bkernel::' || true)
	fi
done
exit "$bad"
