# SPDX-License-Identifier: GPL-2.0
"""Every operation that RC, UC and UD have, between buffers that move: from one party's pieces of memory to the other's."""

from __future__ import annotations

import functools
from collections.abc import Callable

from expect import same
from ktap import Suite
from party import DMABUF, INLINE, IOVA, MEMORY, QKEY, SIZE, Party, Piece, connected
from pyverbs import enums
from pyverbs.cq import WC
from pyverbs.wr import RecvWR, SendWR
from vram import PAGE

RC, UC, UD = enums.IBV_QPT_RC, enums.IBV_QPT_UC, enums.IBV_QPT_UD
IMMEDIATE = 0x1234ABCD
# What UD puts before the data.
GRH = 40
# Where operations come from, and where they go to: one piece, or several that mix both memories, ending amid pages.
WHOLE = [Piece(DMABUF, PAGE + 77, 5 * PAGE + 13)]
MIXED = [Piece(DMABUF, 3 * PAGE - 5, 4100), Piece(MEMORY, 99, 1), Piece(DMABUF, 11 * PAGE + 1, 7), Piece(MEMORY, PAGE + 3, 9001)]
OTHER = [Piece(MEMORY, 5, 5000), Piece(DMABUF, 9 * PAGE - 1, 3), Piece(DMABUF, 14 * PAGE + 9, 6000), Piece(MEMORY, 3 * PAGE, 12345)]
SHORT = [Piece(DMABUF, 2 * PAGE - 100, 700)]
GRAM = [Piece(DMABUF, 6 * PAGE - 60, GRH + 700), Piece(MEMORY, 6 * PAGE, 100)]
TINY = [Piece(MEMORY, 17, INLINE - 1)]


def length_of(pieces: list[Piece]) -> int:
    return sum(piece.length for piece in pieces)


class Exchange:
    """One operation: what is posted, and how it ends."""

    def __init__(self, ours: Party, theirs: Party, kind: int, with_srq: bool = False) -> None:
        self.ours, self.theirs, self.kind = ours, theirs, kind
        self.pair = connected(ours, theirs, kind, with_srq)
        self.receiver = theirs.srq if with_srq else self.pair[1]
        for party in (ours, theirs):
            party.move()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        for qp in self.pair:
            qp.close()

    def post(self, opcode: int, pieces: list[Piece], flags: int = 0, target: int | None = None) -> None:
        request = SendWR(
            opcode=opcode, num_sge=len(pieces), sg=self.ours.sges(pieces), send_flags=enums.IBV_SEND_SIGNALED | flags, imm_data=IMMEDIATE
        )
        if target is not None:
            request.set_wr_rdma(self.theirs.mr.rkey, IOVA + target)
        if self.kind == UD:
            self.handle = self.ours.address_handle(self.theirs)
            request.set_wr_ud(self.handle, self.pair[1].qp_num, QKEY)
        self.pair[0].post_send(request)

    def receive(self, pieces: list[Piece]) -> None:
        self.receiver.post_recv(RecvWR(num_sge=len(pieces), sg=self.theirs.sges(pieces)))

    def ours_ends(self) -> None:
        same(self.ours.endpoint.completion().status, enums.IBV_WC_SUCCESS)

    def theirs_ends(self, length: int, immediate: bool = False) -> WC:
        found = self.theirs.endpoint.completion()
        same((found.status, found.byte_len), (enums.IBV_WC_SUCCESS, length))
        if immediate:
            same((bool(found.wc_flags & enums.IBV_WC_WITH_IMM), found.imm_data), (True, IMMEDIATE))
        return found

    def is_right(self) -> None:
        self.ours.is_right()
        self.theirs.is_right()


def _send(ours: Party, theirs: Party, kind: int, source: list[Piece], target: list[Piece], flags: int = 0) -> None:
    data = ours.held(source)
    with Exchange(ours, theirs, kind) as exchange:
        exchange.receive(target)
        exchange.post(enums.IBV_WR_SEND, source, flags)
        exchange.ours_ends()
        exchange.theirs_ends(len(data))
        theirs.expect_all(target, data)
        exchange.is_right()


