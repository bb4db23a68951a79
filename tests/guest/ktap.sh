# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
# KTAP for shell tests, sourced: `suite NAME`, then `check CASE COMMAND...` for each case, then `finish`.

KTAP_NUMBER=0
KTAP_FAILED=0
KTAP_OUTPUT=/tmp/ktap-output

# Opens the one block of this file. No plan: a suite that dies lacks its result line, which the parser reports.
suite() {
	KTAP_SUITE=$1
	echo "rdma_dmabuf-suite: $1" >/dev/kmsg
	printf 'KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: %s\n' "$1"
}

# One case: passes if the command ends with 0; what it printed explains a failure.
check() {
	ktap_case=$1
	shift
	KTAP_NUMBER=$((KTAP_NUMBER + 1))
	if "$@" >"$KTAP_OUTPUT" 2>&1; then
		echo "    ok $KTAP_NUMBER $ktap_case"
		return 0
	fi
	KTAP_FAILED=$((KTAP_FAILED + 1))
	echo "rdma_dmabuf-suite: $KTAP_SUITE/$ktap_case failed" >/dev/kmsg
	echo "    # $*"
	sed 's/^/    # /' "$KTAP_OUTPUT"
	echo "    not ok $KTAP_NUMBER $ktap_case"
}

# Closes the block; the status is that of the suite.
finish() {
	if [ "$KTAP_FAILED" = 0 ] && [ "$KTAP_NUMBER" != 0 ]; then
		echo "ok 1 $KTAP_SUITE"
		return 0
	fi
	echo "not ok 1 $KTAP_SUITE"
	return 1
}
