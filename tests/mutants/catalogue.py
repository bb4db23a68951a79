# SPDX-License-Identifier: GPL-2.0
"""The list of mutants, and whether it still fits the tree.

    python3 -m mutants.catalogue      says what is stale; silent where nothing is
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path

from harness import expected

TESTS = Path(__file__).resolve().parent.parent
PROJECT = TESTS.parent
LIST = TESTS / "mutants" / "list"
KUNIT = "tests/kunit/kunit.rs"
SUITE = re.compile(r"kunit_tests\((\w+)\)")


@dataclass(frozen=True)
class Mutant:
    """One breakage: `old` in `file` becomes `new`. Where `case` is given, only that case counts."""

    name: str
    why: str
    file: str
    old: str
    new: str
    case: str = ""

    def apply(self, text: str) -> str:
        return text.replace(self.old, self.new)

    def problem(self, tree: Path, cases: frozenset[str]) -> str:
        """Why this entry does not fit the tree; empty if it does."""
        path = tree / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        found = path.read_text(encoding="utf-8").count(self.old)
        if found != 1:
            return f"`old` stands {found} times in {self.file}, and must stand there once"
        if self.old == self.new:
            return "`old` and `new` are the same"
        if self.case and self.case not in cases:
            return f"{self.case} is not in tests/expected.list"
        return ""


@dataclass(frozen=True)
class Catalogue:
    """All mutants, patterns of the cases that notice by luck and so do not count, and modules that are not even run."""

    mutants: list[Mutant]
    by_luck: list[str]
    left_out: list[str]

    def is_luck(self, case: str) -> bool:
        return any(fnmatchcase(case, pattern) for pattern in self.by_luck)

    def suites_left_out(self, tree: Path) -> set[str]:
        """The suites in the modules that are not run."""
        texts = [(tree / KUNIT).with_name(f"{module}.rs").read_text(encoding="utf-8") for module in self.left_out]
        return {suite for text in texts for suite in SUITE.findall(text)}

    def stale(self, tree: Path) -> list[str]:
        """A line for each entry that does not fit the tree."""
        cases = expected.read(tree / "tests" / "expected.list").names
        lines = [f"{name}: listed twice" for name, n in Counter(m.name for m in self.mutants).items() if n > 1]
        modules = (tree / KUNIT).read_text(encoding="utf-8").splitlines()
        lines += [f"{module}: no module of {KUNIT}" for module in self.left_out if f"mod {module};" not in modules]
        for mutant in self.mutants:
            problem = mutant.problem(tree, cases)
            if problem:
                lines.append(f"{mutant.name}: {problem}")
        return lines


def read(folder: Path) -> Catalogue:
    """Parses the files of a list; an entry that lacks something or has too much ends the program."""
    mutants: list[Mutant] = []
    by_luck: list[str] = []
    left_out: list[str] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            mutants += [_mutant(entry) for entry in data.pop("mutant", [])]
            by_luck += data.pop("by_luck", [])
            left_out += data.pop("left_out", [])
        except (tomllib.TOMLDecodeError, TypeError) as error:
            raise SystemExit(f"{path}: {error}") from error
        if data:
            raise SystemExit(f"{path}: want `mutant`, `by_luck` and `left_out` alone, found: {', '.join(data)}")
    return Catalogue(mutants, by_luck, left_out)


def _mutant(entry: dict[str, str]) -> Mutant:
    known = {field.name for field in fields(Mutant)}
    if not known - {"case"} <= set(entry) <= known or not all(isinstance(value, str) for value in entry.values()):
        raise TypeError(f"want the texts {', '.join(sorted(known))} (`case` may be left out), found: {entry}")
    return Mutant(**entry)


if __name__ == "__main__":
    STALE = read(LIST).stale(PROJECT)
    print("".join(f"{line}\n" for line in STALE), end="")
    sys.exit(1 if STALE else 0)
