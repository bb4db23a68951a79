# SPDX-License-Identifier: GPL-2.0
"""MRs on buffers of /dev/vram_exporter: registration against its faults, RDMA against its moves and revocations."""

from __future__ import annotations

import errno
import functools
import random
from pathlib import Path

import cgroup
import rc
import uverbs
import vram
from expect import refused, same, wait
from ktap import Suite
from vram import PAGE, Buffer, Control

SIZE = 40 * PAGE
LAYOUTS = {name: getattr(vram, name) for name in ("ONE_RUN", "HUGE", "SCATTERED", "UNEVEN", "MERGED", "SPLIT", "CHANGING")}
LIMIT_S = 20

# What a registration answers to a fault of map.
FAULTY_MAPS = [
    ("null", vram.NULL, 0, errno.ENOMEM),
    ("short", vram.SHORT, 0, errno.EINVAL),
    ("empty", vram.EMPTY, 0, errno.EINVAL),
    ("over_long", vram.OVER_LONG, 0, 0),
    ("unaligned", vram.UNALIGNED, 0, errno.EINVAL),
    ("zero_length", vram.ZERO_LENGTH, 0, errno.EINVAL),
    ("huge", vram.HUGE_ENTRY, 0, errno.EOPNOTSUPP),
    ("io", vram.IO, 0, errno.EOPNOTSUPP),
    ("failing", vram.FAIL, errno.EDOM, errno.EDOM),
]


def pattern(seed: int, length: int = SIZE) -> bytes:
    """What a buffer is filled with."""
    return random.Random(seed).randbytes(length)


def registrations(suite: Suite, control: Control, device: uverbs.Device) -> None:
    for name, action, error, wanted in FAULTY_MAPS:
        suite.check(f"registration_with_a_map_that_is_{name}", functools.partial(_faulty_map, control, device, action, error, wanted))
    for name, op in (("attach", vram.ATTACH), ("map", vram.MAP), ("unmap", vram.UNMAP)):
        suite.check(f"registration_invalidated_in_{name}", functools.partial(_invalidated, control, device, op))
    for name, test in (
        ("registration_with_an_attach_that_fails", _faulty_attach),
        ("every_third_map_fails", _every_third),
        ("map_evicts_another_buffer", _evicts),
        ("registration_moves_the_buffer_to_system_memory", _placed),
        ("registration_of_a_revoked_buffer_is_enodev", _revoked),
        ("shrinker_takes_the_mapping", _shrunk),
        ("memory_pressure_takes_the_mapping_of_a_reclaimable_buffer", _reclaimed),
        ("blocks_are_charged_to_who_registers", _charged),
        ("only_revocable_importers_are_taken", _only_revocable),
    ):
        suite.check(name, functools.partial(test, control, device))
    device.close()


def _register(device: uverbs.Device, buffer: Buffer) -> uverbs.Mr:
    return device.reg_dmabuf_mr(buffer.fd, 0, SIZE, 0, uverbs.READ_WRITE)


def _register_and_drop(device: uverbs.Device, buffer: Buffer) -> None:
    device.dereg_mr(_register(device, buffer))


def _balanced(buffer: Buffer) -> dict[str, int]:
    stats = buffer.stats()
    for one, other in (("attaches", "detaches"), ("maps", "unmaps"), ("pins", "unpins"), ("vmaps", "vunmaps")):
        same(stats[one], stats[other])
    same([stats[name] for name in ("mapped", "pinned", "breaches", "late_writes", "vram_late_writes")], [0] * 5)
    return stats


def _faulty_map(control: Control, device: uverbs.Device, action: int, error: int, wanted: int) -> None:
    with control.create(SIZE, vram.UNEVEN, vram.SYSTEM) as buffer:
        buffer.fault(vram.MAP, action, 0, error)
        if wanted:
            refused(wanted, _register_and_drop, device, buffer)
        else:
            _register_and_drop(device, buffer)
        # Once, and never again.
        _register_and_drop(device, buffer)
        same(_balanced(buffer)["attaches"], 2)


