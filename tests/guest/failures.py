# SPDX-License-Identifier: GPL-2.0
"""How operations end that cannot be done: on buffers that were revoked, at either end, and what is refused by its kind."""

from __future__ import annotations

import functools
from collections.abc import Callable

from expect import same
from ktap import Suite
from party import DMABUF, IOVA, MEMORY, Party, Piece, connected
from pyverbs import enums
from pyverbs.mr import MW, DmaBufMR, MWBindInfo
from pyverbs.wr import RecvWR, SendWR

RC = enums.IBV_QPT_RC
OK = enums.IBV_WC_SUCCESS
FLUSHED = enums.IBV_WC_WR_FLUSH_ERR
LOCAL_PROTECTION = enums.IBV_WC_LOC_PROT_ERR
LOCAL_OPERATION = enums.IBV_WC_LOC_QP_OP_ERR
REMOTE_OPERATION = enums.IBV_WC_REM_OP_ERR
REMOTE_ACCESS = enums.IBV_WC_REM_ACCESS_ERR
REMOTE_REQUEST = enums.IBV_WC_REM_INV_REQ_ERR
BIND = enums.IBV_WC_MW_BIND_ERR
PLAIN = [Piece(MEMORY, 100, 5000)]
BUFFER = [Piece(DMABUF, 4096 - 50, 5000)]
WORD = [Piece(MEMORY, 8, 8)]


class Revoked:
    """A party's buffer, for the time of a block."""

    def __init__(self, party: Party) -> None:
        self.party = party

    def __enter__(self) -> None:
        self.party.buffer.revoke()

    def __exit__(self, *_: object) -> None:
        self.party.buffer.unrevoke()


def _attempt(ours: Party, theirs: Party, opcode: int, pieces: list[Piece], receives: list[Piece] | None = None) -> list[int]:
    """One request, and one behind it that must not be done: how ours end, and how theirs does if they have to receive."""
    pair = connected(ours, theirs, RC)
    ends = []
    try:
        if receives:
            pair[1].post_recv(RecvWR(num_sge=len(receives), sg=theirs.sges(receives)))
        for number in range(2):
            request = SendWR(wr_id=number, opcode=opcode, num_sge=len(pieces), sg=ours.sges(pieces), send_flags=enums.IBV_SEND_SIGNALED)
            if opcode == enums.IBV_WR_ATOMIC_FETCH_AND_ADD:
                request.set_wr_atomic(theirs.mr.rkey, IOVA, 1, 0)
            elif opcode != enums.IBV_WR_SEND:
                request.set_wr_rdma(theirs.mr.rkey, IOVA)
            pair[0].post_send(request)
        ends = [ours.endpoint.completion().status for _ in range(2)]
        if receives:
            ends.append(theirs.endpoint.completion().status)
    finally:
        for qp in pair:
            qp.close()
    return ends


def _both_right(ours: Party, theirs: Party) -> None:
    ours.is_right()
    theirs.is_right()


def _local(opcode: int, ours: Party, theirs: Party) -> None:
    """The reason is told, and not that of what is flushed behind it."""
    with Revoked(ours):
        same(_attempt(ours, theirs, opcode, BUFFER), [LOCAL_PROTECTION, FLUSHED])
    _both_right(ours, theirs)


def _remote(opcode: int, ours: Party, theirs: Party) -> None:
    with Revoked(theirs):
        pieces = WORD if opcode == enums.IBV_WR_ATOMIC_FETCH_AND_ADD else PLAIN
        same(_attempt(ours, theirs, opcode, pieces), [REMOTE_ACCESS, FLUSHED])
    _both_right(ours, theirs)


def _received(ours: Party, theirs: Party) -> None:
    with Revoked(theirs):
        same(_attempt(ours, theirs, enums.IBV_WR_SEND, PLAIN, BUFFER), [REMOTE_OPERATION, FLUSHED, LOCAL_OPERATION])
    _both_right(ours, theirs)


def _others_go_on(ours: Party, theirs: Party) -> None:
    """A connection of plain MRs does not notice that a buffer is revoked beside it."""
    with Revoked(theirs), Revoked(ours):
        pair = connected(ours, theirs, RC)
        try:
            source, target = Piece(MEMORY, 0, 3000), Piece(MEMORY, 4096, 3000)
            pair[1].post_recv(RecvWR(num_sge=1, sg=theirs.sges([target])))
            pair[0].post_send(SendWR(opcode=enums.IBV_WR_SEND, num_sge=1, sg=ours.sges([source]), send_flags=enums.IBV_SEND_SIGNALED))
            same([party.endpoint.completion().status for party in (ours, theirs)], [OK, OK])
            theirs.expect(target, ours.held([source]))
        finally:
            for qp in pair:
                qp.close()
    _both_right(ours, theirs)


