# SPDX-License-Identifier: GPL-2.0
"""One side of a reliable connection, by pyverbs: an opened device with a protection domain, regions, and queue pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import uverbs
from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, WC
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR

ALL = uverbs.READ_WRITE | uverbs.REMOTE_ATOMIC
MTU = 1024
# rxe takes 7 tries for any number of them.
TRIES, ENDLESS = 6, 7
# 67 ms a try, so that what has gone is noticed soon.
TIMEOUT = 14
LIMIT_S = 60


def gid(address: str) -> str:
    """An IPv4 address as the GID of RoCEv2."""
    one, two, three, four = (int(number) for number in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"


def completion_of(cq: CQ, limit_s: float = LIMIT_S) -> WC:
    """The next one, which has to come."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        count, completions = cq.poll()
        if count:
            return completions[0]
        time.sleep(0.001)
    raise AssertionError("no completion")


class Endpoint:
    """Regions are made by the ioctl itself, since pyverbs leaves no choice of the iova."""

    def __init__(self, device: str, address: str, depth: int = 64) -> None:
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, depth)
        self.verbs = uverbs.Device.of(self.context.cmd_fd, self.pd.handle)
        self.gid_index = self._gid_index(gid(address))

    def _gid_index(self, wanted: str) -> int:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for index in range(8):
                try:
                    if str(self.context.query_gid(1, index)) == wanted:
                        return index
                except Exception:  # pyverbs' own, for an empty place of the table
                    continue
            time.sleep(0.05)
        raise AssertionError(f"no GID {wanted}")

    def close(self) -> None:
        for thing in (self.cq, self.pd, self.context):
            thing.close()

    def queue_pair(self, receives: int = 4) -> QP:
        cap = QPCap(max_send_wr=16, max_recv_wr=receives, max_send_sge=2, max_recv_sge=2)
        return QP(self.pd, QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1))

    def extended(self) -> QPEx:
        """An RC queue pair with the calls that offer atomic write, and SEND with invalidate."""
        cap = QPCap(max_send_wr=16, max_recv_wr=8, max_send_sge=4, max_recv_sge=4)
        attr = QPInitAttrEx(
            qp_type=enums.IBV_QPT_RC,
            scq=self.cq,
            rcq=self.cq,
            cap=cap,
            pd=self.pd,
            comp_mask=enums.IBV_QP_INIT_ATTR_PD | enums.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            send_ops_flags=enums.IBV_QP_EX_WITH_ATOMIC_WRITE | enums.IBV_QP_EX_WITH_SEND_WITH_INV,
        )
        return QPEx(self.context, attr)

    def attributes(self, address: str, qpn: int, mtu: int = MTU, tries: int = TRIES, timeout: int = TIMEOUT) -> QPAttr:
        """Those of a connection to that QP at that address; all PSNs start at 0. A try is given up after 4.096 µs * 2^timeout."""
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ALL
        attr.dest_qp_num = qpn
        attr.path_mtu = {256: enums.IBV_MTU_256, 1024: enums.IBV_MTU_1024}[mtu]
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, timeout, tries, 7
        attr.ah_attr = self.path(address)
        return attr

    def path(self, address: str) -> AHAttr:
        route = GlobalRoute(dgid=GID(gid(address)), sgid_index=self.gid_index)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def register(self, fd: int, length: int, iova: int = 0, access: int = ALL) -> uverbs.Mr:
        return self.verbs.reg_dmabuf_mr(fd, 0, length, iova, access)

    @contextmanager
    def region(self, fd: int, length: int, iova: int = 0, access: int = ALL) -> Iterator[uverbs.Mr]:
        """A region for the time of a block."""
        mr = self.register(fd, length, iova, access)
        try:
            yield mr
        finally:
            self.verbs.dereg_mr(mr)

    @staticmethod
    def transfer(qp: QP, opcode: int, local: tuple[int, int, int], address: int = 0, rkey: int = 0) -> None:
        """Posts one send request; the local piece is its address, its length and its lkey."""
        request = SendWR(num_sge=1, sg=[SGE(*local)], opcode=opcode, send_flags=enums.IBV_SEND_SIGNALED)
        if opcode != enums.IBV_WR_SEND:
            request.set_wr_rdma(rkey, address)
        qp.post_send(request)

    @staticmethod
    def receive(qp: QP, local: tuple[int, int, int]) -> None:
        qp.post_recv(RecvWR(num_sge=1, sg=[SGE(*local)]))

    def completed(self) -> WC | None:
        """The next completion, if there is one."""
        count, completions = self.cq.poll()
        return completions[0] if count else None

    def drain(self) -> None:
        """What has come is of no interest."""
        while self.completed():
            pass

    def completion(self) -> WC:
        """The next one, which has to come."""
        return completion_of(self.cq)
