#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the documentation: of the module with all its private parts, of the command, and of the C
# contract. Prints where each is.
set -euo pipefail
# shellcheck source=guest-lib.sh
. "$(dirname -- "$0")/guest-lib.sh"

out=$build/doc

module() {
	kbuild "$build/docs" modules CONFIG_RDMA_DMABUF_DOC=y
	rm -rf -- "$out/module"
	cp -R -- "$build/docs/rust/doc" "$out/module"
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
run_logged 'documentation of the module' "$build/log/doc.log" module
run_logged 'documentation of rdmabuf' "$build/log/doc.log" command_line
run_logged 'documentation of the C contract' "$build/log/doc.log" contract
printf '%s\n' "$out/module/rdma_dmabuf/index.html" "$out/rdmabuf/rdmabuf/index.html" "$out/rdma_dmabuf.h.rst"
