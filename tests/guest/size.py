# SPDX-License-Identifier: GPL-2.0
"""Whether this is the long run, which the kernel command line says: `long=1`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ktap import Suite

IS_LONG = "long=1" in Path("/proc/cmdline").read_text(encoding="ascii").split()


def of(short: int, long: int) -> int:
    """A number of rounds."""
    return long if IS_LONG else short


def long_check(suite: Suite, case: str, test: Callable[[], None]) -> None:
    """One that needs more time or memory than there is otherwise."""
    if IS_LONG:
        suite.check(case, test)
    else:
        suite.skip(case, "only with LONG=1")
