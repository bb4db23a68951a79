# SPDX-License-Identifier: GPL-2.0
"""A peer that sends from dma-buf to dma-buf and does atomics, besides what every peer does."""

from __future__ import annotations

import rc
from pyverbs import enums
from pyverbs.mr import DmaBufMR
from pyverbs.wr import SGE, RecvWR, SendWR

ATOMIC_ACCESS = rc.ACCESS | enums.IBV_ACCESS_REMOTE_ATOMIC
# The most bytes that are written or read at once.
LARGEST = 1 << 16


class MatrixPeer(rc.Peer):
    """Both queue pairs and all memory on one device."""

    access = ATOMIC_ACCESS

    def __init__(self, device: str) -> None:
        self.name = device
        super().__init__(device, LARGEST)

    def region(self, fd: int, length: int, offset: int = 0) -> DmaBufMR:
        """`length` bytes at `offset` of the buffer; the address of each is its offset there."""
        return DmaBufMR(self.pd, length, ATOMIC_ACCESS, fd, offset=offset)

    def send(self, region: DmaBufMR, source: int, target: int, length: int) -> int:
        """SEND and RECV within a region; the status that is not that of success, if one is."""
        self.pair[1].post_recv(RecvWR(num_sge=1, sg=[SGE(target, length, region.lkey)]))
        request = SendWR(
            num_sge=1, sg=[SGE(source, length, region.lkey)], opcode=enums.IBV_WR_SEND, send_flags=enums.IBV_SEND_SIGNALED
        )
        self.pair[0].post_send(request)
        statuses = [self.status(), self.status()]
        return max(statuses)

    def fetch_add(self, region: DmaBufMR, iova: int, value: int) -> int:
        return self._atomic(enums.IBV_WR_ATOMIC_FETCH_AND_ADD, region, iova, value, 0)

    def compare_swap(self, region: DmaBufMR, iova: int, compare: int, swap: int) -> int:
        return self._atomic(enums.IBV_WR_ATOMIC_CMP_AND_SWP, region, iova, compare, swap)

    def _atomic(self, opcode: int, region: DmaBufMR, iova: int, one: int, other: int) -> int:
        """What was there."""
        piece = SGE(self.mr.buf, 8, self.mr.lkey)
        request = SendWR(num_sge=1, sg=[piece], opcode=opcode, send_flags=enums.IBV_SEND_SIGNALED)
        request.set_wr_atomic(region.rkey, iova, one, other)
        self.pair[0].post_send(request)
        status = self.status()
        if status != rc.OK:
            raise AssertionError(f"an atomic ends with status {status}")
        return int.from_bytes(self.mr.read(8, 0), "little")
