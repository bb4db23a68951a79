# SPDX-License-Identifier: GPL-2.0
"""The list of cases that a run must report, and what differs from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .row import FAILED, SKIPPED, Row, failed

MAY_SKIP = "may-skip"


@dataclass(frozen=True)
class Expected:
    """Case names (suite/case) that must be there, and those of them that may be skipped."""

    names: frozenset[str]
    may_skip: frozenset[str]

    def restrict(self, suites: set[str]) -> "Expected":
        """The part of the list that speaks of these suites."""
        keep = frozenset(name for name in self.names if name.split("/", 1)[0] in suites)
        return Expected(keep, self.may_skip & keep)

    def join(self, other: "Expected") -> "Expected":
        """Both lists."""
        return Expected(self.names | other.names, self.may_skip | other.may_skip)

    def suites(self) -> set[str]:
        """The names of the suites."""
        return {name.split("/", 1)[0] for name in self.names}


def read(path: Path) -> Expected:
    """Parses `suite/case [may-skip]` lines; `#` starts a comment."""
    names: list[str] = []
    may_skip: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if "/" not in words[0] or len(words) > 2 or words[1:] not in ([], [MAY_SKIP]):
            raise SystemExit(f"{path}:{number}: want `suite/case` or `suite/case {MAY_SKIP}`, found: {line.strip()}")
        names.append(words[0])
        may_skip += words[:1] if words[1:] else []
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise SystemExit(f"{path}: listed twice: {', '.join(twice)}")
    return Expected(frozenset(names), frozenset(may_skip))


def compare(rows: list[Row], expected: Expected) -> list[Row]:
    """The rows again, a skip that is not allowed turned into a failure, then one failed row for each difference."""
    verdicts = [_judge_skip(row, expected) for row in rows]
    seen = Counter(row.name for row in rows)
    missing = [_failed(name, "missing: listed, but the run did not report it") for name in sorted(expected.names - set(seen))]
    good = {row.name for row in verdicts if row.status != FAILED}
    unlisted = [_failed(name, "not listed: add it to the list of expected cases") for name in sorted(good - expected.names)]
    twice = [_failed(name, f"reported {n} times") for name, n in sorted(seen.items()) if n > 1]
    return verdicts + missing + unlisted + twice


def _judge_skip(row: Row, expected: Expected) -> Row:
    if row.status != SKIPPED or row.name in expected.may_skip:
        return row
    return failed(row.suite, row.case, f"skipped, which the list does not allow: {row.detail or 'no reason given'}")


def _failed(name: str, detail: str) -> Row:
    return failed(*name.split("/", 1), detail)
