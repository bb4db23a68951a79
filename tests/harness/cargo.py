# SPDX-License-Identifier: GPL-2.0
"""Reads what `cargo test` printed, one row a test."""

from __future__ import annotations

import re
from pathlib import Path

from .row import FAILED, OK, SKIPPED, Row, failed

BINARY = re.compile(r"^\s+Running .*\((?:.*/)?(?P<name>[A-Za-z0-9_]+)-[0-9a-f]+\)")
DOCTEST = re.compile(r"^\s+Doc-tests (?P<name>\S+)")
CASE = re.compile(r"^test (?P<case>.+?)(?: - should panic)? \.\.\. (?P<verdict>ok|FAILED|ignored)\b")
SUMMARY = re.compile(r"^test result: \S+ (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored")
VERDICTS = {"ok": OK, "FAILED": FAILED, "ignored": SKIPPED}


def read(path: Path, suite: str, exit_status: int) -> list[Row]:
    """The verdicts in a log; a run that ended badly, or that ran nothing, has a failed row of its own."""
    rows: list[Row] = []
    binary = ""
    totals = {"passed": 0, "failed": 0, "ignored": 0}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := BINARY.match(line) or DOCTEST.match(line):
            binary = match["name"]
        elif match := CASE.match(line):
            rows.append(Row(suite, f"{binary}::{match['case']}", VERDICTS[match["verdict"]]))
        elif match := SUMMARY.match(line):
            totals = {key: totals[key] + int(match[key]) for key in totals}
    if sum(totals.values()) != len(rows):
        rows.append(failed(suite, "log", f"{len(rows)} verdicts in {path}, but cargo counted {sum(totals.values())}"))
    if exit_status != 0 and all(row.status != FAILED for row in rows):
        rows.append(failed(suite, "cargo", f"cargo test ended with {exit_status}; see {path}"))
    if not rows:
        rows.append(failed(suite, "cargo", f"cargo test ran no test; see {path}"))
    return rows
