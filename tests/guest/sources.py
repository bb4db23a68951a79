# SPDX-License-Identifier: GPL-2.0
"""Exporters of dma-bufs that a guest has, each as a function that makes a buffer.

Numbers as in include/uapi/drm/drm.h, drm_mode.h and include/uapi/linux/udmabuf.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import uverbs
import vram

PAGE = uverbs.PAGE
HUGE_PAGE = 2 << 20

UDMABUF_CREATE_LIST = 0x40087543
DRM_IOCTL_VERSION = 0xC0406400
DRM_IOCTL_GEM_CLOSE = 0x40086409
DRM_IOCTL_PRIME_HANDLE_TO_FD = 0xC00C642D
DRM_IOCTL_MODE_CREATE_DUMB = 0xC02064B2
DRM_CLOEXEC, DRM_RDWR = os.O_CLOEXEC, os.O_RDWR
MFD_HUGETLB, MFD_HUGE_2MB = 0x4, 21 << 26
WIDTH = 1024


class Source(NamedTuple):
    """An exporter: what makes a buffer of so many bytes, and whether its file can be one for reading alone."""

    name: str
    size: int
    make: Callable[[int, bool], int]
    has_read_only: bool


def udmabuf(size: int, _: bool) -> int:
    return uverbs.udmabuf(size)


def _memfd(size: int, flags: int) -> int:
    memory = os.memfd_create("rdma_dmabuf-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(memory, size)
    fcntl.fcntl(memory, uverbs.F_ADD_SEALS, uverbs.F_SEAL_SHRINK)
    return memory


def udmabuf_of(items: list[tuple[int, int, int]]) -> int:
    """A dma-buf of pieces of memfds: each an fd, an offset and a size in bytes."""
    request = struct.pack("=II", 1, len(items)) + b"".join(struct.pack("=IIQQ", fd, 0, offset, size) for fd, offset, size in items)
    with open("/dev/udmabuf", "rb") as device:
        return fcntl.ioctl(device, UDMABUF_CREATE_LIST, bytearray(request))


def udmabuf_hugetlb(size: int, _: bool) -> int:
    memory = _memfd(size, MFD_HUGETLB | MFD_HUGE_2MB)
    try:
        return udmabuf_of([(memory, 0, size)])
    finally:
        os.close(memory)


def udmabuf_list(size: int, _: bool) -> int:
    """Of four memfds, in another order than they were made, the last piece of a page."""
    quarter = size // 4 // PAGE * PAGE
    pieces = [PAGE, quarter, quarter, size - 2 * quarter - PAGE]
    memory = [_memfd(piece + PAGE, 0) for piece in pieces]
    try:
        return udmabuf_of([(fd, PAGE, piece) for fd, piece in reversed(list(zip(memory, pieces)))])
    finally:
        for fd in memory:
            os.close(fd)


def system_heap(size: int, read_only: bool) -> int:
    return uverbs.system_heap(size, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)


def _driver(card: int) -> str:
    """The name of the driver behind a DRM node."""
    name = ctypes.create_string_buffer(32)
    version = bytearray(struct.pack("=iii4xQQQQQQ", 0, 0, 0, 31, ctypes.addressof(name), 0, 0, 0, 0))
    fcntl.ioctl(card, DRM_IOCTL_VERSION, version)
    return name.value.decode("ascii")


def _card(driver: str) -> int:
    for path in sorted(Path("/dev/dri").glob("card*")):
        card = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if _driver(card) == driver:
            return card
        os.close(card)
    raise AssertionError(f"no DRM node of {driver}")


def dumb(driver: str) -> Callable[[int, bool], int]:
    """A dumb buffer of that driver, exported by PRIME. The GEM object goes on living behind the dma-buf alone."""

    def make(size: int, read_only: bool) -> int:
        card = _card(driver)
        try:
            lines = size // (4 * WIDTH)
            request = bytearray(struct.pack("=IIIIIIQ", lines, WIDTH, 32, 0, 0, 0, 0))
            fcntl.ioctl(card, DRM_IOCTL_MODE_CREATE_DUMB, request)
            handle = struct.unpack_from("=I", request, 16)[0]
            prime = bytearray(struct.pack("=IIi", handle, DRM_CLOEXEC | (0 if read_only else DRM_RDWR), -1))
            fcntl.ioctl(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, prime)
            fcntl.ioctl(card, DRM_IOCTL_GEM_CLOSE, struct.pack("=II", handle, 0))
            return struct.unpack_from("=i", prime, 8)[0]
        finally:
            os.close(card)

    return make


def movable(layout: int, placement: int, moves: int = 0) -> Callable[[int, bool], int]:
    """Of /dev/vram_exporter, moving that often a second."""

    def make(size: int, read_only: bool) -> int:
        control = vram.Control()
        try:
            flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
            buffer = control.create(size, layout, placement, flags)
            if moves:
                buffer.loop(moves, vram.SYSTEM)
            return buffer.fd
        finally:
            control.close()

    return make


SOURCES = [
    Source("udmabuf", 1 << 20, udmabuf, False),
    Source("udmabuf_hugetlb", 2 * HUGE_PAGE, udmabuf_hugetlb, False),
    Source("udmabuf_list", 1 << 20, udmabuf_list, False),
    Source("system_heap", 4 << 20, system_heap, True),
    Source("vgem", 1 << 20, dumb("vgem"), True),
    Source("virtio_gpu", 1 << 20, dumb("virtio_gpu"), True),
    Source("vram_in_runs", 4 << 20, movable(vram.HUGE, vram.SYSTEM), True),
    Source("vram_scattered", 1 << 20, movable(vram.SCATTERED, vram.VRAM), True),
    Source("vram_that_moves", 1 << 20, movable(vram.CHANGING, vram.VRAM, 50), True),
]


class View:
    """What the CPU sees of a dma-buf, by its exporter's mmap.

    Without brackets it tells the exporter nothing of its accesses, which a udmabuf does not need. With them the DMA API's
    debugging warns of its own mapping where more than 64 KiB lie together.
    """

    def __init__(self, fd: int, size: int, has_brackets: bool = True) -> None:
        self.fd, self.size, self.has_brackets = os.dup(fd), size, has_brackets
        self.memory = mmap.mmap(self.fd, size)

    def read(self, offset: int, length: int) -> bytes:
        with self._access():
            return self.memory[offset : offset + length]

    def write(self, offset: int, data: bytes) -> None:
        with self._access():
            self.memory[offset : offset + len(data)] = data

    @contextmanager
    def _access(self) -> Iterator[None]:
        if not self.has_brackets:
            yield
            return
        uverbs.sync(self.fd, uverbs.SYNC_START)
        try:
            yield
        finally:
            uverbs.sync(self.fd, uverbs.SYNC_END)

    def close(self) -> None:
        self.memory.close()
        os.close(self.fd)
