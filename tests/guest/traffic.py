# SPDX-License-Identifier: GPL-2.0
"""RDMA between two processes, on buffers that move at both ends, until something ends it."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from endpoint import Endpoint
from exporter_mr import pattern
from expect import same, wait
from network import End
from pyverbs import enums
from pyverbs.pyverbs_error import PyverbsRDMAError
from vram import CHANGING, PAGE, SYSTEM, Buffer, Control

SIZE = 16 * PAGE
MOVES = 60
LIMIT_S = 60
FLOWING = 3

# How a side's own part ends, beside the status of a completion.
GONE, WRONG, UNKNOWN = 1000, 1001, 1002

FORK = multiprocessing.get_context("fork")


class Side:
    """One process, with a device, a queue pair, and a region over a buffer that moves."""

    def __init__(self, here: End, there: End, work: Callable[..., int]) -> None:
        self.rounds = FORK.RawValue("Q", 0)
        self.ended = FORK.RawValue("Q", UNKNOWN)
        self.pipe, far = FORK.Pipe()
        self.process = FORK.Process(target=self._live, args=(here, there, work, far), daemon=True)
        self.process.start()
        far.close()

    def _live(self, here: End, there: End, work: Callable[..., int], pipe: Connection) -> None:
        """In the new process. It leaves all that it has to the kernel, whatever it was doing."""
        try:
            endpoint = Endpoint(here.device, here.address)
            with Control().create(2 * SIZE, CHANGING, SYSTEM) as buffer:
                mr = endpoint.register(buffer.fd, 2 * SIZE)
                qp = endpoint.queue_pair()
                buffer.loop(MOVES, SYSTEM)
                pipe.send((qp.qp_num, mr.rkey))
                qpn, rkey = pipe.recv()
                qp.to_rts(endpoint.attributes(there.address, qpn))
                pipe.send("connected")
                pipe.recv()
                self.ended.value = work(self, here, endpoint, qp, buffer, mr.lkey, rkey)
        except Exception:  # said now, since nothing is left of the process to say it
            traceback.print_exc()
        finally:
            os._exit(0)

    def status(self) -> int:
        """How its part ended, once it has."""
        self.process.join(LIMIT_S)
        same(self.process.exitcode, 0)
        return self.ended.value


def _ask(side: Side, here: End, endpoint: Endpoint, qp: object, buffer: Buffer, lkey: int, rkey: int) -> int:
    """Writes and reads back, and compares; several requests are under way at any time."""
    while True:
        number = side.rounds.value
        data = pattern(number, SIZE)
        buffer.write(0, data)
        try:
            endpoint.transfer(qp, enums.IBV_WR_RDMA_WRITE, (0, SIZE, lkey), 0, rkey)
            endpoint.transfer(qp, enums.IBV_WR_RDMA_READ, (SIZE, SIZE, lkey), 0, rkey)
        except PyverbsRDMAError:
            return GONE
        for _ in range(2):
            status = _next_status(here, endpoint)
            if status != enums.IBV_WC_SUCCESS:
                return status
        if buffer.read(SIZE, SIZE) != data:
            return WRONG
        side.rounds.value = number + 1


def _serve(_: Side, here: End, endpoint: Endpoint, *__: object) -> int:
    """It answers as long as there is a device to do so."""
    return _next_status(here, endpoint)


def _next_status(here: End, endpoint: Endpoint) -> int:
    while True:
        found = endpoint.completed()
        if found:
            return found.status
        # The processor is for those who have something to do.
        time.sleep(0.001)
        if not os.path.exists(f"/sys/class/infiniband/{here.device}"):
            return GONE


class Traffic:
    """Flows once this is made, for so many rounds at least; both processes are gone when the block ends."""

    def __init__(self, requester: End, responder: End, flowing: int = FLOWING) -> None:
        self.flowing = flowing
        self.requester = Side(requester, responder, _ask)
        self.responder = Side(responder, requester, _serve)
        sides = (self.requester, self.responder)
        try:
            ours, theirs = (side.pipe.recv() for side in sides)
            self.requester.pipe.send(theirs)
            self.responder.pipe.send(ours)
            for side in sides:
                side.pipe.recv()
            for side in sides:
                side.pipe.send("go")
            self.flows_on()
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def flows_on(self) -> None:
        """A few more rounds have gone well from now on."""
        start = self.requester.rounds.value
        wait(lambda: self.requester.rounds.value >= start + self.flowing or not self.requester.process.is_alive())
        same(self.requester.process.is_alive(), True)

    def end(self) -> None:
        for side in (self.requester, self.responder):
            side.process.kill()
            side.process.join(LIMIT_S)
