# SPDX-License-Identifier: GPL-2.0
"""KTAP for Python tests: one block with one suite."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable


class Suite:
    """Prints each verdict as it comes. No plan: a suite that dies lacks its result line, which the parser reports."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.failures = 0
        self._mark(name)
        print(f"KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: {name}", flush=True)

    def check(self, case: str, test: Callable[[], None]) -> None:
        """One case: passes unless it raises."""
        self.number += 1
        start = time.monotonic()
        try:
            try:
                test()
            finally:
                self._tell(case, time.monotonic() - start)
        except Exception:  # any error of a case is its failure, and the next case runs
            self.failures += 1
            self._mark(f"{self.name}/{case} failed")
            for line in traceback.format_exc().splitlines():
                print(f"    # {line}")
            print(f"    not ok {self.number} {case}", flush=True)
            return
        print(f"    ok {self.number} {case}", flush=True)

    def skip(self, case: str, reason: str) -> None:
        """One that is not judged, and why."""
        self.number += 1
        print(f"    ok {self.number} {case} # SKIP {reason}", flush=True)

    def finish(self) -> int:
        """Closes the block; the exit status of the suite."""
        good = self.failures == 0 and self.number > 0
        print(f"{'ok' if good else 'not ok'} 1 {self.name}", flush=True)
        return 0 if good else 1

    def _tell(self, case: str, seconds: float) -> None:
        """Where the time goes, beside the verdicts."""
        if seconds >= 1:
            print(f"{self.name}/{case}: {seconds:.1f} s", file=sys.stderr, flush=True)

    @staticmethod
    def _mark(text: str) -> None:
        """A line in the kernel log, so that a splat can be laid to a test."""
        try:
            with open("/dev/kmsg", "w", encoding="utf-8") as log:
                log.write(f"rdma_dmabuf-suite: {text}\n")
        except OSError:
            pass
