#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What librdmabuf-mr.so does with one process: each case is a run of this file with it, in strict mode.

    preload_client.py CASE DEVICE

The log of the registrations is at $RDMABUF_MR_LOG.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import kernel
from expect import refused, same
from uverbs import LOCAL_WRITE, ON_DEMAND, PAGE, READ_WRITE, REMOTE_READ

PROT_READ, PROT_WRITE = 1, 2
MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 0x20
MASK_IOVA, MASK_ADDR, MASK_FD = 1, 2, 4
PAGES = 8


class Mr(ctypes.Structure):
    """struct ibv_mr."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("pd", ctypes.c_void_p),
        ("addr", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("handle", ctypes.c_uint32),
        ("lkey", ctypes.c_uint32),
        ("rkey", ctypes.c_uint32),
    ]


class InitAttr(ctypes.Structure):
    """struct ibv_mr_init_attr."""

    _fields_ = [
        ("length", ctypes.c_size_t),
        ("access", ctypes.c_int),
        ("comp_mask", ctypes.c_uint64),
        ("iova", ctypes.c_uint64),
        ("addr", ctypes.c_void_p),
        ("fd", ctypes.c_int),
        ("fd_offset", ctypes.c_uint64),
        ("dmah", ctypes.c_void_p),
    ]


MrPointer = ctypes.POINTER(Mr)
POINTER, SIZE, U64, INT, UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint


def function(library: ctypes.CDLL, name: str, result: object, *arguments: object) -> Callable:
    found = library[name]
    found.restype, found.argtypes = result, arguments
    return found


VERBS = ctypes.CDLL("libibverbs.so.1", use_errno=True)
# What a program that is linked with libibverbs gets; a look into that library itself would go past it.
PRELOAD = ctypes.CDLL("librdmabuf-mr.so", use_errno=True)
LIBC = ctypes.CDLL(None, use_errno=True)
device_list = function(VERBS, "ibv_get_device_list", ctypes.POINTER(POINTER), POINTER)
device_name = function(VERBS, "ibv_get_device_name", ctypes.c_char_p, POINTER)
open_device = function(VERBS, "ibv_open_device", POINTER, POINTER)
alloc_pd = function(VERBS, "ibv_alloc_pd", POINTER, POINTER)
reg_mr = function(PRELOAD, "ibv_reg_mr", MrPointer, POINTER, POINTER, SIZE, INT)
reg_mr_iova = function(PRELOAD, "ibv_reg_mr_iova", MrPointer, POINTER, POINTER, SIZE, U64, INT)
reg_mr_iova2 = function(PRELOAD, "ibv_reg_mr_iova2", MrPointer, POINTER, POINTER, SIZE, U64, UINT)
reg_mr_ex = function(PRELOAD, "ibv_reg_mr_ex", MrPointer, POINTER, ctypes.POINTER(InitAttr))
dereg_mr = function(PRELOAD, "ibv_dereg_mr", INT, MrPointer)
mmap = function(LIBC, "mmap", POINTER, POINTER, SIZE, INT, INT, INT, U64)
munmap = function(LIBC, "munmap", INT, POINTER, SIZE)
mprotect = function(LIBC, "mprotect", INT, POINTER, SIZE, INT)


def checked(mr: MrPointer) -> MrPointer:
    if not mr:
        raise OSError(ctypes.get_errno(), "registration")
    return mr


class Process:
    """An open device, and registrations of this process's memory."""

    def __init__(self, device: str) -> None:
        self.context = next(open_device(entry) for entry in device_list(None) if device_name(entry) == device.encode())
        self.pd = alloc_pd(self.context)

    def reg(self, address: int, length: int, access: int = READ_WRITE) -> MrPointer:
        return checked(reg_mr(self.pd, address, length, access))

    def reg_by_attr(self, **fields: int) -> MrPointer:
        return checked(reg_mr_ex(self.pd, ctypes.byref(InitAttr(access=READ_WRITE, **fields))))


def dereg(*mrs: MrPointer) -> None:
    for mr in mrs:
        same(dereg_mr(mr), 0)


@contextmanager
def memory(flags: int = MAP_PRIVATE, prot: int = PROT_READ | PROT_WRITE) -> Iterator[int]:
    address = mmap(None, PAGES * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0)
    ctypes.memmove(address, pattern(), PAGES * PAGE)
    same(mprotect(address, PAGES * PAGE, prot), 0)
    yield address
    same(munmap(address, PAGES * PAGE), 0)


