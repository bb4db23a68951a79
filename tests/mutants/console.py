# SPDX-License-Identifier: GPL-2.0
"""Reads a guest's console while it grows: which KUnit case has failed, or was running when the kernel complained."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness import logscan

# printk's time, and the caller where the kernel prints it; then KTAP, whose depth tells suites from cases.
STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ")
SUITE = re.compile(r"^ {4}# Subtest: (rdma_dmabuf_\w+)$")
CASE = re.compile(r"^ {4}(ok|not ok) \d+ (\w+)")
# Comes right before the verdict, which a guest that hangs may not bring out any more.
ATTRIBUTE = re.compile(r"^ {4}# (\w+)\.speed: ")

FAILED = "failed"
FAULT = "fault"
HUNG = "hung"
DIED = "died"


@dataclass(frozen=True)
class Finding:
    """A case that noticed, and how."""

    case: str
    how: str


@dataclass
class Reading:
    """What the console has said so far.

    KUnit does not say which case starts, but their order does not change: `order` is that of the run without a
    mutant, as `suite/case`, and the case after the last that ended is the one that runs.
    """

    patterns: logscan.Patterns
    order: list[str]
    ended: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    # Faults that belong to no case.
    strays: list[str] = field(default_factory=list)
    _suite: str = ""
    _last: str = ""
    _announced: re.Pattern[str] | None = None
    _came: bool = False

    def feed(self, line: str) -> None:
        """Takes in one line. A fault that a case has announced is none; one that does not come is."""
        text = STAMP.sub("", line.rstrip())
        if match := SUITE.match(text):
            self._suite = match[1]
        elif self._suite and (match := CASE.match(text)):
            self._end(f"{self._suite}/{match[2]}", match[1] == "ok")
        elif self._suite and (match := ATTRIBUTE.match(text)):
            self._last = f"{self._suite}/{match[1]}"
        elif match := logscan.EXPECT.search(text):
            self._announced, self._came = re.compile(match[1].strip()), False
        elif logscan.EXPECT_END.search(text):
            if self._announced and not self._came:
                self.blame(FAULT, "the announced fault did not come")
            self._announced = None
        elif self.patterns.is_fault(text):
            if self._announced and self._announced.search(text):
                self._came = True
            else:
                self.blame(FAULT, text)

    def running(self) -> str:
        """The case that has begun and not ended; empty before the first suite and after the last case."""
        if not self._suite:
            return ""
        if self._last and self._last not in self.order:
            return ""
        following = self.order[self.order.index(self._last) + 1 :] if self._last else self.order
        return following[0] if following else ""

    def blame(self, how: str, what: str) -> None:
        """Lays to the running case what is wrong now."""
        case = self.running()
        if case:
            self._find(case, how)
        else:
            self.strays.append(what)

    def end(self) -> None:
        """Lays an end before the last case to the one that ran, unless it has been blamed already."""
        if not self.is_over():
            self.blame(DIED, "the guest ends before its first case")

    def has_begun(self) -> bool:
        """Whether the first suite has."""
        return bool(self._suite)

    def is_over(self) -> bool:
        """Whether the last case has ended."""
        return bool(self.ended) and bool(self.order) and self.ended[-1] == self.order[-1]

    def _end(self, case: str, is_ok: bool) -> None:
        self.ended.append(case)
        self._last = case
        if not is_ok:
            self._find(case, FAILED)

    def _find(self, case: str, how: str) -> None:
        if case not in (finding.case for finding in self.findings):
            self.findings.append(Finding(case, how))
