# SPDX-License-Identifier: GPL-2.0
"""What the kernel has run for the calling thread, of the code that is instrumented.

Numbers as in include/uapi/linux/kcov.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

NODE = "/sys/kernel/debug/kcov"
WORDS = 1 << 18
INIT_TRACE, ENABLE, DISABLE = 0x80086301, 0x6364, 0x6365
TRACE_PC = 0


class Coverage:
    """Opened by who may; used by the thread that calls `collecting`."""

    def __init__(self) -> None:
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(self.fd, INIT_TRACE, WORDS)
        # mmap.mmap() asks for the file's size, which is nothing.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, ctypes.c_size_t(WORDS * 8), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.fd, ctypes.c_long(0))
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap of kcov")
        self.area = (ctypes.c_uint64 * WORDS).from_address(address)
        self.pcs: set[int] = set()

    @contextmanager
    def collecting(self) -> Iterator[None]:
        fcntl.ioctl(self.fd, ENABLE, TRACE_PC)
        try:
            yield
        finally:
            self.gather()
            fcntl.ioctl(self.fd, DISABLE, 0)

    def gather(self) -> None:
        """Adds what has been recorded, and makes room; what came after the room was full is lost."""
        self.pcs.update(self.area[1 : min(self.area[0], WORDS - 1) + 1])
        self.area[0] = 0
