# SPDX-License-Identifier: GPL-2.0
"""The verbs ioctls and the exporters' ioctls that the guest tests make, without libibverbs.

A library would judge some bad input itself; here every call reaches the kernel. Numbers as in
include/uapi/rdma/ib_user_ioctl_cmds.h, ib_user_ioctl_verbs.h and include/uapi/linux/udmabuf.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")

LOCAL_WRITE = 1 << 0
REMOTE_WRITE = 1 << 1
REMOTE_READ = 1 << 2
REMOTE_ATOMIC = 1 << 3
MW_BIND = 1 << 4
ZERO_BASED = 1 << 5
ON_DEMAND = 1 << 6
HUGETLB = 1 << 7
FLUSH_GLOBAL = 1 << 8
FLUSH_PERSISTENT = 1 << 9
RELAXED_ORDERING = 1 << 20
READ_WRITE = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ

RDMA_VERBS_IOCTL = 0xC0181B01
DRIVER_RXE = 14
OBJECT_DEVICE, OBJECT_MR = 0, 7
INVOKE_WRITE, GET_CONTEXT = 0, 3
MR_DESTROY, ADVISE_MR, REG_DMABUF_MR, REG_MR = 1, 2, 4, 5
WRITE_ALLOC_PD, WRITE_REREG_MR = 3, 11
REREG_TRANS, REREG_PD, REREG_ACCESS = 1, 2, 4
ADVISE_FLUSH = 1
MANDATORY = 1

DMA_BUF_IOCTL_SYNC = 0x40086200
SYNC_READ_WRITE, SYNC_START, SYNC_END = 3, 0, 4
UDMABUF_CREATE = 0x40187542
DMA_HEAP_ALLOC = 0xC0184800
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2


def _pointer(buffer: ctypes.Array) -> int:
    return ctypes.addressof(buffer)


def _attr(number: int, length: int, data: int) -> bytes:
    return struct.pack("=HHHHQ", number, length, MANDATORY, 0, data & (2**64 - 1))


def _u64(number: int, value: int) -> bytes:
    return _attr(number, 8, value)


def _u32(number: int, value: int) -> bytes:
    return _attr(number, 4, value & (2**32 - 1))


def _object(number: int, handle: int) -> bytes:
    return _attr(number, 0, handle)


class Mr(NamedTuple):
    """A registered memory region."""

    handle: int
    lkey: int
    rkey: int


class Device:
    """An open uverbs device with one protection domain."""

    def __init__(self, name: str) -> None:
        self.fd = os.open(_uverbs_node(name), os.O_RDWR | os.O_CLOEXEC)
        self._call(OBJECT_DEVICE, GET_CONTEXT, [])
        self.pd = self._alloc_pd()

    @classmethod
    def of(cls, fd: int, pd: int) -> Device:
        """A device that somebody else has opened, and keeps, with one of its protection domains."""
        device = cls.__new__(cls)
        device.fd, device.pd = fd, pd
        return device

    def close(self) -> None:
        os.close(self.fd)

    def reg_dmabuf_mr(self, fd: int, offset: int, length: int, iova: int, access: int) -> Mr:
        """UVERBS_METHOD_REG_DMABUF_MR."""
        keys = (ctypes.c_uint32 * 2)()
        attrs = [
            _object(0, 0),
            _object(1, self.pd),
            _u64(2, offset),
            _u64(3, length),
            _u64(4, iova),
            _u32(5, fd),
            _u64(6, access),
            _attr(7, 4, _pointer(keys)),
            _attr(8, 4, _pointer(keys) + 4),
        ]
        return Mr(self._call(OBJECT_MR, REG_DMABUF_MR, attrs), *keys)

    def reg_mr(
        self, fd: int, offset: int | None, length: int, iova: int, access: int, addr: int | None = None, dmah: int | None = None
    ) -> Mr:
        """UVERBS_METHOD_REG_MR with an fd; offset None leaves FD_OFFSET out, addr adds ADDR, dmah adds DMA_HANDLE."""
        keys = (ctypes.c_uint32 * 2)()
        attrs = [
            _object(0, 0),
            _object(1, self.pd),
            _u64(3, iova),
            _u64(5, length),
            _u64(6, access),
            _object(7, fd),
            _attr(9, 4, _pointer(keys)),
            _attr(10, 4, _pointer(keys) + 4),
        ]
        if addr is not None:
            attrs.append(_u64(4, addr))
        if offset is not None:
            attrs.append(_u64(8, offset))
        if dmah is not None:
            attrs.append(_object(2, dmah))
        return Mr(self._call(OBJECT_MR, REG_MR, attrs), *keys)

    def dereg_mr(self, mr: Mr) -> None:
        self._call(OBJECT_MR, MR_DESTROY, [_object(0, mr.handle)])

    def rereg_mr(self, mr: Mr, flags: int, access: int = 0) -> None:
        """The write command REREG_MR, with the page range [0, PAGE) for REREG_TRANS."""
        response = (ctypes.c_uint32 * 2)()
        request = struct.pack("=QIIQQQII", _pointer(response), mr.handle, flags, 0, PAGE, 0, self.pd, access)
        self._write(WRITE_REREG_MR, request, response)

    def advise_mr(self, mr: Mr, advice: int, addr: int, length: int) -> None:
        """UVERBS_METHOD_ADVISE_MR for one range, waiting for the answer."""
        sge = ctypes.create_string_buffer(struct.pack("=QII", addr, length, mr.lkey), 16)
        attrs = [_object(0, self.pd), _u64(1, advice), _u64(2, ADVISE_FLUSH), _attr(3, 16, _pointer(sge))]
        self._call(OBJECT_MR, ADVISE_MR, attrs)

    def _alloc_pd(self) -> int:
        response = (ctypes.c_uint32 * 1)()
        self._write(WRITE_ALLOC_PD, bytes(8), response)
        return response[0]

    def _write(self, command: int, request: bytes, response: ctypes.Array) -> None:
        """A command of the older write interface, through the ioctl."""
        buffer = ctypes.create_string_buffer(request, len(request))
        # Up to eight bytes travel inside the attribute.
        data = int.from_bytes(request, "little") if len(request) <= 8 else _pointer(buffer)
        attrs = [_attr(0, len(request), data), _attr(1, ctypes.sizeof(response), _pointer(response)), _u64(2, command)]
        self._call(OBJECT_DEVICE, INVOKE_WRITE, attrs)

    def _call(self, kind: int, method: int, attrs: list[bytes]) -> int:
        """The data of the first attribute afterwards: the handle, where one is made."""
        length = 24 + 16 * len(attrs)
        header = struct.pack("=HHHHQII", length, kind, method, len(attrs), 0, DRIVER_RXE, 0)
        command = bytearray(header + b"".join(attrs))
        fcntl.ioctl(self.fd, RDMA_VERBS_IOCTL, command)
        return struct.unpack_from("=Q", command, 24 + 8)[0] if attrs else 0


def _uverbs_node(name: str) -> Path:
    nodes = [node for node in Path("/sys/class/infiniband_verbs").glob("uverbs*") if (node / "ibdev").read_text().strip() == name]
    if not nodes:
        raise SystemExit(f"no uverbs device of {name}; create it with: rdma link add {name} type rxe netdev NETDEV")
    return Path("/dev/infiniband") / nodes[0].name


def udmabuf_request(memory: int, size: int) -> bytearray:
    """The argument of UDMABUF_CREATE; the dma-buf is closed on exec."""
    return bytearray(struct.pack("=IIQQ", memory, 1, 0, size))


def udmabuf(size: int) -> int:
    """A dma-buf over a sealed memfd of that many bytes (a multiple of the page size)."""
    memory = os.memfd_create("rdma_dmabuf-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, size)
        fcntl.fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK)
        with open("/dev/udmabuf", "rb") as device:
            return fcntl.ioctl(device, UDMABUF_CREATE, udmabuf_request(memory, size))
    finally:
        os.close(memory)


def sync(fd: int, when: int) -> None:
    """Begins or ends an access of the CPU to a dma-buf, for reading and writing."""
    fcntl.ioctl(fd, DMA_BUF_IOCTL_SYNC, struct.pack("=Q", SYNC_READ_WRITE | when))


def system_heap(size: int, flags: int = os.O_RDWR | os.O_CLOEXEC) -> int:
    """A dma-buf from the system heap; the flags are those of its file."""
    request = bytearray(struct.pack("=QIIQ", size, 0, flags, 0))
    with open("/dev/dma_heap/system", "rb") as device:
        fcntl.ioctl(device, DMA_HEAP_ALLOC, request)
    return struct.unpack_from("=I", request, 8)[0]
