# SPDX-License-Identifier: GPL-2.0
"""Reports A to E: where an MR points, files and who has them, rights, and the size of the memory."""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import kernel
import size
import uverbs
from exporter_mr import pattern
from expect import in_child, refused, same, wait
from local import Local
from sources import View, udmabuf_of
from uverbs import PAGE, READ_WRITE, Mr
from vram import Control

MIB, GIB = 1 << 20, 1 << 30
F_SEAL_WRITE, F_GET_SEALS = 8, 1034


@contextmanager
def buffer(length: int) -> Iterator[tuple[int, View]]:
    """A udmabuf with a pattern in it, and what the CPU sees of it."""
    fd = uverbs.udmabuf(length)
    view = View(fd, length, False)
    try:
        view.write(0, pattern(length, length))
        yield fd, view
    finally:
        view.close()
        os.close(fd)


@contextmanager
def region(local: Local, *arguments: int) -> Iterator[Mr]:
    mr = local.register(*arguments)
    try:
        yield mr
    finally:
        local.verbs.dereg_mr(mr)


def _changes(local: Local, fd: int, view: View, offset: int, length: int, iova: int) -> None:
    """The bytes that the MR is of change, and no others."""
    wanted = bytearray(view.read(0, view.size))
    data = bytes(255 - byte for byte in wanted[offset : offset + length])
    with region(local, fd, offset, length, iova) as mr:
        local.write(mr, iova, data)
        wanted[offset : offset + length] = data
        same(view.read(0, view.size) == wanted, True)
        same(local.read(mr, iova, length) == data, True)
        for address in (iova - 1, iova + length):
            local.refused_write(mr, address)
    same(view.read(0, view.size) == wanted, True)


def a1_slice_is_where_the_offset_says(local: Local, _: Control) -> None:
    """The wrong form, with offset 0, is of the start of the buffer: the offset alone says where."""
    iova = 0x7F00_0010_0000
    with buffer(4 * MIB) as (fd, view):
        _changes(local, fd, view, MIB, 64 << 10, iova)
        _changes(local, fd, view, 0, 64 << 10, iova)


def a2_regions_need_not_be_of_whole_pages(local: Local, _: Control) -> None:
    with buffer(16 * PAGE) as (fd, view):
        _changes(local, fd, view, 100, 8, 0x1000_0000 + 100)
        _changes(local, fd, view, PAGE - 1, 2, 0x1000_0FFF)


