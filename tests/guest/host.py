# SPDX-License-Identifier: GPL-2.0
"""One end of an RDMA connection between two machines: its buffer, its MR, its queue pair.

What every method takes and gives can be written as JSON, so that another machine can call it, see agent.py.
"""

from __future__ import annotations

import hashlib
import random
import threading

import kernel
import vram
from endpoint import completion_of
from expect import shell
from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, DmaBufMR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = (
    enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_READ | enums.IBV_ACCESS_REMOTE_WRITE | enums.IBV_ACCESS_REMOTE_ATOMIC
)
SIZE = 40 * vram.PAGE
FLOOD = 8192
LIMIT_S = 120


def pattern(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Host:
    """A device with a buffer in a dma-buf, all of which is an MR that starts at the address 0."""

    def __init__(self, device: str, address: str) -> None:
        self.device, self.address = device, address
        self.flooding: threading.Thread | None = None

    def open(self, moves: int) -> int:
        """Makes everything but the connection; the rkey."""
        self.control = vram.Control()
        self.buffer = self.control.create(SIZE, vram.CHANGING)
        self.context = Context(name=self.device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)
        # What atomics answer goes here.
        self.scratch = MR(self.pd, 8, ACCESS)
        self.mr = DmaBufMR(self.pd, SIZE, ACCESS, self.buffer.fd, offset=0)
        self.buffer.loop(moves, vram.SYSTEM)
        return self.mr.rkey

    def close(self) -> None:
        self.buffer.loop(0)
        for thing in (self.qp, self.mr, self.scratch, self.cq, self.pd, self.context):
            thing.close()
        with self.buffer:
            self.control.close()

    def gid_index(self) -> int:
        octets = bytes(int(number) for number in self.address.split("."))
        wanted = f"ffff:{octets[:2].hex()}:{octets[2:].hex()}"
        for index in range(8):
            if str(self.context.query_gid(1, index)).endswith(wanted):
                return index
        raise AssertionError(f"no GID of {self.address}")

    def queue_pair(self) -> list:
        """A new one, as what the other side needs to connect to it: its number and its GID."""
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=4, max_recv_wr=4))
        self.qp = QP(self.pd, init)
        return [self.qp.qp_num, str(self.context.query_gid(1, self.gid_index()))]

    def connect(self, number: int, gid: str) -> None:
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.dest_qp_num = number
        attr.path_mtu = enums.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        # 7 retries would be endless ones for rxe.
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 17, 6, 7
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(gid), sgid_index=self.gid_index()), is_global=1, port_num=1)
        self.qp.to_rts(attr)

    def fill(self, seed: int, offset: int, length: int) -> None:
        self.buffer.write(offset, pattern(seed, length))

    def digest(self, offset: int, length: int) -> str:
        """Of the bytes that the exporter sees."""
        return digest(self.buffer.read(offset, length))

    def word(self, offset: int) -> int:
        return int.from_bytes(self.buffer.read(offset, 8), "little")

    def write(self, rkey: int, offset: int, length: int) -> int:
        """RDMA WRITE from the place in the own buffer to the same one in the other; its status."""
        return self._rdma(enums.IBV_WR_RDMA_WRITE, rkey, offset, length)

    def read(self, rkey: int, offset: int, length: int) -> int:
        return self._rdma(enums.IBV_WR_RDMA_READ, rkey, offset, length)

    def receive(self, offset: int, length: int) -> None:
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(offset, length, self.mr.lkey)]))

    def send(self, offset: int, length: int) -> int:
        self.qp.post_send(self._request(enums.IBV_WR_SEND, offset, length))
        return self.status()

    def count_up(self, rkey: int, offset: int, times: int) -> list[int]:
        """What fetch-add by 1 has found there, each time."""
        found = []
        for _ in range(times):
            request = SendWR(
                num_sge=1,
                sg=[SGE(self.scratch.buf, 8, self.scratch.lkey)],
                opcode=enums.IBV_WR_ATOMIC_FETCH_AND_ADD,
                send_flags=enums.IBV_SEND_SIGNALED,
            )
            request.set_wr_atomic(rkey, offset, 1, 0)
            self.qp.post_send(request)
            status = self.status()
            if status != enums.IBV_WC_SUCCESS:
                raise AssertionError(f"an atomic ends with status {status}")
            found.append(int.from_bytes(self.scratch.read(8, 0), "little"))
        return found

    def flood(self, rkey: int) -> None:
        """Writes the start of the buffer over and over, until that fails."""
        self.floods = 0

        def run() -> None:
            self.end = enums.IBV_WC_SUCCESS
            while self.end == enums.IBV_WC_SUCCESS:
                self.end = self.write(rkey, 0, FLOOD)
                self.floods += 1

        self.flooding = threading.Thread(target=run)
        self.flooding.start()

    def floods_so_far(self) -> int:
        return self.floods

    def flood_end(self) -> int:
        """The status that has ended it."""
        self.flooding.join(LIMIT_S)
        if self.flooding.is_alive():
            raise AssertionError("the writes go on")
        return self.end

    def revoke(self) -> None:
        self.buffer.revoke()

    def unrevoke(self) -> None:
        self.buffer.unrevoke()

    def stats(self) -> dict[str, int]:
        return self.buffer.stats()

    def left(self) -> list:
        """What of regions and buffers there is."""
        return [len(kernel.regions()), kernel.buffers()]

    def shell(self, command: str) -> None:
        shell(command)

    def status(self) -> int:
        """Of the next completion."""
        return completion_of(self.cq, LIMIT_S).status

    def _request(self, opcode: int, offset: int, length: int) -> SendWR:
        piece = SGE(offset, length, self.mr.lkey)
        return SendWR(num_sge=1, sg=[piece], opcode=opcode, send_flags=enums.IBV_SEND_SIGNALED)

    def _rdma(self, opcode: int, rkey: int, offset: int, length: int) -> int:
        request = self._request(opcode, offset, length)
        request.set_wr_rdma(rkey, offset)
        self.qp.post_send(request)
        return self.status()
