#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The summary of `make test-debug`: what was tried, in numbers, for both sizes of the run.

    tests/figures.py show --size ci|long --out FILE [--coverage FILE] RUN-DIRECTORY...
    tests/figures.py record --size ci|long FILE

Each directory is that of a step, and may hold share/figures/figures, as tests/guest/figures.py writes it. `show` leaves
the figures of this run, step by step, in FILE; the other column is what docs/hardening.json has of the last run of that
size. `record` puts the steps of FILE into docs/hardening.json, and the table into docs/hardening.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

SIZES = ("ci", "long")
DOCS = Path(__file__).resolve().parent.parent / "docs"
RECORD, PAGE = DOCS / "hardening.json", DOCS / "hardening.md"
BEGIN, END = "<!-- written by tests/figures.py -->\n", "<!-- until here -->\n"

# By step, then by name. What is a text is not a sum: no two steps have it.
Figures = dict[str, dict[str, int | str]]


def gather(folders: list[Path]) -> Figures:
    found: Figures = {}
    for folder in folders:
        path = folder / "share/figures/figures"
        if path.is_file():
            sums: Counter = Counter()
            for line in path.read_text(encoding="ascii").splitlines():
                name, value = line.split("\t")
                sums[name] += int(float(value))
            found[folder.name] = dict(sorted(sums.items()))
    return found


def coverage(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {f"fuzz coverage of {name} ({how})": f"{part} of {whole} ({100 * int(part) // int(whole)} %)" for name, how, part, whole in rows}


def whole(steps: Figures) -> dict[str, int | str]:
    """The sums over all steps."""
    sums: dict[str, int | str] = {}
    for figures in steps.values():
        for name, value in figures.items():
            sums[name] = sums.get(name, 0) + value if isinstance(value, int) else value
    return sums


def table(record: dict[str, Figures]) -> list[tuple[str, ...]]:
    """A row for each name, with a cell for each size."""
    sums = [whole(record.get(size, {})) for size in SIZES]
    # As the long run has them, which has all.
    names = dict.fromkeys(name for column in reversed(sums) for name in column)
    return [(name, *(str(column.get(name, "-")) for column in sums)) for name in names]


def read_record() -> dict[str, Figures]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}


def show(options: argparse.Namespace) -> int:
    figures = gather(options.folders)
    if options.coverage:
        figures.setdefault("fuzz", {}).update(coverage(options.coverage))
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    rows = table(read_record() | {options.size: figures})
    width = max((len(name) for name, *_ in rows), default=6)
    labels = [f"{size} (this run)" if size == options.size else f"{size} (docs/hardening.json)" for size in SIZES]
    print(f"\n{'what was tried':<{width}}  {labels[0]:>26}  {labels[1]:>28}")
    for name, ci, long in rows:
        print(f"{name:<{width}}  {ci:>26}  {long:>28}")
    return 0


def record(options: argparse.Namespace) -> int:
    known = read_record()
    known.setdefault(options.size, {}).update(json.loads(options.file.read_text(encoding="utf-8")))
    RECORD.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no place for the table; put these lines there:\n{BEGIN}{END}")
    lines = ["| what was tried | `make test-debug` | `LONG=1` |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table(known)]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{end}{after}", encoding="utf-8")
    return 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The summary of what was tried.")
    commands = parser.add_subparsers(required=True)
    shown = commands.add_parser("show", help="print the table of a run")
    shown.set_defaults(run=show)
    shown.add_argument("--size", choices=SIZES, required=True)
    shown.add_argument("--out", type=Path, required=True)
    shown.add_argument("--coverage", type=Path)
    shown.add_argument("folders", type=Path, nargs="*")
    recorded = commands.add_parser("record", help="keep the figures of a run in docs/")
    recorded.set_defaults(run=record)
    recorded.add_argument("--size", choices=SIZES, required=True)
    recorded.add_argument("file", type=Path)
    options = parser.parse_args(argv)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