def a10_empty_pieces_are_the_exporters_to_refuse(_: Local, __: Control) -> None:
    memory = os.memfd_create("rdma_dmabuf-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, 4 * PAGE)
        fcntl.fcntl(memory, uverbs.F_ADD_SEALS, uverbs.F_SEAL_SHRINK)
        before = kernel.buffers()
        for items in ([(memory, 0, PAGE), (memory, PAGE, 0)], [(memory, 100, PAGE)], []):
            refused(errno.EINVAL, udmabuf_of, items)
        same(kernel.buffers(), before)
    finally:
        os.close(memory)


def c1_no_file_stays_open_with_a_region(local: Local, _: Control) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    try:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(size.of(500, 5000)):
            fd = uverbs.udmabuf(4 * MIB if number % 100 == 0 else 4 * PAGE)
            mr = local.register(fd, 0, 4 * PAGE, 0)
            os.close(fd)
            local.write(mr, number % (4 * PAGE), b"x")
            local.verbs.dereg_mr(mr)
            same(len(os.listdir("/proc/self/fd")), before)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def c3_exporting_process_is_gone(local: Local, _: Control) -> None:
    """Its memory is left to the region, and goes with it."""
    before = kernel.buffers()
    ours, theirs = socket.socketpair()

    def export() -> int:
        fd = uverbs.udmabuf(MIB)
        View(fd, MIB, False).write(0, pattern(3, MIB))
        socket.send_fds(theirs, [b"x"], [fd])
        return 0

    same(in_child(export), 0)
    _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
    with region(local, fd, 0, MIB, 0) as mr:
        os.close(fd)
        for offset in (0, MIB // 2, MIB - 60000):
            same(local.read(mr, offset, 60000) == pattern(3, MIB)[offset : offset + 60000], True)
    ours.close()
    theirs.close()
    wait(lambda: kernel.buffers() == before)


def c6_no_number_is_left_for_the_file(_: Local, control: Control) -> None:
    """Both exporters make the object first, and have to take it back."""
    before = kernel.buffers()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = os.memfd_create("rdma_dmabuf-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, PAGE)
    fcntl.fcntl(memory, uverbs.F_ADD_SEALS, uverbs.F_SEAL_SHRINK)
    device = os.open("/dev/udmabuf", os.O_RDWR)
    request = uverbs.udmabuf_request(memory, PAGE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_first_free(), limits[1]))
    try:
        refused(errno.EMFILE, fcntl.ioctl, device, uverbs.UDMABUF_CREATE, request)
        refused(errno.EMFILE, control.create, PAGE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.close(device)
        os.close(memory)
    same(kernel.buffers(), before)


def _first_free() -> int:
    """The lowest number that no file has."""
    fd = os.dup(0)
    os.close(fd)
    return fd


def c7_fork_leaves_the_region_to_the_parent(local: Local, _: Control) -> None:
    """A child closes what it has inherited, or registers by the inherited context."""
    with buffer(64 << 10) as (fd, view), region(local, fd, 0, 64 << 10, 0) as mr:
        for registers in (False, True):
            same(in_child(functools.partial(_child, local, fd, registers)), 0)
            local.write(mr, PAGE - 2, b"here")
            same(view.read(PAGE - 2, 4), b"here")


def _child(local: Local, fd: int, registers: bool) -> int:
    try:
        if registers:
            local.verbs.dereg_mr(local.register(fd, 0, PAGE, 0))
        os.close(fd)
    except OSError as error:
        return error.errno
    return 0


def d5_sealed_memory_is_not_written_to(local: Local, _: Control) -> None:
    """One seals it against writing while another makes a buffer of it and registers that: not both get their way."""
    for _ in range(size.of(40, 200)):
        memory = os.memfd_create("rdma_dmabuf-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, PAGE)
        fcntl.fcntl(memory, uverbs.F_ADD_SEALS, uverbs.F_SEAL_SHRINK)
        start, ends = threading.Barrier(2), []
        sealer = threading.Thread(target=_seal, args=(memory, start, ends))
        sealer.start()
        start.wait()
        try:
            fd = udmabuf_of([(memory, 0, PAGE)])
        except OSError as error:
            same(error.errno, errno.EINVAL)
            fd = None
        sealer.join()
        same(ends in ([0], [errno.EBUSY]), True)
        if fd is not None:
            with region(local, fd, 0, PAGE, 0, READ_WRITE):
                same(bool(fcntl.fcntl(memory, F_GET_SEALS) & F_SEAL_WRITE), False)
            os.close(fd)
        os.close(memory)


def _seal(memory: int, start: threading.Barrier, ends: list[int]) -> None:
    """The kernel waits a while for pages that are in use."""
    start.wait()
    try:
        fcntl.fcntl(memory, uverbs.F_ADD_SEALS, F_SEAL_WRITE)
        ends.append(0)
    except OSError as error:
        ends.append(error.errno)


def e8_buffers_of_gigabytes(local: Local, _: Control) -> None:
    """rxe's own MRs end near 1 GiB."""
    with open("/sys/module/udmabuf/parameters/size_limit_mb", "w", encoding="ascii") as limit:
        limit.write("4096")
    for length in (GIB, GIB + PAGE, 3 * GIB):
        fd = uverbs.udmabuf(length)
        with region(local, fd, 0, length, 0) as mr:
            os.close(fd)
            for address in (0, length // 2 - 3, length - 5000):
                data = pattern(address % 1000, 5000)
                local.write(mr, address, data)
                same(local.read(mr, address, 5000) == data, True)
            local.refused_write(mr, length)


CASES = (
    a1_slice_is_where_the_offset_says,
    a2_regions_need_not_be_of_whole_pages,
    a10_empty_pieces_are_the_exporters_to_refuse,
    c1_no_file_stays_open_with_a_region,
    c3_exporting_process_is_gone,
    c6_no_number_is_left_for_the_file,
    c7_fork_leaves_the_region_to_the_parent,
    d5_sealed_memory_is_not_written_to,
)
LONG_CASES = (e8_buffers_of_gigabytes,)
