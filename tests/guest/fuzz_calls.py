# SPDX-License-Identifier: GPL-2.0
"""The grammar of a hostile user: calls with arguments that are right, nearly right, or anything.

A user has a few buffers, regions and a connected pair of queue pairs at a time, and loses some now and then.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random
import struct
from collections import Counter
from collections.abc import Callable

import nldev
import sources
import uverbs
import vram
from endpoint import ALL, TRIES, Endpoint
from pyverbs import enums
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.wr import SGE, SendWR
from uverbs import PAGE
from vram import Control

BUFFERS, REGIONS = 6, 10
LONGEST = 96 * PAGE
TOP = 2**64
ATOMICS = (enums.IBV_WR_ATOMIC_FETCH_AND_ADD, enums.IBV_WR_ATOMIC_CMP_AND_SWP)
OPCODES = (enums.IBV_WR_RDMA_WRITE, enums.IBV_WR_RDMA_READ, enums.IBV_WR_SEND, *ATOMICS)
FLAWS = ("kind", "method", "driver", "count", "attribute", "length", "flags", "data")


class User:
    """One process of somebody who means harm."""

    def __init__(self, device: str, address: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.device, self.address = device, address
        self.endpoint = Endpoint(device, address)
        self.verbs = self.endpoint.verbs
        self.control = Control()
        self.plain = MR(self.endpoint.pd, LONGEST, enums.IBV_ACCESS_LOCAL_WRITE)
        # The size of each buffer, by its fd; and those that the exporter moves.
        self.fds: dict[int, int] = {}
        self.movable: set[int] = set()
        # Where each region is, by its handle: its first iova, and its length. And whose it is.
        self.places: dict[int, tuple[int, int]] = {}
        self.buffers: dict[int, int] = {}
        self.regions: list[uverbs.Mr] = []
        self.pair: tuple = ()
        self.extended: tuple = ()
        self.outcomes: Counter = Counter()
        self._connect()

    def close(self) -> None:
        """What is left goes with the process."""
        for qp in (*self.pair, *self.extended):
            qp.close()

    def call(self) -> None:
        """One, and what became of it."""
        name, make = self.random.choice(CALLS)
        try:
            make(self)
            outcome = "ok"
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, str(error.errno))
        except (PyverbsError, ValueError, OverflowError, struct.error) as error:
            outcome = type(error).__name__
        self.outcomes[(name, outcome)] += 1

    # --- arguments ---------------------------------------------------------------------------

    def number(self, *likely: int) -> int:
        """One of those that are likely, or beside one, or anything."""
        choice = self.random.random()
        if choice < 0.9:
            return self.random.choice(likely) % TOP
        if choice < 0.95:
            return (self.random.choice((*likely, 0, 1 << 12, 1 << 31, 1 << 32, 1 << 63)) + self.random.choice((-1, 1, PAGE, -PAGE))) % TOP
        return self.random.getrandbits(self.random.choice((8, 16, 32, 63, 64)))

    def fd(self) -> int:
        wrong = (-1, 0, self.control.fd, self.verbs.fd, 1 << 20)
        return self.random.choice(list(self.fds)) if self.fds and self.random.random() < 0.9 else self.random.choice(wrong)

    def movable_fd(self) -> int:
        return self.random.choice(list(self.movable)) if self.movable and self.random.random() < 0.9 else self.fd()

    def region(self) -> uverbs.Mr:
        if self.regions and self.random.random() < 0.9:
            return self.random.choice(self.regions)
        return uverbs.Mr(self.random.getrandbits(16), self.random.getrandbits(32), self.random.getrandbits(32))

    def place(self, region: uverbs.Mr) -> tuple[int, int]:
        """A stretch of the region, or thereabouts, or anywhere."""
        first, length = self.places.get(region.handle, (0, PAGE))
        start = self.random.randrange(max(length, 1))
        if self.random.random() < 0.85:
            return (first + start) % TOP, self.random.randrange(1, max(length - start, 1) + 1)
        return self.number(first, first + start, first + length), self.number(8, 100, PAGE, 3 * PAGE, length) % (1 << 20)

    # --- buffers -----------------------------------------------------------------------------

    def make_buffer(self) -> None:
        if len(self.fds) >= BUFFERS:
            self.close_buffer()
        size = self.random.choice((PAGE, 3 * PAGE, 17 * PAGE, LONGEST))
        kind, is_movable = self.random.randrange(6), False
        if kind == 0:
            fd = uverbs.udmabuf(size)
        elif kind == 1:
            flags = self.random.choice((os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR))
            fd = uverbs.system_heap(size, flags | os.O_CLOEXEC)
        elif kind == 2:
            fd = sources.udmabuf_of([(self.number(0, 3), self.number(0, PAGE), self.number(PAGE, size))])
        else:
            is_movable = True
            values = (size, self.random.randrange(1, 9), self.random.randrange(1, 4), os.O_RDWR | os.O_CLOEXEC, self.random.choice((0, 0, 1, 2)))
            fd = fcntl.ioctl(self.control.fd, vram.CREATE_.code, vram.CREATE_.pack(*values))
        self.fds[fd] = size
        if is_movable:
            self.movable.add(fd)

    def close_buffer(self) -> None:
        if self.fds:
            fd = self.random.choice(list(self.fds))
            del self.fds[fd]
            self.movable.discard(fd)
            os.close(fd)

    def order(self) -> None:
        """Something of the exporter. Fences end soon, since a registration waits for them as long as it lives."""
        name, command = self.random.choice(list(vram.OF_BUFFERS.items()))
        count = len(struct.unpack(command.fields, bytes(command.size)))
        values = [0] * count
        values[0] = self.movable_fd()
        if name == "move":
            values[1:4] = self.random.randrange(4), self.random.randrange(9), self.random.choice((0, 0, 5))
        elif name == "loop":
            values[1:3] = self.random.choice((0, 0, 20, 50)), self.random.randrange(4)
        elif name == "revoke":
            values[1] = self.random.choice((1, 100))
        elif name == "pin_quota":
            values[1] = self.random.randrange(3)
        elif name == "fence":
            values[1:3] = self.random.randrange(5), self.random.choice((1, 5, 20))
        elif name == "fault":
            values[1:5] = self.random.randrange(6), self.random.randrange(14), self.random.choice((0, 0, 3)), self.number(0, 5, 12) % 5000
            values[5] = self.movable_fd() if values[2] == vram.EVICT else 0
        elif name == "move_both":
            values[1] = self.movable_fd()
        elif name in ("read", "write"):
            values[2:5] = self.number(0, PAGE), self.number(16, PAGE), self.number(self.plain.buf)
        fcntl.ioctl(self.control.fd, command.code, bytearray(struct.pack(command.fields, *values)))

    def look(self) -> None:
        """The CPU's own access to a buffer."""
        fd = self.fd()
        if self.random.random() < 0.5:
            fcntl.ioctl(fd, uverbs.DMA_BUF_IOCTL_SYNC, struct.pack("=Q", self.number(*range(8))))
            return
        with mmap.mmap(fd, PAGE) as memory:
            memory[:8] = bytes(8)

    # --- regions -----------------------------------------------------------------------------

    def register(self) -> None:
        fd = self.fd()
        buffer = self.fds.get(fd, PAGE)
        offset = self.number(0, 0, 0, PAGE, 512, self.random.randrange(buffer))
        length = self.number(buffer - offset, (buffer - offset) // 2, 100, LONGEST)
        iova = self.number(offset, offset + 7 * PAGE, TOP - LONGEST + offset % PAGE)
        access = self.number(ALL, ALL, uverbs.READ_WRITE, uverbs.LOCAL_WRITE, 0, ALL | uverbs.RELAXED_ORDERING) & (2**32 - 1)
        if self.random.random() < 0.7:
            region = self.verbs.reg_dmabuf_mr(fd, offset, length, iova, access)
        else:
            addr = self.random.choice((None, None, 0, self.plain.buf))
            region = self.verbs.reg_mr(fd, self.random.choice((offset, offset, None)), length, iova, access, addr)
        self.regions.append(region)
        self.places[region.handle] = (iova, length)
        self.buffers[region.handle] = fd
        if len(self.regions) > REGIONS:
            self.verbs.dereg_mr(self.regions.pop(0))

    def deregister(self) -> None:
        region = self.region()
        self.verbs.dereg_mr(region)
        self.regions = [other for other in self.regions if other.handle != region.handle]

    def register_again(self) -> None:
        self.verbs.rereg_mr(self.region(), self.number(*range(8)) & 0xFF, self.number(ALL, 0) & (2**31 - 1))

    def advise(self) -> None:
        self.verbs.advise_mr(self.region(), self.number(0, 1, 2), self.number(0, PAGE), self.number(PAGE) & (2**32 - 1))

    def malformed(self) -> None:
        """An ioctl to register or deregister that is wrong in one place."""
        keys = (ctypes.c_uint32 * 2)()
        attrs = [
            [0, 0, 1, 0, 0],
            [1, 0, 1, 0, self.verbs.pd],
            [2, 8, 1, 0, 0],
            [3, 8, 1, 0, PAGE],
            [4, 8, 1, 0, 0],
            [5, 4, 1, 0, self.fd() & (2**32 - 1)],
            [6, 4, 1, 0, ALL],
            [7, 4, 1, 0, ctypes.addressof(keys)],
            [8, 4, 1, 0, ctypes.addressof(keys) + 4],
        ]
        kind, method, driver, count = uverbs.OBJECT_MR, uverbs.REG_DMABUF_MR, uverbs.DRIVER_RXE, len(attrs)
        flaw, victim = self.random.choice(FLAWS), self.random.choice(attrs)
        if flaw == "kind":
            kind = self.random.getrandbits(self.random.choice((4, 16)))
        elif flaw == "method":
            method = self.random.getrandbits(self.random.choice((3, 16)))
        elif flaw == "driver":
            driver = self.random.getrandbits(32)
        elif flaw == "count":
            count = self.random.choice((0, 1, count - 1, count + 1, 2**16 - 1))
        elif flaw == "attribute":
            victim[0] = self.random.getrandbits(self.random.choice((4, 16)))
        elif flaw == "length":
            victim[1] = self.random.getrandbits(self.random.choice((4, 16)))
        elif flaw == "flags":
            victim[2] = self.random.getrandbits(16)
        else:
            victim[4] = self.random.getrandbits(64)
        length = 24 + 16 * len(attrs)
        header = struct.pack("=HHHHQII", length, kind, method, count, 0, driver, 0)
        body = b"".join(struct.pack("=HHHHQ", *attr) for attr in attrs)
        command = bytearray(header + body)
        fcntl.ioctl(self.verbs.fd, uverbs.RDMA_VERBS_IOCTL, command)
        handle = struct.unpack_from("=Q", command, 32)[0]
        if (kind, method) == (uverbs.OBJECT_MR, uverbs.REG_DMABUF_MR):
            self.regions.append(uverbs.Mr(handle & (2**32 - 1), *keys))
            self.places[handle] = (0, PAGE)

    # --- traffic -----------------------------------------------------------------------------

    def _connect(self) -> None:
        self.close()
        self.pair = (self.endpoint.queue_pair(), self.endpoint.queue_pair())
        self.extended = (self.endpoint.extended(), self.endpoint.extended())
        for one, two in (self.pair, self.extended):
            for qp, other in ((one, two), (two, one)):
                qp.to_rts(self.endpoint.attributes(self.address, other.qp_num, tries=TRIES))

    def post(self) -> None:
        """With a key, an address and a length that may fit or not; from plain memory or from a region."""
        local, remote = self.region(), self.region()
        address, length = self.place(remote)
        piece = (self.plain.buf, min(length, LONGEST), self.plain.lkey)
        if self.random.random() < 0.4:
            start, room = self.place(local)
            piece = (start, min(length, room), local.lkey)
        opcode = self.random.choice(OPCODES)
        if opcode in ATOMICS:
            piece, address = (piece[0], 8, piece[2]), address & ~self.random.choice((7, 7, 7, 0))
        if opcode == enums.IBV_WR_SEND:
            self.endpoint.receive(self.pair[1], (*self.place(remote), remote.lkey))
        if opcode in ATOMICS:
            request = SendWR(num_sge=1, sg=[SGE(*piece)], opcode=opcode, send_flags=enums.IBV_SEND_SIGNALED)
            request.set_wr_atomic(remote.rkey, address, self.number(0, 1), self.number(0, 1))
            self.pair[0].post_send(request)
        else:
            self.endpoint.transfer(self.pair[0], opcode, piece, address, remote.rkey)

    def post_extended(self) -> None:
        """What there is another call for."""
        remote, (qp, other) = self.region(), self.extended
        address, _ = self.place(remote)
        qp.wr_start()
        qp.wr_flags = enums.IBV_SEND_SIGNALED
        if self.random.random() < 0.7:
            qp.wr_atomic_write(remote.rkey, address & ~self.random.choice((7, 7, 7, 0)), self.random.randbytes(8))
        else:
            self.endpoint.receive(other, (self.plain.buf, 64, self.plain.lkey))
            qp.wr_send_inv(remote.rkey)
            qp.wr_set_sge(SGE(self.plain.buf, 64, self.plain.lkey))
        qp.wr_complete()
        self.poll_often()

    def post_behind_a_fence(self) -> None:
        """To a buffer that has just been taken away, and is not in place again yet."""
        moving = [region for region in self.regions if self.buffers.get(region.handle) in self.movable]
        region = self.random.choice(moving) if moving and self.random.random() < 0.9 else self.region()
        fd, (address, length) = self.buffers.get(region.handle, self.fd()), self.place(region)
        fence_ms = self.random.choice((1, 5, 20))
        fcntl.ioctl(self.control.fd, vram.MOVE_.code, vram.MOVE_.pack(fd, self.random.randrange(3), self.random.randrange(8), fence_ms))
        opcode = self.random.choice((enums.IBV_WR_RDMA_WRITE, enums.IBV_WR_RDMA_READ))
        self.endpoint.transfer(self.pair[0], opcode, (self.plain.buf, min(length, LONGEST), self.plain.lkey), address, region.rkey)
        self.poll_often()

    def poll(self) -> None:
        """Once something has failed, the pair is worth nothing."""
        found = self.endpoint.completed()
        while found:
            self.outcomes[("completion", "ok" if found.status == enums.IBV_WC_SUCCESS else f"status {found.status}")] += 1
            if found.status != enums.IBV_WC_SUCCESS:
                self._connect()
                self.endpoint.drain()
                return
            found = self.endpoint.completed()

    def poll_often(self) -> None:
        for _ in range(4):
            self.poll()

    def post_and_poll(self) -> None:
        self.post()
        self.poll_often()

    # --- others ------------------------------------------------------------------------------

    def list_regions(self) -> None:
        """Those of everybody."""
        index = nldev.devices()[self.device] if self.random.random() < 0.8 else self.number(0) & (2**32 - 1)
        nldev.regions(index)


# Some more often than others.
CALLS: list[tuple[str, Callable[[User], None]]] = [
    (name, call)
    for name, call, weight in (
        ("make_buffer", User.make_buffer, 4),
        ("close_buffer", User.close_buffer, 1),
        ("order", User.order, 8),
        ("look", User.look, 1),
        ("register", User.register, 10),
        ("deregister", User.deregister, 3),
        ("register_again", User.register_again, 1),
        ("advise", User.advise, 1),
        ("malformed", User.malformed, 4),
        ("post", User.post_and_poll, 12),
        ("post_extended", User.post_extended, 2),
        ("post_behind_a_fence", User.post_behind_a_fence, 2),
        ("list_regions", User.list_regions, 1),
    )
    for _ in range(weight)
]
