# SPDX-License-Identifier: GPL-2.0
"""Two parties to an operation, each with a buffer that moves in a dma-buf MR and with plain memory in another MR.

What each memory has to hold is kept beside it, so that after an operation every byte is looked at, those that must not
change included.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from endpoint import Endpoint
from expect import same
from network import End
from pyverbs import enums
from pyverbs.addr import AH
from pyverbs.mr import MR
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE
from vram import CHANGING, PAGE, SAME, SYSTEM, VRAM, Control

SIZE = 24 * PAGE
PLAIN = 8 * PAGE
# Not a multiple of anything but the page.
IOVA = 0x7654_3210_F000
QKEY = 0x11111111
INLINE = 128
DMABUF, MEMORY = "dmabuf", "memory"


class Piece(NamedTuple):
    """A stretch of one of a party's two memories."""

    where: str
    offset: int
    length: int


class Party:
    def __init__(self, end: End, control: Control, seed: int) -> None:
        self.end = end
        self.endpoint = Endpoint(end.device, end.address)
        self.buffer = control.create(SIZE, CHANGING, SYSTEM)
        self.mr = self.endpoint.register(self.buffer.fd, SIZE, IOVA)
        self.plain = MR(self.endpoint.pd, PLAIN, enums.IBV_ACCESS_LOCAL_WRITE)
        self.srq = SRQ(self.endpoint.pd, SrqInitAttr(SrqAttr(max_wr=8, max_sge=4)))
        self.random = random.Random(seed)
        self.holds = {DMABUF: bytearray(SIZE), MEMORY: bytearray(PLAIN)}
        self.put(Piece(DMABUF, 0, SIZE), self.random.randbytes(SIZE))
        self.put(Piece(MEMORY, 0, PLAIN), self.random.randbytes(PLAIN))

    def close(self) -> None:
        self.endpoint.verbs.dereg_mr(self.mr)
        for thing in (self.srq, self.plain):
            thing.close()
        self.endpoint.close()
        with self.buffer:
            pass

    def expect(self, piece: Piece, data: bytes) -> None:
        """That is there from now on."""
        same(len(data), piece.length)
        self.holds[piece.where][piece.offset : piece.offset + piece.length] = data

    def put(self, piece: Piece, data: bytes) -> None:
        self.expect(piece, data)
        if piece.where == DMABUF:
            self.buffer.write(piece.offset, data)
        else:
            self.plain.write(data, piece.length, piece.offset)

    def held(self, pieces: list[Piece]) -> bytes:
        return b"".join(bytes(self.holds[where][offset : offset + length]) for where, offset, length in pieces)

    def expect_all(self, pieces: list[Piece], data: bytes) -> None:
        """The data lie one after the other in the pieces, as far as they go."""
        for piece in pieces:
            part, data = data[: piece.length], data[piece.length :]
            self.expect(Piece(piece.where, piece.offset, len(part)), part)

    def move(self) -> None:
        """To other pages, or from one kind of memory to the other."""
        self.buffer.move(self.random.choice((SAME, SYSTEM, VRAM)))

    def is_right(self) -> None:
        """Every byte of both memories."""
        for where, seen in ((DMABUF, self.buffer.read(0, SIZE)), (MEMORY, self.plain.read(PLAIN, 0))):
            wrong = [place for place, (found, wanted) in enumerate(zip(seen, self.holds[where])) if found != wanted]
            if wrong:
                raise AssertionError(f"{self.end.device}: {where} differs in {len(wrong)} bytes, {wrong[0]} to {wrong[-1]}")
        same([self.buffer.stats()[name] for name in ("breaches", "late_writes", "vram_late_writes")], [0] * 3)

    def sge(self, piece: Piece) -> SGE:
        if piece.where == DMABUF:
            return SGE(IOVA + piece.offset, piece.length, self.mr.lkey)
        return SGE(self.plain.buf + piece.offset, piece.length, self.plain.lkey)

    def sges(self, pieces: list[Piece]) -> list[SGE]:
        return [self.sge(piece) for piece in pieces]

    def queue_pair(self, kind: int, with_srq: bool = False) -> QP:
        cap = QPCap(max_send_wr=16, max_recv_wr=8, max_send_sge=4, max_recv_sge=4, max_inline_data=INLINE)
        srq = self.srq if with_srq else None
        return QP(self.endpoint.pd, QPInitAttr(qp_type=kind, scq=self.endpoint.cq, rcq=self.endpoint.cq, srq=srq, cap=cap))

    def attributes(self, other: Party, qpn: int) -> QPAttr:
        return self.endpoint.attributes(other.end.address, qpn)

    def address_handle(self, other: Party) -> AH:
        return AH(self.endpoint.pd, attr=self.endpoint.path(other.end.address))


def connected(ours: Party, theirs: Party, kind: int, with_srq: bool = False) -> tuple[QP, QP]:
    """Queue pairs of that kind, each knowing the other where the kind has that; the second receives by its SRQ if told so."""
    pair = (ours.queue_pair(kind), theirs.queue_pair(kind, with_srq))
    if kind == enums.IBV_QPT_UD:
        for qp in pair:
            attr = QPAttr(port_num=1)
            attr.qkey = QKEY
            qp.to_rts(attr)
    else:
        pair[0].to_rts(ours.attributes(theirs, pair[1].qp_num))
        pair[1].to_rts(theirs.attributes(ours, pair[0].qp_num))
    return pair
