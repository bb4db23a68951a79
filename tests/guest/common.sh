# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
# What the guest's jobs and tests share, sourced: modules, one rxe device, what the kernel counts.

MODULES=/project/modules
DEBUGFS=/sys/kernel/debug
NETDEV=rxnet0
RXE=rxe0

loaded() {
	grep -q "^$1 " /proc/modules
}

# rxe and what it needs, from the kernel build.
load_rxe() {
	modprobe ib_uverbs && modprobe rdma_rxe
}

load_importer() {
	insmod "$MODULES/rdma_dmabuf.ko"
}

unload_importer() {
	rmmod rdma_dmabuf
}

# One rxe device on a network device of its own.
add_rxe() {
	[ -e "/sys/class/net/$NETDEV" ] || add_netdev || return 1
	rdma link add "$RXE" type rxe netdev "$NETDEV" || return 1
	wait_for 5 test -e "/sys/class/infiniband/$RXE"
}

add_netdev() {
	ip -batch - <<-EOF
		link add $NETDEV type veth peer name ${NETDEV}p
		addr add 192.0.2.1/24 dev $NETDEV
		link set ${NETDEV}p up
		link set $NETDEV up
	EOF
}

# Tries a command five times a second until it succeeds.
wait_for() {
	tries=$(($1 * 5))
	shift
	while ! "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		if [ "$tries" -le 0 ]; then
			echo "still not so: $*"
			return 1
		fi
		sleep 0.2
	done
}

# How many dma-bufs the kernel knows.
buffers() {
	sed -n 's/^Total \([0-9]*\) objects.*/\1/p' "$DEBUGFS/dma_buf/bufinfo"
}

# One of the importer's counters.
counter() {
	awk -v name="$1" '$1 == name { print $2 }' "$DEBUGFS/rdma_dmabuf/counters"
}

# Fails unless the two words are equal, and says what they are.
same() {
	[ "$1" = "$2" ] && return 0
	echo "expected '$1', found '$2'"
	return 1
}

# Runs one of the tests here. It prints one KTAP block; what it says beside it goes to the job's output.
run_test() {
	name=$1
	shift
	echo "--- $name"
	"./$name" "$@" >"/share/ktap/$name.ktap"
	echo "--- $name ended with $?"
}