def _invalidated(control: Control, device: uverbs.Device, op: int) -> None:
    with control.create(SIZE, vram.UNEVEN) as buffer:
        buffer.fault(op, vram.INVALIDATE)
        _register_and_drop(device, buffer)
        _balanced(buffer)


def _faulty_attach(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE) as buffer:
        buffer.fault(vram.ATTACH, vram.FAIL, 0, errno.ENOTTY)
        refused(errno.ENOTTY, _register_and_drop, device, buffer)
        buffer.fault(vram.ATTACH, vram.NO_P2P)
        _register_and_drop(device, buffer)
        same(_balanced(buffer)["attaches"], 1)


def _every_third(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE, placement=vram.SYSTEM) as buffer:
        buffer.fault(vram.MAP, vram.FAIL, 3, errno.ENOMEM)
        for number in range(1, 7):
            if number % 3:
                _register_and_drop(device, buffer)
            else:
                refused(errno.ENOMEM, _register_and_drop, device, buffer)
        buffer.fault(0, vram.CLEAR)
        for _ in range(3):
            _register_and_drop(device, buffer)
        _balanced(buffer)


def _evicts(control: Control, device: uverbs.Device) -> None:
    """Each takes the other's place, and so each knows the other: they go nevertheless."""
    with control.create(SIZE, placement=vram.SYSTEM) as one, control.create(SIZE, placement=vram.SYSTEM) as other:
        refused(errno.EINVAL, one.fault, vram.ATTACH, vram.EVICT, 0, 0, other.fd)
        one.fault(vram.MAP, vram.EVICT, 1, 0, other.fd)
        other.fault(vram.MAP, vram.EVICT, 1, 0, one.fd)
        mrs = [_register(device, buffer) for buffer in (one, other, one)]
        same([(stats["moves"], stats["mapped"]) for stats in (one.stats(), other.stats())], [(1, 1), (2, 0)])
        for mr in mrs:
            device.dereg_mr(mr)
        for buffer in (one, other):
            _balanced(buffer)


def _placed(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE, vram.MERGED) as buffer:
        mr = _register(device, buffer)
        stats = buffer.stats()
        same((stats["placement"], stats["mapped"], stats["moves"]), (vram.SYSTEM, 1, 1))
        buffer.move(vram.VRAM)
        same(buffer.stats()["mapped"], 0)
        device.dereg_mr(mr)
        _balanced(buffer)


def _revoked(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE) as buffer:
        buffer.revoke()
        refused(errno.ENODEV, _register_and_drop, device, buffer)
        buffer.unrevoke()
        _register_and_drop(device, buffer)
        _balanced(buffer)


def _shrunk(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE, placement=vram.SYSTEM) as buffer:
        mr = _register(device, buffer)
        same(buffer.stats()["mapped"], 1)
        buffer.call(vram.SHRINK_)
        same(buffer.stats()["mapped"], 0)
        buffer.call(vram.INVALIDATE_)
        same(buffer.stats()["invalidations"], 2)
        device.dereg_mr(mr)
        _balanced(buffer)


def _reclaimed(control: Control, device: uverbs.Device) -> None:
    """By the shrinker that the module has registered."""
    reclaimable = control.create(SIZE, placement=vram.SYSTEM, rules=vram.RECLAIMABLE)
    with reclaimable, control.create(SIZE, placement=vram.SYSTEM) as other:
        mrs = [_register(device, buffer) for buffer in (reclaimable, other)]
        same([buffer.stats()["mapped"] for buffer in (reclaimable, other)], [1, 1])
        Path("/proc/sys/vm/drop_caches").write_text("2", encoding="ascii")
        same([buffer.stats()["mapped"] for buffer in (reclaimable, other)], [0, 1])
        for mr in mrs:
            device.dereg_mr(mr)
        for buffer in (reclaimable, other):
            _balanced(buffer)