def _datagram(ours: Party, theirs: Party, source: list[Piece], target: list[Piece]) -> None:
    """The space for the GRH is not the sender's; rxe writes the head of IP at its end."""
    data = ours.held(source)
    with Exchange(ours, theirs, UD) as exchange:
        exchange.receive(target)
        exchange.post(enums.IBV_WR_SEND_WITH_IMM, source)
        exchange.ours_ends()
        exchange.theirs_ends(GRH + len(data), True)
        head = theirs.buffer.read(target[0].offset, GRH)
        theirs.expect_all(target, head + data)
        exchange.is_right()


def _write(ours: Party, theirs: Party, kind: int, source: list[Piece], at: int, flags: int = 0) -> None:
    data = ours.held(source)
    with Exchange(ours, theirs, kind) as exchange:
        exchange.post(enums.IBV_WR_RDMA_WRITE, source, flags, at)
        exchange.ours_ends()
        if kind == UC:
            # Nothing tells when it has arrived, but a message behind it.
            exchange.receive(TINY)
            exchange.post(enums.IBV_WR_SEND, TINY)
            exchange.ours_ends()
            exchange.theirs_ends(length_of(TINY))
            theirs.expect_all(TINY, ours.held(TINY))
        theirs.expect(Piece(DMABUF, at, len(data)), data)
        exchange.is_right()


def _write_with_immediate(ours: Party, theirs: Party, kind: int) -> None:
    data, at = ours.held(MIXED), 8 * PAGE - 2
    with Exchange(ours, theirs, kind) as exchange:
        exchange.receive(TINY)
        exchange.post(enums.IBV_WR_RDMA_WRITE_WITH_IMM, MIXED, 0, at)
        exchange.ours_ends()
        exchange.theirs_ends(len(data), True)
        theirs.expect(Piece(DMABUF, at, len(data)), data)
        exchange.is_right()


def _read(ours: Party, theirs: Party, target: list[Piece], at: int) -> None:
    length = length_of(target)
    with Exchange(ours, theirs, RC) as exchange:
        exchange.post(enums.IBV_WR_RDMA_READ, target, 0, at)
        exchange.ours_ends()
        ours.expect_all(target, theirs.held([Piece(DMABUF, at, length)]))
        exchange.is_right()


def _atomic(ours: Party, theirs: Party, opcode: int, at: int, one: int, other: int, wanted: Callable[[int], int]) -> None:
    """What was there comes into the dma-buf here."""
    answer, word = Piece(DMABUF, 5 * PAGE + 3, 8), Piece(DMABUF, at, 8)
    before = theirs.held([word])
    with Exchange(ours, theirs, RC) as exchange:
        request = SendWR(opcode=opcode, num_sge=1, sg=ours.sges([answer]), send_flags=enums.IBV_SEND_SIGNALED)
        request.set_wr_atomic(theirs.mr.rkey, IOVA + at, one, other)
        exchange.pair[0].post_send(request)
        exchange.ours_ends()
        ours.expect(answer, before)
        theirs.expect(word, (wanted(int.from_bytes(before, "little")) % 2**64).to_bytes(8, "little"))
        exchange.is_right()


def _fetch_add(ours: Party, theirs: Party, at: int) -> None:
    _atomic(ours, theirs, enums.IBV_WR_ATOMIC_FETCH_AND_ADD, at, 2**63 + 12345, 0, lambda word: word + 2**63 + 12345)


def _compare_swap(ours: Party, theirs: Party, at: int) -> None:
    word = int.from_bytes(theirs.held([Piece(DMABUF, at, 8)]), "little")
    swap = enums.IBV_WR_ATOMIC_CMP_AND_SWP
    _atomic(ours, theirs, swap, at, word ^ 1 << 40, 4711, lambda word: word)
    _atomic(ours, theirs, swap, at, word, 4711, lambda _: 4711)


