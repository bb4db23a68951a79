# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
# What both machines of the test with two do first, sourced. The word `address=` of the kernel command line is their own.

. ./common.sh

ADDRESS=$(sed -n 's/.*\baddress=\([^ ]*\).*/\1/p' /proc/cmdline)

# The card on the wire.
netdev() {
	for path in /sys/class/net/e*; do
		echo "${path##*/}"
	done
}

add_device() {
	load_rxe && load_importer || return 1
	rdma link add "$RXE" type rxe netdev "$(netdev)" || return 1
	wait_for 5 test -e "/sys/class/infiniband/$RXE"
}

set_up() {
	ip link set lo up
	ip addr add "$ADDRESS/24" dev "$(netdev)" || return 1
	ip link set "$(netdev)" up || return 1
	insmod "$MODULES/vram_exporter.ko" && add_device
}
