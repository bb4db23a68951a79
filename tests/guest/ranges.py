# SPDX-License-Identifier: GPL-2.0
"""Requests that do not lie within their dma-buf MR, above all those whose end cannot be told by a sum of 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import roce
from expect import same
from exporter_mr import pattern
from responder import ATOMICS, Responder, Target, acknowledged, refused
from roce import NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS
from vram import PAGE, Buffer, Control

SIZE = 4 * PAGE
BOTTOM, MIDDLE, TOP = 0, 0x7FFFFFFFF000, 2**64 - SIZE
BASES = (BOTTOM, MIDDLE, TOP)

# From the region's start, and how long.
OUTSIDE = [
    (-1, 1),
    (-1, 2),
    (-8, 8),
    (-8, 16),
    (-PAGE, SIZE),
    (SIZE, 1),
    (SIZE - 1, 2),
    (SIZE - 8, 16),
    (1, SIZE),
    (0, SIZE + 1),
    (0, 1 << 31),
    (SIZE - 1, 1 << 31),
    (1 << 63, 8),
]
# Anywhere: where the address and the length by themselves lead beyond 2^64, or just not.
ABSOLUTE = [(2**64 - 1, 2), (2**64 - 8, 16), (2**64 - 4, 1024), (2**64 - (1 << 31), 1 << 31), (0, 1 << 31)]
# The specification allows no message of more than 2^31 bytes.
TOO_LONG = [(1 << 31) + 1, 2**32 - 1, 2**32 - SIZE]

ATOMIC_OUTSIDE = [-8, -4, SIZE, SIZE - 4, 1 << 63]
ATOMIC_ABSOLUTE = [2**64 - 4, 2**64 - 1]


@contextmanager
def _region(control: Control, target: Target, base: int) -> Iterator[tuple[Buffer, int]]:
    """A buffer, and the key of a region over all of it."""
    with control.create(SIZE) as buffer, target.endpoint.region(buffer.fd, SIZE, base) as mr:
        yield buffer, mr.rkey


def _never(control: Control, target: Target, base: int, requests: list[tuple], ask: Callable, wanted: int) -> None:
    """Each request is refused, on a connection of its own, and changes nothing."""
    data = pattern(base % 97, SIZE)
    with _region(control, target, base) as (buffer, rkey):
        buffer.write(0, data)
        for request in requests:
            with target.responder() as peer:
                answer = ask(peer, rkey, *request)
                if refused(answer) != wanted:
                    raise AssertionError(f"{request} of a region at {base:#x}: {answer}")
        same(buffer.read(0, SIZE) == data, True)


def _outside(base: int) -> list[tuple[int, int]]:
    """All that are outside a region there; a sum that comes out the same is the same request."""
    found = [((base + start) % 2**64, length) for start, length in OUTSIDE] + ABSOLUTE
    return [(start, length) for start, length in found if not base <= start <= start + length <= base + SIZE]


def _ask_write(peer: Responder, rkey: int, address: int, length: int) -> object:
    """Its first packet, which may be its only one."""
    if length <= peer.mtu:
        return peer.write(rkey, address, bytes(length))
    peer.send(roce.WRITE_FIRST, roce.reth(address, rkey, length), bytes(peer.mtu))
    return peer.reply()


def _ask_read(peer: Responder, rkey: int, address: int, length: int) -> object:
    peer.ask_for(rkey, address, length)
    return peer.reply()


def write_outside_the_region_is_refused(control: Control, target: Target) -> None:
    for base in BASES:
        _never(control, target, base, _outside(base), _ask_write, NAK_REMOTE_ACCESS)


def read_outside_the_region_is_refused(control: Control, target: Target) -> None:
    for base in BASES:
        _never(control, target, base, _outside(base), _ask_read, NAK_REMOTE_ACCESS)


def requests_of_more_than_2_gib_are_invalid(control: Control, target: Target) -> None:
    for base in BASES:
        requests = [(base + start, length) for start in (0, SIZE - 1) for length in TOO_LONG]
        for ask in (_ask_write, _ask_read):
            _never(control, target, base, requests, ask, NAK_INVALID_REQUEST)


def atomics_outside_the_region_are_refused(control: Control, target: Target) -> None:
    """The range is judged before the alignment."""
    for base in BASES:
        addresses = [((base + start) % 2**64,) for start in ATOMIC_OUTSIDE] + [(address,) for address in ATOMIC_ABSOLUTE]
        for opcode in ATOMICS:
            _never(control, target, base, addresses, lambda peer, *where: peer.atomic(opcode, *where, 1), NAK_REMOTE_ACCESS)
        _never(control, target, base, addresses, lambda peer, *where: peer.atomic_write(*where, bytes(8)), NAK_REMOTE_ACCESS)


def atomics_that_are_not_aligned_are_invalid(control: Control, target: Target) -> None:
    for base in BASES:
        for opcode in ATOMICS:
            requests = [(base + 4,), (base + SIZE - 9,)]
            _never(control, target, base, requests, lambda peer, *where: peer.atomic(opcode, *where, 1), NAK_INVALID_REQUEST)


def atomic_writes_of_other_lengths_are_invalid(control: Control, target: Target) -> None:
    for base in BASES:
        requests = [(base, bytes(length)) for length in (4, 7, 9, 16, 1024)]
        _never(control, target, base, requests, Responder.atomic_write, NAK_INVALID_REQUEST)


def last_bytes_of_the_region_are_reached(control: Control, target: Target) -> None:
    """Up to its very end, be that 2^64."""
    data = pattern(11, SIZE)
    for base in BASES:
        with _region(control, target, base) as (buffer, rkey), target.responder() as peer:
            buffer.write(0, data)
            same(peer.read(rkey, base, SIZE) == data, True)
            same(peer.read(rkey, base + SIZE - 1, 1), data[-1:])
            acknowledged(peer.write(rkey, base + SIZE - 16, b"end of the range"), peer.psn - 1)
            original = struct.unpack("=Q", b"he range")[0]
            same(peer.atomic(roce.FETCH_ADD, rkey, base + SIZE - 8, 1).original, original)
            same(buffer.read(SIZE - 16, 16), b"end of t" + struct.pack("=Q", original + 1))
            # Of no length, wherever and of whatever key.
            acknowledged(peer.write(0, base + SIZE, b""), peer.psn - 1)
            same(peer.read(1, 2**64 - 1, 0), b"")


CASES = [
    write_outside_the_region_is_refused,
    read_outside_the_region_is_refused,
    requests_of_more_than_2_gib_are_invalid,
    atomics_outside_the_region_are_refused,
    atomics_that_are_not_aligned_are_invalid,
    atomic_writes_of_other_lengths_are_invalid,
    last_bytes_of_the_region_are_reached,
]