def _atomic_write(ours: Party, theirs: Party, at: int) -> None:
    data = ours.random.randbytes(8)
    pair = (ours.endpoint.extended(), theirs.endpoint.extended())
    try:
        pair[0].to_rts(ours.attributes(theirs, pair[1].qp_num))
        pair[1].to_rts(theirs.attributes(ours, pair[0].qp_num))
        theirs.move()
        pair[0].wr_start()
        pair[0].wr_flags = enums.IBV_SEND_SIGNALED
        pair[0].wr_atomic_write(theirs.mr.rkey, IOVA + at, data)
        pair[0].wr_complete()
        same(ours.endpoint.completion().status, enums.IBV_WC_SUCCESS)
        theirs.expect(Piece(DMABUF, at, 8), data)
        ours.is_right()
        theirs.is_right()
    finally:
        for qp in pair:
            qp.close()


def _shared_queue(ours: Party, theirs: Party) -> None:
    """Two messages, each to the receive that is next."""
    with Exchange(ours, theirs, RC, True) as exchange:
        for target, source in ((OTHER, MIXED), (SHORT, TINY)):
            exchange.receive(target)
            theirs.expect_all(target, ours.held(source))
        for source in (MIXED, TINY):
            exchange.post(enums.IBV_WR_SEND, source)
            exchange.ours_ends()
            exchange.theirs_ends(length_of(source))
        exchange.is_right()


INLINED = enums.IBV_SEND_INLINE

CASES: dict[str, Callable[[Party, Party], None]] = {
    "rc_send": lambda a, b: _send(a, b, RC, WHOLE, [Piece(DMABUF, 12 * PAGE - 7, 6 * PAGE)]),
    "rc_send_of_mixed_pieces": lambda a, b: _send(a, b, RC, MIXED, OTHER),
    "rc_send_inline": lambda a, b: _send(a, b, RC, TINY, SHORT, INLINED),
    "rc_send_to_a_shared_queue": _shared_queue,
    "rc_write": lambda a, b: _write(a, b, RC, WHOLE, SIZE - length_of(WHOLE)),
    "rc_write_of_mixed_pieces": lambda a, b: _write(a, b, RC, MIXED, 1),
    "rc_write_inline": lambda a, b: _write(a, b, RC, TINY, 4 * PAGE - 3, INLINED),
    "rc_write_with_immediate": lambda a, b: _write_with_immediate(a, b, RC),
    "rc_read": lambda a, b: _read(a, b, WHOLE, 7 * PAGE + 1),
    "rc_read_to_mixed_pieces": lambda a, b: _read(a, b, OTHER, PAGE - 1),
    "rc_fetch_add": lambda a, b: _fetch_add(a, b, 8 * PAGE - 8),
    "rc_compare_swap": lambda a, b: _compare_swap(a, b, SIZE - 8),
    "rc_atomic_write": lambda a, b: _atomic_write(a, b, 16 * PAGE),
    "uc_send": lambda a, b: _send(a, b, UC, MIXED, OTHER),
    "uc_send_inline": lambda a, b: _send(a, b, UC, TINY, SHORT, INLINED),
    "uc_write": lambda a, b: _write(a, b, UC, WHOLE, 3),
    "uc_write_with_immediate": lambda a, b: _write_with_immediate(a, b, UC),
    "ud_send": lambda a, b: _datagram(a, b, SHORT, GRAM),
    "ud_send_of_mixed_pieces": lambda a, b: _datagram(a, b, [Piece(MEMORY, 3, 50), Piece(DMABUF, PAGE - 9, 731)], GRAM),
}


def run(suite: Suite, where: str, ours: Party, theirs: Party) -> None:
    for name, case in CASES.items():
        suite.check(f"{where}_{name}", functools.partial(case, ours, theirs))