def _charged(control: Control, device: uverbs.Device) -> None:
    """The importer's list of blocks, 8 bytes for each page, counts as memory of the process' group."""
    pages = 12288
    with control.create(pages * PAGE, vram.SCATTERED, vram.SYSTEM) as buffer, cgroup.Joined("rdma_dmabuf-charged") as group:
        before = group.kernel_bytes()
        mr = device.reg_dmabuf_mr(buffer.fd, 0, pages * PAGE, 0, uverbs.READ_WRITE)
        # The kernel sums up every two seconds.
        wait(lambda: group.kernel_bytes() - before >= 8 * pages)
        registered = group.kernel_bytes()
        device.dereg_mr(mr)
        # Something else may have come meanwhile.
        wait(lambda: registered - group.kernel_bytes() >= 4 * pages)
        _balanced(buffer)


def _only_revocable(control: Control, device: uverbs.Device) -> None:
    with control.create(SIZE, rules=vram.ONLY_REVOCABLE) as buffer:
        buffer.call(vram.PIN_QUOTA_, 0)
        _register_and_drop(device, buffer)
        _balanced(buffer)


def transfers(suite: Suite, control: Control, device: str) -> None:
    peer = rc.Peer(device, SIZE)
    for name, layout in LAYOUTS.items():
        suite.check(f"rdma_survives_moves_of_{name.lower()}", functools.partial(_survives, control, peer, layout))
    suite.check("rdma_survives_a_buffer_that_moves_all_the_time", lambda: _survives_loop(control, peer))
    suite.check("rdma_to_a_revoked_buffer_fails_until_it_is_given_back", lambda: _fails(control, peer))
    peer.close()


def _survives(control: Control, peer: rc.Peer, layout: int) -> None:
    data = bytearray(pattern(layout))
    with control.create(SIZE, layout) as buffer:
        buffer.write(0, bytes(data))
        with peer.register(buffer.fd, SIZE) as region:
            for number in range(6):
                piece = pattern(number + 77, 2 * PAGE + 11)
                offset = number * 5 * PAGE + 13
                same(peer.write(piece, region, offset), 0)
                data[offset : offset + len(piece)] = piece
                buffer.move(vram.VRAM if number % 2 else vram.SAME)
                same(buffer.read(0, SIZE) == data, True)
                same(peer.read(SIZE, region, 0) == data, True)
        same(_balanced(buffer)["moves"] >= 9, True)


def _survives_loop(control: Control, peer: rc.Peer) -> None:
    with control.create(SIZE, vram.CHANGING) as buffer, peer.register(buffer.fd, SIZE) as region:
        buffer.loop(200, vram.SYSTEM)
        for number in range(40):
            data = pattern(number)
            same(peer.write(data, region, 0), 0)
            same(peer.read(SIZE, region, 0) == data, True)
        buffer.loop(0)
        same(buffer.read(0, SIZE) == data, True)
        same([buffer.stats()[name] for name in ("breaches", "late_writes", "vram_late_writes")], [0] * 3)


def _fails(control: Control, peer: rc.Peer) -> None:
    data = pattern(9)
    with control.create(SIZE, vram.SCATTERED) as buffer:
        with peer.register(buffer.fd, SIZE) as region:
            same(peer.write(data, region, 0), rc.OK)
            buffer.revoke()
            same(peer.write(bytes(SIZE), region, 0), rc.REMOTE_ACCESS_ERROR)
            same(buffer.read(0, SIZE) == data, True)
            peer.connect()
            buffer.unrevoke()
            same(peer.read(SIZE, region, 0) == data, True)
            same(peer.write(data[::-1], region, 0), rc.OK)
            same(buffer.read(0, SIZE) == data[::-1], True)
        _balanced(buffer)
