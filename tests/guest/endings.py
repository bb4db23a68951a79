# SPDX-License-Identifier: GPL-2.0
"""What ends while RDMA is under way: who does something until he is ended, and rounds of it that leave nothing."""

from __future__ import annotations

import array
import functools
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import figures
import kernel
import size
from expect import same, wait
from exporter_mr import pattern
from local import Local
from network import End
from pyverbs.pyverbs_error import PyverbsError
from vram import CHANGING, PAGE, SYSTEM, Control

SIZE = 12 * PAGE
ROUNDS = size.rounds(3)
DATA = pattern(61, 2 * PAGE)


class Child:
    """A process that says when it is ready, and then lives until it is killed."""

    def __init__(self, work: Callable[[socket.socket], object]) -> None:
        self.pipe, far = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.pipe.close()
                kept = work(far)
                far.sendall(b"!")
                signal.pause()
                # Not before.
                del kept
            finally:
                os._exit(1)
        far.close()

    def ready(self) -> Child:
        same(self.pipe.recv(1), b"!")
        return self

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pipe.close()


def give(pipe: socket.socket, *fds: int) -> None:
    pipe.sendmsg([b"?"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def take(pipe: socket.socket, count: int) -> list[int]:
    _, messages, _, _ = pipe.recvmsg(1, socket.CMSG_SPACE(4 * count))
    return list(array.array("i", messages[0][2]))


@contextmanager
def busy(here: End) -> Iterator[None]:
    """Somebody writes to a buffer that moves, as long as there is something to write by; all of it is gone before he is."""

    def live(pipe: socket.socket) -> object:
        local, control = Local(here), Control()
        buffer = control.create(SIZE, CHANGING, SYSTEM)
        buffer.loop(100)
        mr = local.register(buffer.fd, 0, SIZE, 0)
        local.write(mr, 9, DATA)
        pipe.sendall(b"!")
        try:
            while True:
                local.write(mr, 9, DATA)
        except (AssertionError, PyverbsError):
            return local, control, buffer

    child = Child(live).ready()
    same(len(kernel.regions()), 1)
    yield
    wait(lambda: kernel.regions() == [])
    child.kill()


def in_rounds(test: Callable[[End], None], here: End) -> tuple[str, Callable[[], None]]:
    """The case and what it does."""
    return test.__name__, functools.partial(_again, test, here)


def _again(test: Callable[[End], None], here: End) -> None:
    before = kernel.buffers()
    for _ in range(ROUNDS):
        start = kernel.counters()["invalidations"]
        test(here)
        wait(lambda: kernel.regions() == [])
        wait(lambda: kernel.buffers() == before)
        figures.add("kills and teardowns", 1)
        figures.add("moves under traffic", kernel.counters()["invalidations"] - start)
