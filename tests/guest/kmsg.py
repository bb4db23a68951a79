# SPDX-License-Identifier: GPL-2.0
"""What the kernel has logged since a moment, and how loud."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

DEBUG = 7
# Of the guest's own slowness, and nobody's fault.
SLOW = re.compile(r"^(clocksource|workqueue|hrtimer|perf|sched|rcu|watchdog|random):")


@contextmanager
def expected(fault: str) -> Iterator[None]:
    """A fault that the log has to show meanwhile, as a regular expression of tests/harness/logscan.py."""
    _write(f"rdma_dmabuf-expect: {fault}")
    try:
        yield
    finally:
        _write("rdma_dmabuf-expect-end")


def _write(text: str) -> None:
    with open("/dev/kmsg", "w", encoding="ascii") as log:
        log.write(f"{text}\n")


class Log:
    """The kernel's log from now on."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self.fd, 0, os.SEEK_END)

    def close(self) -> None:
        os.close(self.fd)

    def above_debug(self) -> list[str]:
        """What came since the last call, without what user space has written and what is for debugging."""
        found = []
        for record in iter(self._next, None):
            prefix, _, text = record.partition(";")
            priority = int(prefix.split(",")[0])
            if priority >> 3 == 0 and priority & 7 < DEBUG and not SLOW.match(text):
                found.append(text.splitlines()[0])
        return found

    def _next(self) -> str | None:
        try:
            return os.read(self.fd, 8192).decode(errors="replace")
        except BlockingIOError:
            return None
