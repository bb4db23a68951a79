# SPDX-License-Identifier: GPL-2.0
"""What cases expect, and what they say if it is not so."""

from __future__ import annotations

import errno
import os
import subprocess
import time
import traceback
from collections.abc import Callable

LIMIT_S = 20


def refused(wanted: int, call: Callable, *args: object) -> None:
    """The call must fail with that errno."""
    try:
        call(*args)
    except OSError as error:
        same(errno.errorcode.get(error.errno, error.errno), errno.errorcode[wanted])
        return
    raise AssertionError(f"accepted; must be {errno.errorcode[wanted]}")


def wait(holds: Callable[[], bool]) -> None:
    """It must hold before long."""
    end = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("still not so")
        time.sleep(0.01)


def shell(command: str) -> None:
    """The command must succeed."""
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(f"{command}: status {run.returncode}\n{run.stdout}{run.stderr}")


def same(found: object, wanted: object) -> None:
    """They must be equal."""
    if found != wanted:
        raise AssertionError(f"found {found}, expected {wanted}")


def in_child(work: Callable[[], int]) -> int:
    """The status of a process that is forked for that, which ends whatever happens in it."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            status = work()
        except Exception:  # said now, since nothing is left of the process to say it
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
