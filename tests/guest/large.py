# SPDX-License-Identifier: GPL-2.0
"""A udmabuf of more than 5 GiB, in less than 1 GiB of memory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import uverbs
from sources import udmabuf_of

GIB = 1 << 30
ITEM = 4 << 20
ITEMS = 1 + 5 * GIB // ITEM
# The DMA API of the test kernel warns of memory that is mapped more than seven times.
TIMES = 6


class Large:
    """The items at some places are memory of their own; all others are the same few, again and again."""

    # Bytes from the start of the buffer.
    PLACES = (0, GIB - ITEM, GIB, 2 * GIB, 4 * GIB - ITEM, 4 * GIB, (ITEMS - 1) * ITEM)
    SHARED = -(-ITEMS // TIMES)

    def __init__(self) -> None:
        for name, value in (("list_limit", ITEMS), ("size_limit_mb", 8192)):
            Path(f"/sys/module/udmabuf/parameters/{name}").write_text(str(value), encoding="ascii")
        self.memory = os.memfd_create("rdma_dmabuf-large", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory, (self.SHARED + len(self.PLACES)) * ITEM)
        fcntl.fcntl(self.memory, uverbs.F_ADD_SEALS, uverbs.F_SEAL_SHRINK)
        own = {place // ITEM: self.SHARED + number for number, place in enumerate(self.PLACES)}
        self.size = ITEMS * ITEM
        self.fd = udmabuf_of([(self.memory, own.get(number, number % self.SHARED) * ITEM, ITEM) for number in range(ITEMS)])

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.memory)

    def behind(self, place: int, offset: int, length: int) -> bytes:
        """What the memory has at one of the places, by its memfd."""
        return os.pread(self.memory, length, (self.SHARED + self.PLACES.index(place)) * ITEM + offset)

    def elsewhere(self, length: int) -> bool:
        """All that is not at one of the places begins with zeros."""
        return all(os.pread(self.memory, length, number * ITEM) == bytes(length) for number in range(self.SHARED))
