# SPDX-License-Identifier: GPL-2.0
"""A queue pair that only ever answers: its peer is a wire, and every request is made by hand."""

from __future__ import annotations

import itertools

import roce
import uverbs
from endpoint import ALL, MTU, Endpoint
from expect import same
from pyverbs.mr import MR
from roce import Reply, Wire

OUR_QPNS = itertools.count(0x1000)
ATOMICS = (roce.COMPARE_SWAP, roce.FETCH_ADD)


class Target:
    """What the responders of a suite have in common: a protection domain, and memory that is no dma-buf."""

    def __init__(self, device: str, wire: Wire) -> None:
        self.endpoint = Endpoint(device, wire.there)
        self.wire = wire
        self.plain = MR(self.endpoint.pd, uverbs.PAGE, ALL)

    def close(self) -> None:
        self.plain.close()
        self.endpoint.close()
        self.wire.close()

    def responder(self, mtu: int = MTU) -> Responder:
        return Responder(self, mtu)


class Responder:
    """Knows the PSN of the next new request. Numbers of packets follow from the lengths."""

    def __init__(self, target: Target, mtu: int) -> None:
        self.wire, self.plain, self.mtu = target.wire, target.plain, mtu
        self.our_qpn = next(OUR_QPNS)
        self.qp = target.endpoint.queue_pair()
        self.qp.to_rtr(target.endpoint.attributes(self.wire.here, self.our_qpn, mtu))
        self.psn = 0

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, *_: object) -> None:
        self.qp.close()

    def send(self, opcode: int, headers: bytes = b"", payload: bytes = b"", psn: int | None = None, packets: int = 1) -> int:
        """A new request, which takes that many PSNs, or with a PSN one that was sent before. The PSN it has."""
        if psn is None:
            psn = self.psn
            self.psn += packets
        self.wire.send(self.qp.qp_num, psn, opcode, headers, payload)
        return psn

    def reply(self) -> Reply:
        return self.wire.receive(self.our_qpn)

    def packets(self, length: int) -> int:
        return max(1, -(-length // self.mtu))

    def write(self, rkey: int, address: int, data: bytes, psn: int | None = None) -> Reply:
        """WRITE in one packet; the answer."""
        self.send(roce.WRITE_ONLY, roce.reth(address, rkey, len(data)), data, psn)
        return self.reply()

    def atomic_write(self, rkey: int, address: int, data: bytes, psn: int | None = None) -> Reply:
        self.send(roce.ATOMIC_WRITE, roce.reth(address, rkey, len(data)), data, psn)
        return self.reply()

    def atomic(self, opcode: int, rkey: int, address: int, swap_or_add: int, compare: int = 0, psn: int | None = None) -> Reply:
        self.send(opcode, roce.atomic(address, rkey, swap_or_add, compare), psn=psn)
        return self.reply()

    def ask_for(self, rkey: int, address: int, length: int, psn: int | None = None) -> int:
        """A READ, whose answers are yet to be taken."""
        return self.send(roce.READ_REQUEST, roce.reth(address, rkey, length), psn=psn, packets=self.packets(length))

    def read(self, rkey: int, address: int, length: int, psn: int | None = None) -> bytes | Reply:
        """READ: the bytes, or the answer that says why there are none."""
        first = self.ask_for(rkey, address, length, psn)
        data = b""
        for number in range(self.packets(length)):
            answer = self.reply()
            if answer.opcode == roce.ACKNOWLEDGE:
                return answer
            same(answer.psn, first + number)
            data += answer.payload
        return data

    def said(self) -> list[Reply]:
        """All that was answered so far and not taken: requests are worked off in their order, so one more ends it."""
        last = self.send(roce.WRITE_ONLY, roce.reth(self.plain.buf, self.plain.rkey, 1), b".")
        answers = []
        while True:
            answer = self.reply()
            if (answer.opcode, answer.psn, answer.syndrome) == (roce.ACKNOWLEDGE, last, roce.ACK):
                return answers
            answers.append(answer)
            if refused(answer):
                return answers

    def is_silent(self) -> None:
        """What was sent last was dropped, and the connection is as good as before."""
        same(self.said(), [])


def refused(answer: bytes | Reply) -> int | None:
    """Why, as a NAK says it."""
    is_nak = isinstance(answer, Reply) and answer.opcode == roce.ACKNOWLEDGE and answer.syndrome != roce.ACK
    return answer.syndrome if is_nak else None


def acknowledged(answer: Reply, psn: int) -> None:
    same((answer.opcode, answer.psn, answer.syndrome), (roce.ACKNOWLEDGE, psn, roce.ACK))
