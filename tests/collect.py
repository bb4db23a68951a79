#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Gathers the verdicts of a test run, compares them with the expected list, prints the table.

The last line is `N passed, N failed`, with `, N skipped` where there are any.
The exit status is 0 only if nothing failed and something passed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from harness import cargo, expected, ktap, logscan
from harness.row import FAILED, OK, SKIPPED, Row, failed

GUEST_SUITE = "guest"
# What the suites in the importer's module are called.
KUNIT = "rdma_dmabuf_"
KILLED = "killed"


def main(argv: list[str]) -> int:
    """Reads everything the options name, and reports it."""
    options = _options(argv)
    rows = gather(options)
    if options.print_names:
        print("\n".join(sorted({row.name for row in rows})))
        return 0
    report(rows)
    return 0 if conclude(rows) else 1


def gather(options: argparse.Namespace) -> list[Row]:
    """All verdicts: the listed suites first, then those that no list covers."""
    reader = ktap.Parser(options.kdir) if options.ktap or options.again else None
    rows = [row for folder in options.ktap for row in _read_folder(reader, folder)]
    whole = expected.read(options.expected)
    for path in options.more:
        whole = whole.join(expected.read(path))
    listed = whole if options.suites is None else whole.restrict(set(options.suites))
    rows = expected.compare(rows, listed)
    for name, folder in options.again:
        rows += _again(reader, name, Path(folder), whole)
    rows += _guest_rows(options)
    for name, status, path in options.cargo:
        rows += cargo.read(Path(path), name, int(status))
    rows += [failed("run", step, "the step failed; its output is above") for step in options.failed_step]
    return rows


def report(rows: list[Row]) -> None:
    """What is not ok in full, then the table of suites."""
    for row in rows:
        if row.status != OK:
            print(f"{row.status}: {row.name}")
            for line in row.detail.splitlines():
                print(f"    {line}")
    suites = sorted({row.suite for row in rows})
    width = max([len(suite) for suite in suites] + [5])
    print(f"\n{'suite':<{width}}  passed  failed  skipped")
    for suite in suites:
        counts = Counter(row.status for row in rows if row.suite == suite)
        print(f"{suite:<{width}}  {counts[OK]:>6}  {counts[FAILED]:>6}  {counts[SKIPPED]:>7}")


def conclude(rows: list[Row]) -> bool:
    """Prints the last line; true if the run is good."""
    counts = Counter(row.status for row in rows)
    skipped = f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
    print(f"\n{counts[OK]} passed, {counts[FAILED]} failed{skipped}")
    return counts[FAILED] == 0 and counts[OK] > 0


def _read_folder(reader: ktap.Parser, folder: Path) -> list[Row]:
    if not folder.is_dir():
        return [failed("run", folder.name, f"{folder} is missing: the run that fills it did not get that far")]
    return [row for path in sorted(folder.glob("*.ktap")) for row in reader.read(path)]


def _again(reader: ktap.Parser, name: str, folder: Path, listed: expected.Expected) -> list[Row]:
    """The KUnit suites once more, elsewhere: all of the list must be there again."""
    suites = {suite for suite in listed.suites() if suite.startswith(KUNIT)}
    rows = expected.compare(_read_folder(reader, folder), listed.restrict(suites))
    return [replace(row, suite=f"{name}_{row.suite}") for row in rows]


def _guest_rows(options: argparse.Namespace) -> list[Row]:
    """How the guest ended, and whether its log is clean."""
    guests = [(f"{name}_", Path(console), result) for name, console, result in options.guest]
    if options.console is not None:
        guests.insert(0, ("", options.console, options.guest_result))
    patterns = logscan.read_patterns(options.patterns) if guests else None
    return [row for guest in guests for row in _rows_of(*guest, patterns)]


def _rows_of(name: str, console: Path, result: str, patterns: logscan.Patterns) -> list[Row]:
    """Of one that is killed only the log is looked at: it cannot finish."""
    log = _log_row(f"{name}log_is_clean", console, patterns)
    if result == KILLED:
        return [log]
    if result != "finished 0":
        return [failed(GUEST_SUITE, f"{name}finishes", f"{result or 'no result'}; see {console}"), log]
    return [Row(GUEST_SUITE, f"{name}finishes", OK), log]


def _log_row(case: str, console: Path, patterns: logscan.Patterns) -> Row:
    if not console.is_file():
        return failed(GUEST_SUITE, case, f"{console} is missing")
    lines = console.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return failed(GUEST_SUITE, case, f"{console} is empty")
    wrong = logscan.scan(lines, patterns)
    if wrong:
        return failed(GUEST_SUITE, case, "\n".join([f"{console}:", *wrong]))
    return Row(GUEST_SUITE, case, OK)


def _options(argv: list[str]) -> argparse.Namespace:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Gathers the verdicts of a test run.")
    parser.add_argument("--kdir", type=Path, help="kernel tree whose KTAP parser is used")
    parser.add_argument("--expected", type=Path, default=here / "expected.list", help="list of cases that must be there")
    parser.add_argument("--more", type=Path, action="append", default=[], metavar="LIST", help="another list beside it")
    parser.add_argument(
        "--again", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="results of the KUnit suites on another kernel"
    )
    parser.add_argument("--patterns", type=Path, default=here / "log-patterns", help="what a kernel fault looks like")
    parser.add_argument("--suites", nargs="*", metavar="SUITE", help="judge only these suites of the lists")
    parser.add_argument("--ktap", type=Path, action="append", default=[], metavar="DIR", help="folder of *.ktap files, one block each")
    parser.add_argument("--console", type=Path, help="console log of the guest")
    parser.add_argument("--guest-result", default="", help="how the guest ended, as scripts/qemu.sh says it: `finished 0`")
    parser.add_argument(
        "--guest", nargs=3, action="append", default=[], metavar=("NAME", "LOG", "RESULT"), help=f"another one; RESULT may be {KILLED}"
    )
    parser.add_argument("--cargo", nargs=3, action="append", default=[], metavar=("SUITE", "STATUS", "LOG"))
    parser.add_argument("--failed-step", action="append", default=[], metavar="NAME", help="a step of the run that failed")
    parser.add_argument("--print-names", action="store_true", help="print the names that were reported, to write the list from")
    options = parser.parse_args(argv)
    if (options.ktap or options.again) and options.kdir is None:
        parser.error("--ktap and --again need --kdir")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
