#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Everything that is checked without running it: form, lints, layers, patches, documentation.
# Each check says ok or shows what is wrong; all of them run. Exit status: 0 if all are ok.
set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

logs=$build/log/check
crates=(tools/rdmabuf tests/host)
bad=0 count=0

# check WHAT FUNCTION: the function is silent where all is well.
check() {
	local what=$1 log=$logs/$2.log start=$SECONDS
	count=$((count + 1))
	# Not as a condition: errexit would be off inside.
	set +e
	(set -e && "$2") >"$log" 2>&1 </dev/null
	local rc=$?
	set -e
	if ((rc == 0)); then
		printf 'ok      %s (%s)\n' "$what" "$(elapsed $((SECONDS - start)))"
		return
	fi
	printf 'FAILED  %s (log: %s)\n' "$what" "$log"
	tail -n 40 -- "$log" | sed 's/^/    /'
	bad=$((bad + 1))
}

# A log with a warning of rustc, clippy, clang or modpost fails the build that wrote it.
no_warnings() {
	"$@" 2>&1 | tee "$logs/build.out"
	! grep -qiE '^(warning|error)|: warning:|^WARNING' "$logs/build.out"
}

files() { scripts/check-files.sh; }
layers() { scripts/check-layers.sh; }

kernel_rustfmt() {
	git ls-files -z --cached --others --exclude-standard 'rust/*.rs' 'tests/kunit/*.rs' 'tests/exporter/*.rs' |
		xargs -0 -r "$RUSTFMT" --check --edition 2021 --config-path "$KDIR/.rustfmt.toml" --config skip_children=true
}

cargo_fmt() {
	local crate
	for crate in "${crates[@]}"; do
		RUSTFMT=$RUSTFMT "$CARGO" fmt --check --manifest-path "$crate/Cargo.toml"
	done
}

# With the suites, so that theirs are read too. An object that is up to date says nothing, hence anew.
kernel_clippy() {
	rm -rf -- "$build/clippy"
	no_warnings kbuild "$build/clippy" modules CLIPPY=1 W=1 CONFIG_RDMA_DMABUF_KUNIT_TEST=y
}

kernel_warnings() {
	rm -rf -- "$build/warnings"
	no_warnings kbuild "$build/warnings" modules W=1 CONFIG_RDMA_DMABUF_MUSTFAIL=m CONFIG_RDMA_DMABUF_EDU=m
}

cargo_clippy() {
	"$CARGO" clippy --locked --release --all-targets --manifest-path tools/rdmabuf/Cargo.toml \
		--target-dir "$build/cargo/rdmabuf" -- -D warnings
	"$CARGO" clippy --locked --all-targets --manifest-path tests/host/Cargo.toml \
		--target-dir "$build/cargo/host" -- -D warnings
}

shell_scripts() {
	git ls-files -z --cached --others --exclude-standard scripts tests .ci |
		xargs -0 grep -lZE -m1 '^#!.*\b(ba)?sh$|^# shellcheck shell=' | xargs -0 -r shellcheck
}

python_scripts() {
	git ls-files -z --cached --others --exclude-standard tests scripts |
		xargs -0 grep -lZE -m1 '^#!.*python3$|^"""' | xargs -0 -r python3 -B -W error -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)'
}

# The table is in build/doc/unsafe.md.
unsafe_audit() { python3 -B scripts/unsafe-audit.py --out "$build/doc/unsafe.md" rust tests/exporter tests/kunit; }

# Each breakage of tests/mutants still has its place in the code.
mutants() { (cd tests && python3 -B -m mutants.catalogue); }

# A case that a table of docs/ names in backquotes, with or without its suite, is one that must run.
documented_cases() {
	local name bad=0
	# shellcheck disable=SC2016 # backquotes of Markdown
	while IFS= read -r name; do
		grep -qhxE "(rdma_dmabuf_contract/)?$name( may-skip)?" tests/expected*.list ||
			{ echo "docs: no such case: $name"; bad=1; }
	done < <(grep -ohE "\`(($(suites))/[a-z0-9_]+|rule_[a-z0-9_]+)\`" docs/*.md | tr -d '`' | sort -u)
	return "$bad"
}

# The names of all suites, as alternatives of a regular expression.
suites() { sed -n 's|^\([a-z0-9_]*\)/.*|\1|p' tests/expected*.list | sort -u | paste -sd'|'; }

# FILE_PATH_CHANGES asks for an entry in MAINTAINERS, which is the list's to give; ENOTSUPP is the
# very code that patch 1 translates. By standard input: a name that git knows is taken for a source file.
checkpatch() {
	local patch bad=0
	for patch in patches/7.3/*.patch; do
		echo "$patch:"
		run_checkpatch --ignore FILE_PATH_CHANGES,ENOTSUPP - <"$patch" || bad=1
	done
	return "$bad"
}

# C of the module and of its tests is written in the kernel's style too. What exports.c exports is Rust;
# the macros of a trace header are laid out as all of the kernel's are.
checkpatch_c() {
	local sources
	mapfile -d '' -t sources < <(git ls-files -z --cached --others --exclude-standard '*.c' '*.h' ':!rust/trace.h')
	run_checkpatch --ignore EXPORT_SYMBOL --file "${sources[@]}"
	run_checkpatch --ignore PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE --file rust/trace.h
}

run_checkpatch() { "$KDIR/scripts/checkpatch.pl" --root="$KDIR" --strict --no-summary --quiet "$@"; }

kernel_doc() {
	local out
	out=$("$KDIR/scripts/kernel-doc" -none -Wall include/*.h 2>&1) || true
	[[ ! $out ]] || { printf '%s\n' "$out"; return 1; }
}

documentation() { scripts/doc.sh; }

cd -- "$project"
LINT=1 provision_toolchain
KDIR=${KDIR:-$(scripts/kernel.sh)}
export KDIR
mkdir -p -- "$logs"
check 'files: licences, lengths, no place of one machine' files
check 'layers: raw, abstractions, logic' layers
check 'rustfmt, kernel' kernel_rustfmt
check 'rustfmt, user space' cargo_fmt
check 'clippy, kernel' kernel_clippy
check 'warnings, kernel' kernel_warnings
check 'clippy, user space' cargo_clippy
check 'shellcheck' shell_scripts
check 'python syntax' python_scripts
check 'unsafe: each with what it relies on' unsafe_audit
check 'mutants: every entry applies' mutants
check 'docs: every case is run' documented_cases
check 'checkpatch, patches/7.3' checkpatch
check 'checkpatch, C of the module' checkpatch_c
check 'kernel-doc of include/' kernel_doc
check 'documentation builds' documentation
echo
if ((bad)); then
	echo "make check: $bad of $count checks FAILED"
	exit 1
fi
echo "make check: all $count checks are ok"
