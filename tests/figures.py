#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The summary of `make test-debug`: what was tried, in numbers, for both sizes of the run.

    tests/figures.py --size ci|long --out FILE [--coverage FILE] RUN-DIRECTORY...

Each directory may hold share/figures/figures, as tests/guest/figures.py writes it. FILE gets the figures of this run as
JSON; the other column is what docs/hardening.json has of the last run of that size.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

SIZES = ("ci", "long")
RECORD = Path(__file__).resolve().parent.parent / "docs/hardening.json"


def gather(folders: list[Path]) -> Counter:
    """The sums of all figures."""
    found: Counter = Counter()
    for folder in folders:
        path = folder / "share/figures/figures"
        if path.is_file():
            for line in path.read_text(encoding="ascii").splitlines():
                name, value = line.split("\t")
                found[name] += int(float(value))
    return found


def coverage(path: Path | None) -> dict[str, str]:
    if path is None or not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {f"fuzz coverage of {name} ({how})": f"{part} of {whole} ({100 * int(part) // int(whole)} %)" for name, how, part, whole in rows}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The summary of what was tried.")
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args(argv)
    figures: dict[str, int | str] = dict(sorted(gather(options.folders).items())) | coverage(options.coverage)
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    record[options.size] = figures
    names = list(dict.fromkeys(name for size in SIZES for name in record.get(size, {})))
    width = max(map(len, names), default=6)
    labels = [f"{size} (this run)" if size == options.size else f"{size} (docs/hardening.json)" for size in SIZES]
    print(f"\n{'what was tried':<{width}}  {labels[0]:>26}  {labels[1]:>28}")
    for name in names:
        cells = [str(record.get(size, {}).get(name, "-")) for size in SIZES]
        print(f"{name:<{width}}  {cells[0]:>26}  {cells[1]:>28}")
    return 0 if figures else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
