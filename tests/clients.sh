#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs what programs of others do with dma-buf MRs, in a guest. Provisions and builds what that needs.
#
# Prints what failed, a table of suites, and as the last line `N passed, N failed`. Exit status: 0 if nothing failed.

set -euo pipefail
# shellcheck source=../scripts/guest-lib.sh
. "$(dirname -- "$0")/../scripts/guest-lib.sh"

run=$build/run/clients
over=$build/clients/root

# client NAME LIBRARY...: one of tests/clients, with the sources that it is told to have.
client() {
	local name=$1 library libraries=()
	shift
	while (($#)) && [[ $1 == lib* ]]; do
		library=$(echo "$CLIENTS/lib/$1".so.?)
		libraries+=("$library")
		shift
	done
	# Of the libraries' own libraries the host has none, or others.
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -isystem "$CLIENTS/include" -I "$project/include" \
		-o "$over/project/bin/$name" "${@/#/$project/tests/clients/}" "${libraries[@]}" -Wl,--allow-shlib-undefined
}

compile_clients() {
	client fi_dmabuf libfabric fi_dmabuf.c buffer.c &&
		client uct_dmabuf libuct libucs uct_dmabuf.c line.c buffer.c
}

build_everything() {
	build_modules
	build_preloads
	mkdir -p -- "$build/guest" "$over/project/bin"
	run_logged 'building the clients' "$build/log/clients.log" compile_clients
	"$project/scripts/selftests.sh" "$over/project/selftests"
	pack "$build/guest/clients.cpio" --provider "$PROVIDER" --modules "modules=$build/modules" \
		--over "$CLIENTS/guest" --over "$over"
}

# The matrix that the guest has made, and where it is kept.
show_exporters() {
	local table=$run/share/exporters.md
	[[ -r $table ]] || { say "no table of exporters: the guest did not get there"; return 0; }
	printf '\n%s (%s)\n\n' 'dma-bufs of each exporter, and what RDMA did with them' "$table"
	cat -- "$table"
	echo
}

# A run that cannot be made has failed, and says so in the form that readers look for.
has_run=''
trap '[[ $has_run ]] || printf "\nthe tests could not be run, see above\n0 passed, 1 failed\n"' EXIT

provision
CLIENTS=${CLIENTS:-$("$project/scripts/clients.sh")}
build_everything
result=$("$project/scripts/qemu.sh" --kernel "$KERNEL" --initrd "$GUEST_ROOT" --initrd "$build/guest/clients.cpio" \
	--run-dir "$run" --memory 3584 --job clients_suite --job-timeout 1500 \
	--qemu-arg -vga --qemu-arg none --qemu-arg -device --qemu-arg virtio-gpu-pci) || true
export KERNEL GUEST_ROOT
ends=$("$project/tests/twohosts.sh" "$run-twohosts" "$build/guest/clients.cpio") || true
has_run=1
show_exporters
python3 -B "$project/tests/collect.py" --kdir "$KDIR" --expected "$project/tests/expected-clients.list" \
	--ktap "$run/share/ktap" --console "$run/console.log" --guest-result "$result" \
	--ktap "$run-twohosts/home/share/ktap" --guest home "$run-twohosts/home/console.log" "${ends%%, *}" \
	--guest peer "$run-twohosts/peer/console.log" killed \
	--guest peer_2 "$run-twohosts/peer-2/console.log" "${ends##*, }" "$@"