def pattern() -> bytes:
    return bytes((index * 7 + index // PAGE) % 251 for index in range(PAGES * PAGE))


def content(address: int) -> bytes:
    return ctypes.string_at(address, PAGES * PAGE)


def log() -> list[dict[str, str]]:
    """The words of each line, those before and behind the arrow as `function` and `result`."""
    rows = []
    with open(os.environ["RDMABUF_MR_LOG"], encoding="ascii") as lines:
        for line in lines:
            words, result = line.rstrip("\n").split(" -> ")
            name, *pairs = words.split(" ")
            rows.append({"function": name, "result": result, **dict(pair.split("=", 1) for pair in pairs)})
    return rows


def mappings(address: int) -> list[str]:
    """How the pages from that address on are mapped, one word for each mapping."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        words = [line.split() for line in lines]
    ranges = [(int(row[0].split("-")[0], 16), row[1]) for row in words]
    return [rights for start, rights in ranges if address <= start < address + PAGES * PAGE]


def fds() -> int:
    """How many are open, but for the log that the first registration opens."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and os.readlink(link) != os.environ["RDMABUF_MR_LOG"] for link in links)


def content_stays(process: Process) -> None:
    """From the middle of a page to the middle of another: all around them, too."""
    with memory() as address:
        mr = process.reg(address + PAGE + 100, 3 * PAGE)
        same(content(address) == pattern(), True)
        same(mappings(address), ["rw-p", "rw-s", "rw-p"])
        same((mr.contents.addr, mr.contents.length), (address + PAGE + 100, 3 * PAGE))
        same([(row["offset"], row["result"]) for row in log()], [("0x64", "0")])
        (region,) = kernel.regions()
        same((region["offset"], region["length"], int(region["iova"], 16)), ("100", str(3 * PAGE), address + PAGE + 100))
        dereg(mr)


def ranges_share_a_buffer(process: Process) -> None:
    with memory() as address:
        mrs = [process.reg(address, PAGES * PAGE), process.reg(address, PAGES * PAGE), process.reg(address + 2 * PAGE + 5, PAGE)]
        same([row["offset"] for row in log()], ["0", "0", "0x2005"])
        same(len({row["fd"] for row in log()}), 1)
        same(len({region["ino"] for region in kernel.regions()}), 1)
        same(content(address) == pattern(), True)
        dereg(*mrs)


def range_of_two_buffers_is_ebusy(process: Process) -> None:
    with memory() as address:
        mr = process.reg(address, 2 * PAGE)
        refused(errno.EBUSY, process.reg, address + PAGE, 2 * PAGE)
        same(content(address) == pattern(), True)
        # With the first MR gone, its buffer is memory like any other.
        dereg(mr)
        mr = process.reg(address + PAGE, 2 * PAGE)
        same(content(address) == pattern(), True)
        dereg(mr)


def memory_is_there_after_dereg(process: Process) -> None:
    with memory() as address:
        dereg(process.reg(address, PAGES * PAGE))
        same(content(address) == pattern(), True)
        ctypes.memset(address, 9, PAGES * PAGE)
        dereg(process.reg(address, PAGES * PAGE))
        same(content(address), bytes([9]) * PAGES * PAGE)
        same(len({row["fd"] for row in log()}), 1)


def files_go_with_memory(process: Process) -> None:
    """Those of a buffer are closed once it is neither registered nor mapped."""
    before = fds()
    with memory() as address:
        mr = process.reg(address, PAGES * PAGE)
        same(fds() > before, True)
        dereg(mr)
    with memory() as address:
        dereg(process.reg(address, PAGE))
        mr = process.reg(address, PAGE)
    dereg(mr)
    same(fds(), before)


def other_memory_at_the_address_has_another_buffer(process: Process) -> None:
    with memory() as address:
        first = process.reg(address, PAGES * PAGE)
        same(mmap(address, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | 0x10, -1, 0), address)
        second = process.reg(address, PAGES * PAGE)
        same(content(address), bytes(PAGES * PAGE))
        same(len({region["ino"] for region in kernel.regions()}), 2)
        dereg(first, second)


def unmapped_memory_is_efault(process: Process) -> None:
    with memory() as address:
        same(munmap(address + 2 * PAGE, PAGE), 0)
        refused(errno.EFAULT, process.reg, address, PAGES * PAGE)
        same(ctypes.string_at(address, 2 * PAGE) == pattern()[: 2 * PAGE], True)


def read_only_memory_is_only_read(process: Process) -> None:
    with memory(prot=PROT_READ) as address:
        refused(errno.EFAULT, process.reg, address, PAGE, LOCAL_WRITE)
        mr = process.reg(address, PAGES * PAGE, REMOTE_READ)
        same(mappings(address), ["r--s"])
        dereg(mr)


def shared_memory_is_eopnotsupp(process: Process) -> None:
    with memory(MAP_SHARED) as address:
        refused(errno.EOPNOTSUPP, process.reg, address, PAGE)


def stack_is_eopnotsupp(process: Process) -> None:
    with open("/proc/self/maps", encoding="utf-8") as lines:
        (stack,) = [line.split()[0] for line in lines if line.rstrip().endswith("[stack]")]
    refused(errno.EOPNOTSUPP, process.reg, int(stack.split("-")[0], 16), PAGE)


def on_demand_access_is_eopnotsupp(process: Process) -> None:
    with memory() as address:
        refused(errno.EOPNOTSUPP, process.reg, address, PAGE, READ_WRITE | ON_DEMAND)
        same(mappings(address), ["rw-p"])


def empty_range_is_einval(process: Process) -> None:
    with memory() as address:
        refused(errno.EINVAL, process.reg, address, 0)
        refused(errno.EINVAL, process.reg, address, 2**64 - 1)


def every_function_is_taken(process: Process) -> None:
    iova = 0x10000000
    with memory() as address:
        mrs = [
            process.reg(address, PAGE),
            checked(reg_mr_iova(process.pd, address, PAGE, iova, READ_WRITE)),
            checked(reg_mr_iova2(process.pd, address, PAGE, 2 * iova, READ_WRITE)),
            process.reg_by_attr(comp_mask=MASK_ADDR, addr=address, length=PAGE),
            process.reg_by_attr(comp_mask=MASK_ADDR | MASK_IOVA, addr=address, length=PAGE, iova=3 * iova),
        ]
        names = ["ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2", "ibv_reg_mr_ex", "ibv_reg_mr_ex"]
        same([(row["function"], row["result"]) for row in log()], [(name, "0") for name in names])
        same(sorted(int(region["iova"], 16) for region in kernel.regions()), sorted([address, address, iova, 2 * iova, 3 * iova]))
        refused(errno.EOPNOTSUPP, lambda: process.reg_by_attr(comp_mask=MASK_ADDR | 16, addr=address, length=PAGE))
        # A program's own dma-buf goes to the library, and Debian 13's lacks the function.
        refused(errno.EOPNOTSUPP, lambda: process.reg_by_attr(comp_mask=MASK_FD, length=PAGE))
        same(len(log()), 6)
        dereg(*mrs)


def fork_leaves_the_lock(process: Process) -> None:
    """The memory is the same in both: a buffer is shared. And the child can register on its own device."""
    with memory() as address:
        mr = process.reg(address, PAGES * PAGE)
        child = os.fork()
        if child == 0:
            good = content(address) == pattern()
            other = Process(sys.argv[2])
            with memory() as own:
                dereg(other.reg(own, PAGE))
            os._exit(0 if good else 1)
        same(os.waitpid(child, 0)[1], 0)
        same(content(address) == pattern(), True)
        dereg(mr)


def threads_register_at_once(process: Process) -> None:
    before, errors = fds(), []

    def work() -> None:
        try:
            for _ in range(20):
                with memory() as address:
                    mrs = [process.reg(address, PAGES * PAGE), process.reg(address + PAGE, PAGE)]
                    same(content(address) == pattern(), True)
                    dereg(*mrs)
        except Exception as error:  # it is the case's failure, told below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(errors, [])
    # The look at what is mapped, when an MR goes whose memory is gone, closes what is left.
    with memory() as address:
        mr = process.reg(address, PAGE)
    dereg(mr)
    same(fds(), before)


CASES = {
    case.__name__: case
    for case in (
        content_stays,
        ranges_share_a_buffer,
        range_of_two_buffers_is_ebusy,
        memory_is_there_after_dereg,
        files_go_with_memory,
        other_memory_at_the_address_has_another_buffer,
        unmapped_memory_is_efault,
        read_only_memory_is_only_read,
        shared_memory_is_eopnotsupp,
        stack_is_eopnotsupp,
        on_demand_access_is_eopnotsupp,
        empty_range_is_einval,
        every_function_is_taken,
        fork_leaves_the_lock,
        threads_register_at_once,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[1]](Process(sys.argv[2]))
