# SPDX-License-Identifier: GPL-2.0
"""Calls of a Host of another machine: a line of JSON there, [name, arguments], and one back, [result, error]."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from typing import TextIO

PORT = 7000
# A machine that starts anew needs that long at most.
LIMIT_S = 240


def serve(host: object) -> None:
    """Answers one caller after the other, until one says `halt`; `restart` begins anew with all files closed."""
    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw", encoding="utf-8") as lines:
                if _answer(host, lines):
                    return


def _answer(host: object, lines: TextIO) -> bool:
    """Until the caller hangs up; whether it has said `halt`."""
    for line in lines:
        name, arguments = json.loads(line)
        if name == "restart":
            os.execv(sys.executable, sys.orig_argv)
        if name == "halt":
            return True
        try:
            answer = [getattr(host, name)(*arguments), None]
        except Exception:  # whatever goes wrong is for the caller to judge
            answer = [None, traceback.format_exc()]
        lines.write(json.dumps(answer) + "\n")
        lines.flush()
    return False


class Remote:
    """The Host of the machine at that address; its methods are those of this object."""

    def __init__(self, address: str) -> None:
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                connection = socket.create_connection((address, PORT), timeout=5)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
        connection.settimeout(LIMIT_S)
        self._connection = connection
        self._lines = connection.makefile("rw", encoding="utf-8")

    def __getattr__(self, name: str) -> object:
        def call(*arguments: object) -> object:
            self.tell(name, *arguments)
            result, error = json.loads(self._lines.readline())
            if error:
                raise AssertionError(f"the other machine, {name}{arguments}:\n{error}")
            return result

        return call

    def tell(self, name: str, *arguments: object) -> None:
        """Without an answer."""
        self._lines.write(json.dumps([name, arguments]) + "\n")
        self._lines.flush()

    def restart(self) -> None:
        """The other machine's agent, which hangs up; it closes where it listens before that."""
        self.tell("restart")
        try:
            self._lines.readline()
        except ConnectionError:
            pass
        self.forget()

    def forget(self) -> None:
        """Hangs up."""
        self._lines.close()
        self._connection.close()
