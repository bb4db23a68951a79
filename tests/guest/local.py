# SPDX-License-Identifier: GPL-2.0
"""A device connected to itself, with plain memory to write from and to read into."""

from __future__ import annotations

from endpoint import ALL, TIMEOUT, Endpoint
from expect import same
from network import End
from pyverbs import enums
from pyverbs.mr import MR
from uverbs import Mr

SIZE = 1 << 16


class Local:
    def __init__(self, here: End, timeout: int = TIMEOUT) -> None:
        self.here = here
        self.timeout = timeout
        self.endpoint = Endpoint(here.device, here.address)
        self.verbs = self.endpoint.verbs
        self.plain = MR(self.endpoint.pd, SIZE, enums.IBV_ACCESS_LOCAL_WRITE)
        self.pair: tuple = ()
        self.connect()

    def close(self) -> None:
        for thing in (*self.pair, self.plain, self.endpoint):
            thing.close()

    def connect(self) -> None:
        """Anew, where an error has ended what was there."""
        for qp in self.pair:
            qp.close()
        self.pair = (self.endpoint.queue_pair(), self.endpoint.queue_pair())
        for qp, other in (self.pair, self.pair[::-1]):
            qp.to_rts(self.endpoint.attributes(self.here.address, other.qp_num, timeout=self.timeout))

    def register(self, fd: int, offset: int, length: int, iova: int, access: int = ALL) -> Mr:
        return self.verbs.reg_dmabuf_mr(fd, offset, length, iova, access)

    def write(self, mr: Mr, address: int, data: bytes) -> None:
        self.plain.write(data, len(data))
        same(self.status(enums.IBV_WR_RDMA_WRITE, mr, address, len(data)), enums.IBV_WC_SUCCESS)

    def read(self, mr: Mr, address: int, length: int) -> bytes:
        same(self.status(enums.IBV_WR_RDMA_READ, mr, address, length), enums.IBV_WC_SUCCESS)
        return bytes(self.plain.read(length, 0))

    def refused_write(self, mr: Mr, address: int) -> None:
        """It ends with an error of the remote side."""
        same(self.status(enums.IBV_WR_RDMA_WRITE, mr, address, 1), enums.IBV_WC_REM_ACCESS_ERR)
        self.connect()

    def status(self, opcode: int, mr: Mr, address: int, length: int) -> int:
        self.endpoint.transfer(self.pair[0], opcode, (self.plain.buf, length, self.plain.lkey), address, mr.rkey)
        return self.endpoint.completion().status