def _window(ours: Party, theirs: Party) -> None:
    """uverbs does not take IB_ACCESS_MW_BIND for a dma-buf, so a window cannot be bound to it."""
    region = DmaBufMR(ours.endpoint.pd, 4096, enums.IBV_ACCESS_LOCAL_WRITE, ours.buffer.fd, offset=0)
    window = MW(ours.endpoint.pd, enums.IBV_MW_TYPE_2)
    pair = connected(ours, theirs, RC)
    try:
        request = SendWR(opcode=enums.IBV_WR_BIND_MW, num_sge=0, send_flags=enums.IBV_SEND_SIGNALED)
        request.set_bind_wr(window, MWBindInfo(region, 0, 4096, enums.IBV_ACCESS_REMOTE_WRITE))
        pair[0].post_send(request)
        same(ours.endpoint.completion().status, BIND)
    finally:
        for thing in (*pair, window, region):
            thing.close()
    _both_right(ours, theirs)


def _invalidation(ours: Party, theirs: Party) -> None:
    """SEND with invalidate is for keys that a queue pair makes; that of a dma-buf MR stays."""
    pair = (ours.endpoint.extended(), theirs.endpoint.extended())
    try:
        pair[0].to_rts(ours.attributes(theirs, pair[1].qp_num))
        pair[1].to_rts(theirs.attributes(ours, pair[0].qp_num))
        pair[1].post_recv(RecvWR(num_sge=1, sg=theirs.sges([Piece(MEMORY, 0, 64)])))
        pair[0].wr_start()
        pair[0].wr_flags = enums.IBV_SEND_SIGNALED
        pair[0].wr_send_inv(theirs.mr.rkey)
        pair[0].wr_set_sge(ours.sge(Piece(MEMORY, 0, 64)))
        pair[0].wr_complete()
        # The data come first. It is the receiver who learns of the key.
        same([party.endpoint.completion().status for party in (ours, theirs)], [OK, REMOTE_REQUEST])
        theirs.expect(Piece(MEMORY, 0, 64), ours.held([Piece(MEMORY, 0, 64)]))
    finally:
        for qp in pair:
            qp.close()
    transfers_still_work(ours, theirs)


def transfers_still_work(ours: Party, theirs: Party) -> None:
    pair = connected(ours, theirs, RC)
    try:
        request = SendWR(opcode=enums.IBV_WR_RDMA_WRITE, num_sge=1, sg=ours.sges(PLAIN), send_flags=enums.IBV_SEND_SIGNALED)
        request.set_wr_rdma(theirs.mr.rkey, IOVA + 77)
        pair[0].post_send(request)
        same(ours.endpoint.completion().status, OK)
        theirs.expect(Piece(DMABUF, 77, PLAIN[0].length), ours.held(PLAIN))
    finally:
        for qp in pair:
            qp.close()
    _both_right(ours, theirs)


CASES: dict[str, Callable[[Party, Party], None]] = {
    "write_from_a_revoked_buffer": functools.partial(_local, enums.IBV_WR_RDMA_WRITE),
    "send_from_a_revoked_buffer": functools.partial(_local, enums.IBV_WR_SEND),
    "read_into_a_revoked_buffer": functools.partial(_local, enums.IBV_WR_RDMA_READ),
    "write_to_a_revoked_buffer": functools.partial(_remote, enums.IBV_WR_RDMA_WRITE),
    "read_of_a_revoked_buffer": functools.partial(_remote, enums.IBV_WR_RDMA_READ),
    "atomic_on_a_revoked_buffer": functools.partial(_remote, enums.IBV_WR_ATOMIC_FETCH_AND_ADD),
    "receive_into_a_revoked_buffer": _received,
    "plain_regions_beside_revoked_buffers": _others_go_on,
    "window_is_not_bound": _window,
    "key_is_not_invalidated_by_a_send": _invalidation,
    "buffers_that_are_given_back": transfers_still_work,
}


def run(suite: Suite, where: str, ours: Party, theirs: Party) -> None:
    for name, case in CASES.items():
        suite.check(f"{where}_{name}", functools.partial(case, ours, theirs))
