#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the documentation: of the modules with all their private parts, of the command, and of the
# C contract. Prints where each is.
set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

out=$build/doc

crates=(rust/rdma_dmabuf tests/exporter/vram_exporter)

modules() {
	kbuild "$build/docs" modules CONFIG_RDMA_DMABUF_DOC=y
	local crate
	for crate in "${crates[@]}"; do
		rm -rf -- "$out/${crate##*/}.ko"
		cp -R -- "$build/docs/$crate.doc" "$out/${crate##*/}.ko"
	done
}

command_line() {
	RUSTDOC=$RUSTDOC RUSTDOCFLAGS=-Dwarnings "$CARGO" doc --locked --release --no-deps --document-private-items \
		--manifest-path "$project/tools/rdmabuf/Cargo.toml" --target-dir "$build/cargo/rdmabuf"
	rm -rf -- "$out/rdmabuf"
	cp -R -- "$build/cargo/rdmabuf/doc" "$out/rdmabuf"
}

contract() { "$KDIR/scripts/kernel-doc" -rst "$project"/include/*.h >"$out/rdma_dmabuf.h.rst"; }

provision_toolchain
KDIR=${KDIR:-$("$project/scripts/kernel.sh")}
mkdir -p -- "$out"
run_logged 'documentation of the modules' "$build/log/doc.log" modules
run_logged 'documentation of rdmabuf' "$build/log/doc.log" command_line
run_logged 'documentation of the C contract' "$build/log/doc.log" contract
for crate in "${crates[@]##*/}"; do printf '%s\n' "$out/$crate.ko/$crate/index.html"; done
printf '%s\n' "$out/rdmabuf/rdmabuf/index.html" "$out/rdma_dmabuf.h.rst"
