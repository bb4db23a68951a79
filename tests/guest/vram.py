# SPDX-License-Identifier: GPL-2.0
"""The ioctls of /dev/vram_exporter, as in include/vram_exporter.h."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import NamedTuple

NODE = "/dev/vram_exporter"
PAGE = os.sysconf("SC_PAGE_SIZE")

SAME, ONE_RUN, HUGE, SCATTERED, UNEVEN, MERGED, SPLIT, CHANGING = range(8)
VRAM, SYSTEM = 1, 2
ONLY_REVOCABLE, RECLAIMABLE = 1, 2
NEVER = 2**32 - 1
KERNEL, WRITE, READ, BOOKKEEP = range(4)
ATTACH, PIN, MAP, UNMAP = range(1, 5)
(CLEAR, FAIL, INVALIDATE, NO_P2P, NULL, SHORT, EMPTY, OVER_LONG, UNALIGNED, ZERO_LENGTH, HUGE_ENTRY, IO, EVICT) = range(13)


class Command(NamedTuple):
    """An ioctl: its number, and the fields of its argument with those that are reserved."""

    number: int
    fields: str

    @property
    def size(self) -> int:
        return struct.calcsize(self.fields)

    @property
    def code(self) -> int:
        """_IOW, or _IOWR for the statistics."""
        direction = 3 if self.number == 0xE9 else 1
        return direction << 30 | self.size << 16 | ord("V") << 8 | self.number

    def pack(self, *values: int) -> bytearray:
        """The fields that are not given are 0."""
        count = len(struct.unpack(self.fields, bytes(self.size)))
        return bytearray(struct.pack(self.fields, *values, *[0] * (count - len(values))))


CREATE_ = Command(0xE0, "=QIIII2Q")
MOVE_ = Command(0xE1, "=iIII2Q")
LOOP_ = Command(0xE2, "=iIII")
REVOKE_ = Command(0xE3, "=iIQ")
UNREVOKE_ = Command(0xE4, "=i3I")
PIN_QUOTA_ = Command(0xE5, "=iIQ")
FENCE_ = Command(0xE6, "=iIII2Q")
SIGNAL_ = Command(0xE7, "=i3I")
FAULT_ = Command(0xE8, "=iIIIIi2I")
STATS_ = Command(0xE9, "=i5I18Q")
READ_ = Command(0xEA, "=iIQQQQ")
WRITE_ = Command(0xEB, "=iIQQQQ")
INVALIDATE_ = Command(0xEC, "=i3I")
SHRINK_ = Command(0xED, "=i3I")
MOVE_BOTH_ = Command(0xEE, "=iiQ")

# All that name a buffer first.
OF_BUFFERS = {
    "move": MOVE_,
    "loop": LOOP_,
    "revoke": REVOKE_,
    "unrevoke": UNREVOKE_,
    "pin_quota": PIN_QUOTA_,
    "fence": FENCE_,
    "signal": SIGNAL_,
    "fault": FAULT_,
    "stats": STATS_,
    "read": READ_,
    "write": WRITE_,
    "invalidate": INVALIDATE_,
    "shrink": SHRINK_,
    "move_both": MOVE_BOTH_,
}

STATS = (
    "fd placement is_revoked pinned mapped reserved32 attaches detaches maps unmaps pins unpins vmaps vunmaps"
    " cpu_begins cpu_ends invalidations moves breaches late_writes guard_writes vram_late_writes"
).split()


class Control:
    """An open /dev/vram_exporter."""

    def __init__(self) -> None:
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.fd)

    def call(self, command: Command, *values: int) -> bytearray:
        """The argument afterwards."""
        argument = command.pack(*values)
        fcntl.ioctl(self.fd, command.code, argument)
        return argument

    def create(
        self, size: int, layout: int = ONE_RUN, placement: int = VRAM, flags: int = os.O_RDWR | os.O_CLOEXEC, rules: int = 0
    ) -> Buffer:
        argument = CREATE_.pack(size, layout, placement, flags, rules)
        return Buffer(self, fcntl.ioctl(self.fd, CREATE_.code, argument), size)


class Buffer:
    """A dma-buf, by its fd."""

    def __init__(self, control: Control, fd: int, size: int) -> None:
        self.control, self.fd, self.size = control, fd, size

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def call(self, command: Command, *values: int) -> bytearray:
        return self.control.call(command, self.fd, *values)

    def move(self, placement: int = SAME, layout: int = SAME, fence_ms: int = 0) -> None:
        self.call(MOVE_, placement, layout, fence_ms)

    def loop(self, per_second: int, placement: int = SAME) -> None:
        self.call(LOOP_, per_second, placement)

    def revoke(self, timeout_ms: int = 5000) -> None:
        self.call(REVOKE_, timeout_ms)

    def unrevoke(self) -> None:
        self.call(UNREVOKE_)

    def move_with(self, other: Buffer) -> None:
        self.call(MOVE_BOTH_, other.fd)

    def fault(self, op: int, action: int, every: int = 0, error: int = 0, other: int = 0) -> None:
        self.call(FAULT_, op, action, every, error, other)

    def stats(self) -> dict[str, int]:
        return dict(zip(STATS, struct.unpack(STATS_.fields, self.call(STATS_))))

    def read(self, offset: int, length: int) -> bytes:
        data = ctypes.create_string_buffer(length)
        self.call(READ_, 0, offset, length, ctypes.addressof(data))
        return data.raw

    def write(self, offset: int, data: bytes) -> None:
        copy = ctypes.create_string_buffer(data, len(data))
        self.call(WRITE_, 0, offset, len(data), ctypes.addressof(copy))
