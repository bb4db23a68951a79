# SPDX-License-Identifier: GPL-2.0
"""ibv_reg_dmabuf_mr() of the distribution's library with any argument: pyverbs chooses the iova itself.

There is no ibv_reg_mr_ex() here: it came with rdma-core 59, and Debian 13 has 56.1. The ioctl that it makes,
UVERBS_METHOD_REG_MR with an fd, is made by uverbs.Device.reg_mr instead.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

POINTER, SIZE, U64, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int


class _Mr(ctypes.Structure):
    """struct ibv_mr."""

    _fields_ = [
        ("context", POINTER),
        ("pd", POINTER),
        ("addr", POINTER),
        ("length", SIZE),
        ("handle", ctypes.c_uint32),
        ("lkey", ctypes.c_uint32),
        ("rkey", ctypes.c_uint32),
    ]


class Mr(NamedTuple):
    """A registered memory region."""

    address: int
    length: int
    lkey: int
    rkey: int


class Device:
    """An open device with one protection domain; its errors are OSErrors, as those of uverbs.Device."""

    def __init__(self, name: str) -> None:
        self.library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        devices = self._call("ibv_get_device_list", ctypes.POINTER(POINTER), (POINTER, None))
        device = next(entry for entry in devices if self._call("ibv_get_device_name", ctypes.c_char_p, (POINTER, entry)) == name.encode())
        self.context = self._call("ibv_open_device", POINTER, (POINTER, device))
        self._call("ibv_free_device_list", None, (ctypes.POINTER(POINTER), devices))
        self.pd = self._made(self._call("ibv_alloc_pd", POINTER, (POINTER, self.context)))

    def close(self) -> None:
        self._zero("ibv_dealloc_pd", self.pd)
        self._zero("ibv_close_device", self.context)

    def reg_dmabuf_mr(self, fd: int, offset: int, length: int, iova: int, access: int) -> Mr:
        """In the order of uverbs.Device.reg_dmabuf_mr."""
        arguments = ((POINTER, self.pd), (U64, offset), (SIZE, length), (U64, iova), (INT, fd), (INT, access))
        address = self._made(self._call("ibv_reg_dmabuf_mr", POINTER, *arguments))
        mr = _Mr.from_address(address)
        return Mr(address, mr.length, mr.lkey, mr.rkey)

    def dereg_mr(self, mr: Mr) -> None:
        self._zero("ibv_dereg_mr", mr.address)

    def _zero(self, name: str, pointer: int) -> None:
        error = self._call(name, INT, (POINTER, pointer))
        if error:
            raise OSError(error, name)

    @staticmethod
    def _made(pointer: int | None) -> int:
        if not pointer:
            raise OSError(ctypes.get_errno(), "nothing was made")
        return pointer

    def _call(self, name: str, result: object, *arguments: tuple[object, object]) -> object:
        function = self.library[name]
        function.restype, function.argtypes = result, [kind for kind, _ in arguments]
        return function(*(value for _, value in arguments))
