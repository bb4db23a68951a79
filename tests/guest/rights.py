# SPDX-License-Identifier: GPL-2.0
"""Whether a peer may do what it asks for: the PD and the access of the region, for new requests and for repeated ones."""

from __future__ import annotations

import functools
from collections.abc import Callable

import roce
import uverbs
from endpoint import ALL
from expect import same
from exporter_mr import pattern
from pyverbs.mr import MR
from pyverbs.pd import PD
from responder import Responder, Target, refused
from roce import NAK_REMOTE_ACCESS
from uverbs import LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE
from vram import PAGE, Control

SIZE = 4 * PAGE
LONG = 4 << 20
SHORT_MTU = 256
TRIES = 10

# What may be asked for by key and address, and the right that it takes.
REQUESTS: list[tuple[Callable[[Responder, int, int], object], int]] = [
    (lambda peer, rkey, address: peer.write(rkey, address, bytes(8)), REMOTE_WRITE),
    (lambda peer, rkey, address: peer.read(rkey, address, 8), REMOTE_READ),
    (lambda peer, rkey, address: peer.atomic(roce.FETCH_ADD, rkey, address, 1), REMOTE_ATOMIC),
    (lambda peer, rkey, address: peer.atomic(roce.COMPARE_SWAP, rkey, address, 1), REMOTE_ATOMIC),
    (lambda peer, rkey, address: peer.atomic_write(rkey, address, bytes(8)), REMOTE_WRITE),
]


def region_is_only_used_as_its_access_says(control: Control, target: Target) -> None:
    data = pattern(20, SIZE)
    with control.create(SIZE) as buffer:
        for ask, right in REQUESTS:
            for access in (0, LOCAL_WRITE, ALL & ~right):
                buffer.write(0, data)
                with target.endpoint.region(buffer.fd, SIZE, access=access) as mr, target.responder() as peer:
                    same(refused(ask(peer, mr.rkey, 0)), NAK_REMOTE_ACCESS)
                same(buffer.read(0, SIZE) == data, True)


def region_of_another_pd_is_not_used(control: Control, target: Target) -> None:
    data = pattern(21, SIZE)
    with PD(target.endpoint.context) as pd, control.create(SIZE) as buffer:
        other = uverbs.Device.of(target.endpoint.context.cmd_fd, pd.handle)
        mr = other.reg_dmabuf_mr(buffer.fd, 0, SIZE, 0, ALL)
        buffer.write(0, data)
        for ask, _ in REQUESTS:
            with target.responder() as peer:
                same(refused(ask(peer, mr.rkey, 0)), NAK_REMOTE_ACCESS)
        same(buffer.read(0, SIZE) == data, True)
        other.dereg_mr(mr)


def key_that_is_nearly_right_is_not_used(control: Control, target: Target) -> None:
    """Its low byte is a variant, the rest an index."""
    with control.create(SIZE) as buffer, target.endpoint.region(buffer.fd, SIZE) as mr:
        for rkey in (mr.rkey ^ 1, mr.rkey ^ 0x80, mr.rkey ^ 0x100, mr.rkey ^ 1 << 31, 0, 2**32 - 1):
            for ask, _ in REQUESTS:
                with target.responder() as peer:
                    same(refused(ask(peer, rkey, 0)), NAK_REMOTE_ACCESS)


def flush_of_a_region_is_refused(control: Control, target: Target) -> None:
    """No region may be registered for it, but one that flushes nothing needs no right. There is no page to look at."""
    for selection in (0, 1):
        with control.create(SIZE) as buffer, target.endpoint.region(buffer.fd, SIZE) as mr, target.responder() as peer:
            peer.send(roce.FLUSH, bytes([0, 0, 0, selection << 4]) + roce.reth(0, mr.rkey, 8))
            same(refused(peer.reply()), NAK_REMOTE_ACCESS)


class Changing:
    """A region of other memory, whose PD and access can be changed while it keeps its key."""

    def __init__(self, target: Target, length: int) -> None:
        self.target = target
        self.mr = MR(target.endpoint.pd, length, ALL)
        self.other_pd = PD(target.endpoint.context)
        self.ours = target.endpoint.verbs
        self.others = uverbs.Device.of(target.endpoint.context.cmd_fd, self.other_pd.handle)

    def __enter__(self) -> Changing:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()
        self.mr.close()
        self.other_pd.close()

    def _change(self, by: uverbs.Device, flags: int, access: int) -> None:
        by.rereg_mr(uverbs.Mr(self.mr.handle, self.mr.lkey, self.mr.rkey), flags, access)

    def give_away(self) -> None:
        self._change(self.others, uverbs.REREG_PD, 0)

    def forbid(self) -> None:
        self._change(self.ours, uverbs.REREG_ACCESS, LOCAL_WRITE)

    def give_back(self) -> None:
        self._change(self.ours, uverbs.REREG_PD | uverbs.REREG_ACCESS, ALL)


def read_again_of_what_may_be_read_no_longer(change: Callable[[Changing], None], _: Control, target: Target) -> None:
    """All of it, and from its second packet on."""
    with Changing(target, PAGE) as region:
        for part in (0, 1):
            with target.responder() as peer:
                peer.read(region.mr.rkey, region.mr.buf, PAGE)
                change(region)
                start = part * peer.mtu
                answer = peer.read(region.mr.rkey, region.mr.buf + start, PAGE - start, psn=part)
                same(refused(answer), NAK_REMOTE_ACCESS)
                region.give_back()


def read_ends_when_it_may_be_read_no_longer(change: Callable[[Changing], None], _: Control, target: Target) -> None:
    with Changing(target, LONG) as region:
        for _ in range(TRIES):
            with target.responder(SHORT_MTU) as peer:
                peer.ask_for(region.mr.rkey, region.mr.buf, LONG)
                same(peer.reply().opcode, roce.READ_FIRST)
                change(region)
                answer = peer.reply()
                while answer.opcode == roce.READ_MIDDLE:
                    answer = peer.reply()
                region.give_back()
            if refused(answer):
                return same(refused(answer), NAK_REMOTE_ACCESS)
    raise AssertionError("every read went on to its end")


def _named(name: str, test: Callable, change: Callable[[Changing], None]) -> Callable:
    case = functools.partial(test, change)
    functools.update_wrapper(case, test)
    case.__name__ = name
    return case


CASES = [
    region_is_only_used_as_its_access_says,
    region_of_another_pd_is_not_used,
    key_that_is_nearly_right_is_not_used,
    flush_of_a_region_is_refused,
    _named("read_again_of_a_key_of_another_pd_is_refused", read_again_of_what_may_be_read_no_longer, Changing.give_away),
    _named("read_again_of_a_key_without_access_is_refused", read_again_of_what_may_be_read_no_longer, Changing.forbid),
    _named("read_ends_when_its_key_is_of_another_pd", read_ends_when_it_may_be_read_no_longer, Changing.give_away),
    _named("read_ends_when_its_key_has_no_access", read_ends_when_it_may_be_read_no_longer, Changing.forbid),
]
