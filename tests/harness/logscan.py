# SPDX-License-Identifier: GPL-2.0
"""Looks through a guest's console log for kernel faults.

A test that provokes a fault on purpose brackets it with two lines in /dev/kmsg:

    rdma_dmabuf-expect: <regular expression>
    rdma_dmabuf-expect-end

Between them a fault that matches the expression is tolerated, and must come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

EXPECT = re.compile(r"rdma_dmabuf-expect: (.+)$")
EXPECT_END = re.compile(r"rdma_dmabuf-expect-end\b")
REPLAY = "** replaying previous printk message **"
BEFORE = 3
AFTER = 12


@dataclass(frozen=True)
class Patterns:
    """What a fault's headline looks like, and the lines that go with a headline."""

    faults: list[re.Pattern[str]]
    traces: list[re.Pattern[str]]

    def is_fault(self, line: str) -> bool:
        return any(pattern.search(line) for pattern in self.faults)

    def is_trace(self, line: str) -> bool:
        return any(pattern.search(line) for pattern in self.traces)


@dataclass
class Bracket:
    """One announced fault: where it was announced, and which lines may belong to it."""

    line: int
    wanted: re.Pattern[str]
    came: bool = False
    traces: list[int] = field(default_factory=list)


def read_patterns(path: Path) -> Patterns:
    """Parses `fault <regex>` and `trace <regex>` lines; `#` at the start of a line is a comment."""
    kinds: dict[str, list[re.Pattern[str]]] = {"fault": [], "trace": []}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, _, regex = line.partition(" ")
        if kind not in kinds or not regex.strip():
            raise SystemExit(f"{path}:{number}: want `fault REGEX` or `trace REGEX`, found: {line}")
        kinds[kind].append(re.compile(regex.strip()))
    return Patterns(kinds["fault"], kinds["trace"])


def scan(lines: list[str], patterns: Patterns) -> list[str]:
    """One text for each thing wrong in the log, with the lines around it."""
    lines = _said_once(lines)
    wrong: list[tuple[int, str]] = []
    bracket: Bracket | None = None
    for number, line in enumerate(lines):
        start = EXPECT.search(line)
        if start:
            wrong += _close(bracket, "is not ended before the next one")
            bracket, problem = _open(number, start.group(1).strip())
            wrong += problem
        elif EXPECT_END.search(line):
            wrong += _end(bracket)
            bracket = None
        elif patterns.is_fault(line):
            if bracket and bracket.wanted.search(line):
                bracket.came = True
            else:
                wrong.append((number, "fault"))
        elif patterns.is_trace(line):
            if bracket:
                bracket.traces.append(number)
            else:
                wrong.append((number, "trace"))
    wrong += _close(bracket, "is not ended at the end of the log")
    return _report(lines, sorted(wrong))


def _said_once(lines: list[str]) -> list[str]:
    """Without what a console has begun to print, and says again from the start when another takes over."""
    once = list(lines)
    for number, line in enumerate(lines):
        if REPLAY in line and number + 1 < len(lines):
            before = next((earlier for earlier in range(number - 1, -1, -1) if lines[earlier].strip()), None)
            if before is not None and lines[number + 1].startswith(lines[before]):
                once[before] = ""
    return once


def _open(number: int, regex: str) -> tuple[Bracket | None, list[tuple[int, str]]]:
    try:
        return Bracket(number, re.compile(regex)), []
    except re.error as error:
        return None, [(number, f"bad expression in the announcement: {error}")]


def _end(bracket: Bracket | None) -> list[tuple[int, str]]:
    if bracket is None or bracket.came:
        return []
    # A trace without its headline is somebody else's.
    return [(bracket.line, "the announced fault did not come"), *((n, "trace") for n in bracket.traces)]


def _close(bracket: Bracket | None, why: str) -> list[tuple[int, str]]:
    if bracket is None:
        return []
    return [(bracket.line, f"the announcement {why}"), *_end(bracket)]


def _report(lines: list[str], wrong: list[tuple[int, str]]) -> list[str]:
    """One text for what stands close together: a splat is one thing, not twenty."""
    texts: list[str] = []
    while wrong:
        first = wrong[0][0]
        group = [entry for entry in wrong if entry[0] <= first + AFTER]
        wrong = wrong[len(group) :]
        # The headline says more than the line that cuts it off from what came before.
        number = next((number for number, why in group if why != "trace"), first)
        whys = ", ".join(dict.fromkeys(why for _, why in group))
        context = lines[max(0, first - BEFORE) : first + AFTER + 1]
        texts.append(f"line {number + 1}: {whys}: {lines[number].strip()}\n" + "\n".join(f"    {text}" for text in context))
    return texts
