# SPDX-License-Identifier: GPL-2.0
"""Programs of others in two namespaces, each with the preload that makes their MRs dma-buf MRs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from endpoint import gid
from expect import wait
from network import End

PRELOAD = "librdmabuf-mr.so"
LOG = Path("/tmp/preload-mr.log")
LIMIT_S = 100

SERVER = End("programs-s", "progsrv", "198.51.100.1", "rxe_s")
CLIENT = End("programs-c", "progcli", "198.51.100.2", "rxe_c")


class Answer(NamedTuple):
    """How a program ended: its status, and what it has said."""

    status: int
    said: str


class Side:
    """A program in one of the namespaces."""

    def __init__(self, end: End, command: str, settings: dict[str, str]) -> None:
        environment = {**os.environ, "LD_PRELOAD": PRELOAD, "RDMABUF_MR_LOG": str(LOG), **settings}
        words = ["ip", "netns", "exec", end.namespace, *command.split()]
        self.process = subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def status(self) -> int | None:
        return self.process.poll()

    def finish(self) -> Answer:
        """It has ended, or it is ended here."""
        if self.status() is None:
            self.process.kill()
        said, _ = self.process.communicate()
        return Answer(self.process.returncode, said)


def pair(command: str, is_ready: Callable[[int], bool], settings: dict[str, str], server: str = "", client: str = "") -> list[Answer]:
    """Server and client, with the words that each adds; `is_ready` takes the server's pid.

    In the words, {device}, {gid} and {address} are the side's own device, the index of its GID, and the server's address.
    """
    LOG.unlink(missing_ok=True)

    def start(end: End, words: str) -> Side:
        names = {"device": end.device, "gid": gid_index(end), "address": SERVER.address}
        return Side(end, f"{command} {words}".format(**names), settings)

    sides = [start(SERVER, server)]
    wait(lambda: is_ready(sides[0].process.pid) or sides[0].status() is not None)
    if sides[0].status() is None:
        sides.append(start(CLIENT, client))
    # One that fails leaves the other waiting.
    end = time.monotonic() + LIMIT_S
    while any(side.status() is None for side in sides) and not any(side.status() for side in sides) and time.monotonic() < end:
        time.sleep(0.1)
    return [side.finish() for side in sides]


def ended_well(answers: list[Answer]) -> None:
    if len(answers) != 2 or any(answer.status for answer in answers):
        raise AssertionError("\n".join(f"status {answer.status}\n{answer.said}" for answer in answers))


def results() -> list[str]:
    """What became of each registration, as the preload has it in its log."""
    return [line.rsplit(" -> ", 1)[1] for line in LOG.read_text(encoding="ascii").splitlines()]


def gid_index(end: End) -> int | None:
    """The one of the device's IPv4 address."""
    for path in Path(f"/sys/class/infiniband/{end.device}/ports/1/gids").iterdir():
        if path.read_text(encoding="ascii").strip() == gid(end.address):
            return int(path.name)
    return None


def listens(port: int) -> Callable[[int], bool]:
    """The process is in a namespace that has somebody at that port of TCP."""
    pattern = re.compile(rf":{port:04X} \S+ 0A ")

    def is_ready(pid: int) -> bool:
        try:
            return any(pattern.search(Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii")) for name in ("tcp", "tcp6"))
        except FileNotFoundError:
            return False

    return is_ready


def cm_listens(_: int) -> bool:
    run = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=False)
    return "LISTEN" in run.stdout
