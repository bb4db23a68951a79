# SPDX-License-Identifier: GPL-2.0
"""How much is tried, as the kernel command line says: `long=1` for the long run, `rounds=` for what ends and begins again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ktap import Suite

WORDS = dict(word.split("=", 1) for word in Path("/proc/cmdline").read_text(encoding="ascii").split() if "=" in word)
IS_LONG = WORDS.get("long") == "1"


def of(short: int, long: int) -> int:
    """One of two numbers."""
    return long if IS_LONG else short


def rounds(otherwise: int) -> int:
    return int(WORDS.get("rounds", otherwise))


def long_check(suite: Suite, case: str, test: Callable[[], None]) -> None:
    """One that needs more time or memory than there is otherwise."""
    if IS_LONG:
        suite.check(case, test)
    else:
        suite.skip(case, "only with LONG=1")
