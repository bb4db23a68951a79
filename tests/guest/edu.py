# SPDX-License-Identifier: GPL-2.0
"""The ioctls of /dev/rdma_dmabuf_edu, as in tests/edu/uapi.h: a DMA engine that uses the importer."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import NamedTuple

from vram import PAGE

NODE = "/dev/rdma_dmabuf_edu"
MODULE = "/project/edu/rdma_dmabuf_edu.ko"
LONGEST = 2048
DYNAMIC, PINNED, REVOCABLE = range(3)
TO_MEMORY, STALE = 1, 2

_REGISTER, _RELEASE, _COPY, _STATE, _WRONG_ORDER = 0x40184500, 0x4501, 0x40104502, 0x80104503, 0x40044504


class State(NamedTuple):
    maps: int
    unmaps: int
    is_mapped: int
    is_revoked: int


class Engine:
    """The device, with one region at a time."""

    def __init__(self) -> None:
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def register(self, fd: int, length: int, offset: int = 0, mode: int = DYNAMIC) -> None:
        fcntl.ioctl(self.fd, _REGISTER, struct.pack("=iIQQ", fd, mode, offset, length))

    def release(self) -> None:
        fcntl.ioctl(self.fd, _RELEASE)

    def load(self, offset: int, length: int = LONGEST, flags: int = 0) -> None:
        """From the region into the device."""
        self._copy(offset, length, flags)

    def store(self, offset: int, length: int = LONGEST, flags: int = 0) -> None:
        """From the device into the region."""
        self._copy(offset, length, flags | TO_MEMORY)

    def _copy(self, offset: int, length: int, flags: int) -> None:
        fcntl.ioctl(self.fd, _COPY, struct.pack("=QII", offset, length, flags))

    def state(self) -> State:
        return State(*struct.unpack("=IIII", fcntl.ioctl(self.fd, _STATE, bytes(16))))

    def wrong_order(self, fd: int) -> None:
        """Takes the reservation lock of a dma-buf within an access to the region."""
        fcntl.ioctl(self.fd, _WRONG_ORDER, struct.pack("=i", fd))


def copied(engine: Engine, source: int, target: int) -> None:
    """Half a page within the region, by the device alone."""
    engine.load(source)
    engine.store(target)
