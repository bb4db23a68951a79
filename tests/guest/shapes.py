# SPDX-License-Identifier: GPL-2.0
"""Atomics from many sides, regions beyond 1 GiB, and what rxe tells of a region and of what became of it."""

from __future__ import annotations

import functools
import json
import subprocess

import vram
from endpoint import Endpoint
from expect import same
from ktap import Suite
from large import GIB, Large
from network import End, link_counters
from party import DMABUF, IOVA, MEMORY, Party, Piece, connected
from pyverbs import enums
from pyverbs.mr import MR
from pyverbs.wr import SendWR
from vram import PAGE, SYSTEM, Control

RC = enums.IBV_QPT_RC
QPS, ROUNDS, WAVE = 4, 12, 8
MOVES = 200


def _add(ours: Party, theirs: Party, pair: tuple, answer: Piece, at: int) -> None:
    request = SendWR(opcode=enums.IBV_WR_ATOMIC_FETCH_AND_ADD, num_sge=1, sg=ours.sges([answer]), send_flags=enums.IBV_SEND_SIGNALED)
    request.set_wr_atomic(theirs.mr.rkey, IOVA + at, 1, 0)
    pair[0].post_send(request)


def counters(ours: Party, theirs: Party) -> None:
    """Several connections count up at once: each number is found once, whatever moves meanwhile."""
    at = 13 * PAGE - 8
    theirs.put(Piece(DMABUF, at, 8), bytes(8))
    pairs = [connected(ours, theirs, RC) for _ in range(QPS)]
    found = []
    theirs.buffer.loop(MOVES, SYSTEM)
    try:
        for _ in range(ROUNDS):
            answers = [Piece(MEMORY, 8 * number, 8) for number in range(QPS * WAVE)]
            for number, answer in enumerate(answers):
                _add(ours, theirs, pairs[number % QPS], answer, at)
            for _ in answers:
                same(ours.endpoint.completion().status, enums.IBV_WC_SUCCESS)
            found += [int.from_bytes(ours.plain.read(8, answer.offset), "little") for answer in answers]
    finally:
        theirs.buffer.loop(0)
        for qp in (qp for pair in pairs for qp in pair):
            qp.close()
    total = QPS * WAVE * ROUNDS
    same(sorted(found), list(range(total)))
    same(int.from_bytes(theirs.buffer.read(at, 8), "little"), total)
    same(theirs.buffer.stats()["moves"] > ROUNDS, True)
    ours.expect(Piece(MEMORY, 0, 8 * QPS * WAVE), bytes(ours.plain.read(8 * QPS * WAVE, 0)))
    theirs.expect(Piece(DMABUF, at, 8), total.to_bytes(8, "little"))


def _large(here: End) -> None:
    endpoint = Endpoint(here.device, here.address)
    plain = MR(endpoint.pd, 8192, enums.IBV_ACCESS_LOCAL_WRITE)
    large = Large()
    pair = (endpoint.queue_pair(), endpoint.queue_pair())
    for qp, other in (pair, pair[::-1]):
        qp.to_rts(endpoint.attributes(here.address, other.qp_num))
    try:
        # Beyond 4 GiB in its addresses as well.
        iova = 3 * GIB
        with endpoint.region(large.fd, large.size, iova) as mr:
            for number, place in enumerate(large.PLACES):
                data = bytes([number + 1]) * 5000
                plain.write(data, len(data))
                for opcode in (enums.IBV_WR_RDMA_WRITE, enums.IBV_WR_RDMA_READ):
                    endpoint.transfer(pair[0], opcode, (plain.buf, len(data), plain.lkey), iova + place + 100, mr.rkey)
                    same(endpoint.completion().status, enums.IBV_WC_SUCCESS)
                    same(bytes(plain.read(len(data), 0)), data)
                same(large.behind(place, 100, len(data)), data)
            # None of them has hit another, nor what all others share.
            for number, place in enumerate(large.PLACES):
                same(large.behind(place, 100, 5000), bytes([number + 1]) * 5000)
            same(large.elsewhere(5200), True)
    finally:
        for thing in (*pair, plain):
            thing.close()
        endpoint.close()
        large.close()


def _shown(length: int) -> dict:
    """What `rdma resource` says of the MR that has this number of bytes."""
    words = ["rdma", "-j", "-dd", "resource", "show", "mr"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    (mr,) = [mr for mr in found if mr.get("mrlen") == length]
    return mr


def _described(here: End, control: Control) -> None:
    size = 9 * PAGE
    endpoint = Endpoint(here.device, here.address)
    plain = MR(endpoint.pd, size + 1, enums.IBV_ACCESS_LOCAL_WRITE)
    with control.create(16 * PAGE, placement=SYSTEM) as buffer, endpoint.region(buffer.fd, size) as _:
        seen = _shown(size)
        names = ("drv_dmabuf_mode", "drv_dmabuf_state", "drv_block_size", "drv_blocks")
        same([str(seen.get(name)) for name in names[:2]], ["dynamic", "mapped"])
        same(int(seen["drv_block_size"]) * int(seen["drv_blocks"]) >= size, True)
        buffer.call(vram.INVALIDATE_)
        same(_shown(size)["drv_dmabuf_state"], "unmapped")
        buffer.revoke()
        same(_shown(size)["drv_dmabuf_state"], "unmapped")
        same([name for name in names if name in _shown(size + 1)], [])
    plain.close()
    endpoint.close()


def _counted(here: End, control: Control) -> None:
    """By the counters that `rdma statistic` shows."""
    names = ("dmabuf_invalidations", "dmabuf_remaps", "dmabuf_refused_accesses")

    def counts() -> list[int]:
        return [link_counters(here.device)[name] for name in names]

    party = Party(here, control, 5)
    try:
        before = counts()
        pair = connected(party, party, RC)
        for step in range(3):
            party.buffer.move(SYSTEM)
            endpoint = party.endpoint
            endpoint.transfer(pair[0], enums.IBV_WR_RDMA_WRITE, (party.plain.buf, 64, party.plain.lkey), IOVA + step, party.mr.rkey)
            same(endpoint.completion().status, enums.IBV_WC_SUCCESS)
        same([now - then for now, then in zip(counts(), before)], [3, 3, 0])
        party.buffer.revoke()
        party.endpoint.transfer(pair[0], enums.IBV_WR_RDMA_WRITE, (party.plain.buf, 64, party.plain.lkey), IOVA, party.mr.rkey)
        same(party.endpoint.completion().status, enums.IBV_WC_REM_ACCESS_ERR)
        same(counts()[2] - before[2], 1)
        said = subprocess.run(["rdma", "statistic", "show", "link"], capture_output=True, text=True, check=True).stdout
        same([name in said for name in names], [True] * 3)
        party.buffer.unrevoke()
        for qp in pair:
            qp.close()
    finally:
        party.close()


def run(suite: Suite, here: End) -> None:
    control = Control()
    suite.check("region_of_more_than_4_gib", functools.partial(_large, here))
    suite.check("resource_describes_a_region", functools.partial(_described, here, control))
    suite.check("statistic_counts_what_became_of_regions", functools.partial(_counted, here, control))
    control.close()
