# SPDX-License-Identifier: GPL-2.0
"""Reads one KTAP file per call with the kernel tree's own parser.

That parser stops at the end of the first block of a log, so each suite has a file of its own:
a results file copied from debugfs, or what a guest test printed.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

from .row import FAILED, OK, SKIPPED, Row, failed

PARSER_DIR = "tools/testing/kunit"


class Parser:
    """The kunit_parser module of a kernel tree."""

    def __init__(self, kdir: Path) -> None:
        self._parser = _import_from(kdir / PARSER_DIR, "kunit_parser")
        self._printer = _import_from(kdir / PARSER_DIR, "kunit_printer")

    def read(self, path: Path) -> list[Row]:
        """The verdicts in one KTAP file; a file that is not whole has a failed one."""
        messages = io.StringIO()
        printer = self._printer.Printer(output=messages)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        root = self._parser.parse_run_tests(lines, printer)
        rows = [row for suite in root.subtests for row in self._suite_rows(suite)]
        rows += _duplicates(rows)
        if root.counts.errors or not rows:
            rows.append(failed(path.stem, "ktap", _errors(messages.getvalue())))
        return rows

    def _suite_rows(self, suite) -> list[Row]:
        name = suite.name or "unnamed"
        if not suite.subtests:
            return [Row(name, "suite", self._status(suite), _why(suite))]
        rows = [Row(name, case.name or "unnamed", self._status(case), _why(case)) for case in suite.subtests]
        # The suite's own set-up or clean-up can fail where every case passed.
        if self._status(suite) == FAILED and all(row.status != FAILED for row in rows):
            rows.append(failed(name, "suite", _why(suite) or "the suite failed outside its cases"))
        return rows

    def _status(self, test) -> str:
        status = self._parser.TestStatus
        if test.status == status.SUCCESS:
            return OK
        if test.status == status.SKIPPED:
            return SKIPPED
        return FAILED


def _import_from(folder: Path, name: str) -> ModuleType:
    if not (folder / f"{name}.py").is_file():
        raise SystemExit(f"collect.py: {folder}/{name}.py is missing: --kdir must name a Linux 7.3 source tree")
    # The tree's modules import each other by bare name; no bytecode is left in that tree.
    sys.dont_write_bytecode = True
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)


def _why(test) -> str:
    if test.skip_reason:
        return test.skip_reason
    return "\n".join(line.strip() for line in test.log if line.strip())


def _duplicates(rows: list[Row]) -> list[Row]:
    seen = Counter(row.name for row in rows)
    return [failed(*name.split("/", 1), "reported more than once in one file") for name, n in seen.items() if n > 1]


def _errors(text: str) -> str:
    found = [line.split("[ERROR]", 1)[1].strip() for line in text.splitlines() if "[ERROR]" in line]
    return "\n".join(found) or "no KTAP result in this file"
