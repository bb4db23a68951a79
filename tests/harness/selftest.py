# SPDX-License-Identifier: GPL-2.0
"""Runs the unit tests of this folder and writes their verdicts as KTAP, one suite per test file.

    python3 -m harness.selftest OUTPUT-FOLDER [FILE-NAME-PATTERN]

The environment names what the tests look at: KDIR always; GUEST_KERNEL, GUEST_MINI, GUEST_PROJECT and
GUEST_RUNS for those that boot a guest.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Verdicts(unittest.TestResult):
    """Keeps each test's verdict in the order they came."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, str, str]] = []

    def _add(self, test: unittest.TestCase, verdict: str, text: str = "") -> None:
        # A failing import has no method name of its own.
        name = getattr(test, "_testMethodName", str(test)).removeprefix("test_")
        self.rows.append((name, verdict, text))
        print(f"    {verdict}: {name}", file=sys.stderr, flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, "ok")

    def addFailure(self, test: unittest.TestCase, err) -> None:
        self._add(test, "not ok", self._exc_info_to_string(err, test))

    def addError(self, test: unittest.TestCase, err) -> None:
        self._add(test, "not ok", self._exc_info_to_string(err, test))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err) -> None:
        if err is not None:
            self._add(test, "not ok", f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._add(test, "skip", reason)


def ktap(suite: str, rows: list[tuple[str, str, str]]) -> Iterator[str]:
    """The KTAP block of one suite."""
    yield from ("KTAP version 1", "1..1", "    KTAP version 1", f"    # Subtest: {suite}", f"    1..{len(rows)}")
    for number, (name, verdict, text) in enumerate(rows, 1):
        yield from (f"    # {line}" for line in text.splitlines() if verdict != "skip")
        yield f"    ok {number} {name} # SKIP {text}" if verdict == "skip" else f"    {verdict} {number} {name}"
    good = all(verdict != "not ok" for _, verdict, _ in rows)
    yield f"{'ok' if good and rows else 'not ok'} 1 {suite}"


def run(path: Path, output: Path) -> bool:
    """One test file; true if none of its tests failed."""
    suite = path.stem.replace("test_", "harness_", 1)
    print(f"{suite}:", file=sys.stderr, flush=True)
    result = Verdicts()
    unittest.defaultTestLoader.loadTestsFromName(f"harness.{path.stem}").run(result)
    (output / f"{suite}.ktap").write_text("\n".join(ktap(suite, result.rows)) + "\n", encoding="utf-8")
    return result.wasSuccessful() and bool(result.rows)


def main(argv: list[str]) -> int:
    output, pattern = Path(argv[0]), argv[1] if len(argv) > 1 else "test_*.py"
    output.mkdir(parents=True, exist_ok=True)
    files = sorted(HERE.glob(pattern))
    if not files:
        print(f"selftest: no file {HERE}/{pattern}", file=sys.stderr)
        return 2
    return 0 if all([run(path, output) for path in files]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
