# SPDX-License-Identifier: GPL-2.0
"""The keys of regions that are alive."""

from __future__ import annotations

from uverbs import Mr

# In rxe a key is an index and eight bits below it. Windows begin where regions end.
LARGEST_INDEX = 1 << 19


def index(key: int) -> int:
    return key >> 8


class Living:
    """No two have the same index, which is more than that no two have the same key; all are those of regions."""

    def __init__(self) -> None:
        self.indices: set[int] = set()

    def add(self, mr: Mr) -> Mr:
        if index(mr.rkey) in self.indices:
            raise AssertionError(f"key {mr.rkey:#x} is that of a region which is alive")
        if not 0 < index(mr.rkey) <= LARGEST_INDEX:
            raise AssertionError(f"key {mr.rkey:#x} is none of a region")
        self.indices.add(index(mr.rkey))
        return mr

    def remove(self, mr: Mr) -> Mr:
        self.indices.remove(index(mr.rkey))
        return mr
