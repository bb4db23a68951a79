# SPDX-License-Identifier: GPL-2.0
"""Two RC queue pairs of one device that are connected to each other, by pyverbs."""

from __future__ import annotations

from endpoint import completion_of
from pyverbs import enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, DmaBufMR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_READ | enums.IBV_ACCESS_REMOTE_WRITE
OK = enums.IBV_WC_SUCCESS
REMOTE_ACCESS_ERROR = enums.IBV_WC_REM_ACCESS_ERR
ADDRESS = "192.0.2.1"


class Peer:
    """A protection domain with memory of its own, and a way to another's."""

    access = ACCESS

    def __init__(self, device: str, size: int) -> None:
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 8)
        self.mr = MR(self.pd, size, ACCESS)
        self.connect()

    def connect(self) -> None:
        """Anew: a queue pair that has failed once does nothing any more."""
        self.pair = [self.queue_pair() for _ in range(2)]
        index = self._gid_index()
        for qp, other in (self.pair, self.pair[::-1]):
            route = GlobalRoute(dgid=self.context.query_gid(1, index), sgid_index=index)
            attr = QPAttr(port_num=1)
            attr.qp_access_flags = self.access
            attr.dest_qp_num = other.qp_num
            attr.path_mtu = enums.IBV_MTU_1024
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 18, 7, 6
            attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
            qp.to_rts(attr)

    def queue_pair(self) -> QP:
        """A new one, not connected."""
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=4, max_recv_wr=4))
        return QP(self.pd, init)

    def _gid_index(self) -> int:
        """The one of the device's IPv4 address."""
        wanted = "0000:0000:0000:0000:0000:ffff:c000:0201"
        for index in range(8):
            if str(self.context.query_gid(1, index)) == wanted:
                return index
        raise AssertionError(f"no GID of {ADDRESS}")

    def register(self, fd: int, length: int) -> DmaBufMR:
        """A region that starts with the buffer, at the iova 0."""
        return DmaBufMR(self.pd, length, ACCESS, fd, offset=0)

    def write(self, data: bytes, region: DmaBufMR, offset: int) -> int:
        """RDMA WRITE to the region; the status of its completion."""
        self.mr.write(data, len(data))
        return self._run(enums.IBV_WR_RDMA_WRITE, len(data), region, offset)

    def read(self, length: int, region: DmaBufMR, offset: int) -> bytes:
        """RDMA READ of the region, which has to succeed."""
        status = self._run(enums.IBV_WR_RDMA_READ, length, region, offset)
        if status != OK:
            raise AssertionError(f"RDMA READ ends with status {status}")
        return bytes(self.mr.read(length, 0))

    def _run(self, opcode: int, length: int, region: DmaBufMR, offset: int) -> int:
        piece = SGE(self.mr.buf, length, self.mr.lkey)
        request = SendWR(num_sge=1, sg=[piece], opcode=opcode, send_flags=enums.IBV_SEND_SIGNALED)
        request.set_wr_rdma(region.rkey, offset)
        self.pair[0].post_send(request)
        return self.status()

    def status(self) -> int:
        """Of the next completion."""
        return completion_of(self.cq).status

    def close(self) -> None:
        for qp in self.pair:
            qp.close()
        for thing in (self.mr, self.cq, self.pd, self.context):
            thing.close()
