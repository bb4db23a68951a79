# SPDX-License-Identifier: GPL-2.0
"""Fault injection of the kernel: the n-th point of a call, or of what a worker does for a module, fails.

Files as in Documentation/fault-injection/fault-injection.rst.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

DEBUGFS = Path("/sys/kernel/debug")
ALLOCATIONS = ("failslab", "fail_page_alloc")
ANYWHERE = (0, 2**64 - 1)
MAX_STACK = 32


class Span(NamedTuple):
    """Code from an address to the one behind it: a point counts that is reached from there."""

    start: int
    end: int


def text_of(module: str) -> Span:
    """The code of a module that is loaded."""
    start = int(Path(f"/sys/module/{module}/sections/.text").read_text(encoding="ascii"), 16)
    lines = Path("/proc/modules").read_text(encoding="ascii").splitlines()
    size = next(int(line.split()[1]) for line in lines if line.split()[0] == module)
    return Span(start, start + size)


@functools.cache
def function(name: str) -> Span:
    """One function of the kernel itself, up to the next symbol."""
    with open("/proc/kallsyms", encoding="ascii") as file:
        symbols = sorted((int(line.split()[0], 16), line.split()[2]) for line in file)
    addresses = [address for address, _ in symbols]
    start = next(address for address, symbol in symbols if symbol == name)
    return Span(start, next(address for address in addresses if address > start))


def _write(attribute: str, name: str, value: int | str) -> None:
    (DEBUGFS / attribute / name).write_text(f"{value}", encoding="ascii")


def _read(attribute: str, name: str) -> int:
    return int((DEBUGFS / attribute / name).read_text(encoding="ascii"), 0)


def prepare() -> None:
    """Any allocation may fail, but none does so far; and nothing is logged then."""
    for attribute in ALLOCATIONS:
        _write(attribute, "ignore-gfp-wait", "N")
        _write(attribute, "stacktrace-depth", MAX_STACK)
    for attribute in (*ALLOCATIONS, "fail_function"):
        _write(attribute, "probability", 0)
        _write(attribute, "task-filter", "N")
        _write(attribute, "verbose", 0)
    _write("fail_page_alloc", "min-order", 0)


@contextmanager
def only_from(span: Span) -> Iterator[None]:
    """Allocations that are made elsewhere do not count, those of an interpreter at work among them."""
    _limit(span)
    try:
        yield
    finally:
        _limit(Span(*ANYWHERE))


def _limit(span: Span) -> None:
    """The books of CONFIG_DMA_API_DEBUG do without: it gives up for good where it gets no memory."""
    books = function("add_dma_entry")
    for attribute in ALLOCATIONS:
        _write(attribute, "reject-start", f"{books.start:#x}")
        _write(attribute, "reject-end", f"{books.end:#x}")
        _write(attribute, "require-start", f"{span.start:#x}")
        _write(attribute, "require-end", f"{span.end:#x}")


class OfThisThread:
    """The n-th allocation of what the calling thread does."""

    def __init__(self) -> None:
        self.fd = os.open(f"/proc/self/task/{threading.get_native_id()}/fail-nth", os.O_RDWR | os.O_CLOEXEC)

    def arm(self, number: int) -> None:
        os.pwrite(self.fd, b"%d" % number, 0)

    def has_fired(self) -> bool:
        """Nothing fails any more after that."""
        left = int(os.pread(self.fd, 16, 0))
        os.pwrite(self.fd, b"0", 0)
        return left == 0

    def close(self) -> None:
        os.close(self.fd)


class OfAnybody:
    """The n-th point of one attribute, whoever gets there: for what workers do.

    The kernel counts on and on, and lets fail what is a multiple of n. So the count is first brought to one, by letting
    something fail that nobody looks at.
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def arm(self, number: int, get_there: Callable[[], object]) -> bool:
        """What gets to such points brings the count to a multiple. False where it does not get to n of them at all."""
        self._set(number)
        for _ in range(number if number > 1 else 0):
            get_there()
            if self.has_fired():
                self._set(number)
                return True
        return number == 1

    def _set(self, number: int) -> None:
        _write(self.attribute, "interval", number)
        _write(self.attribute, "times", 1)
        _write(self.attribute, "probability", 100)

    def has_fired(self) -> bool:
        return _read(self.attribute, "times") == 0

    def disarm(self) -> None:
        _write(self.attribute, "probability", 0)
        _write(self.attribute, "times", -1)
        _write(self.attribute, "interval", 1)


@contextmanager
def running_out(after: int) -> Iterator[None]:
    """So many bytes can be had of the slab, and then nothing of anything, so that no other way is left."""
    for attribute in ALLOCATIONS:
        _write(attribute, "space", after if attribute == "failslab" else 0)
        _write(attribute, "times", -1)
        _write(attribute, "interval", 1)
        _write(attribute, "probability", 100)
    try:
        yield
    finally:
        for attribute in ALLOCATIONS:
            _write(attribute, "probability", 0)
            _write(attribute, "space", 0)


@contextmanager
def failing(name: str, error: int) -> Iterator[OfAnybody]:
    """A function fails with that errno, instead of doing anything."""
    _write("fail_function", "inject", name)
    (DEBUGFS / "fail_function" / name / "retval").write_text(f"{-error & (2**64 - 1):#x}", encoding="ascii")
    injected = OfAnybody("fail_function")
    try:
        yield injected
    finally:
        injected.disarm()
        _write("fail_function", "inject", f"!{name}")
