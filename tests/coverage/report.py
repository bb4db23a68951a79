#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How much of the modules' code a run has gone through, by the places that the compiler has marked for KCOV.

    tests/coverage/report.py --guest SHARE/coverage --executed FILE --objects NAME=MODULE.ko:FILE.o[,FILE.o...] ...

SHARE/coverage/modules says where the guest had its modules, SHARE/coverage/kcov what KCOV saw from the callers' tasks,
and FILE what tests/coverage/plugin.c saw in any context. Prints `NAME<tab>how<tab>PASSED<tab>OF` lines.
"""

from __future__ import annotations

import argparse
import bisect
import subprocess
import sys
from pathlib import Path

MARK = "__sanitizer_cov_trace_pc"
# The mark is a call; KCOV notes the address behind it, the relocation stands one byte into it.
BEHIND = 4
CALL = 1


def marks(module: Path, section: str) -> list[int]:
    """Offsets, within a section of a module, of the relocations of its marks."""
    found = []
    wanted = False
    for line in _tool("readelf", "-rW", str(module)):
        if line.startswith("Relocation section"):
            wanted = f"'.rela{section}'" in line
        elif wanted and MARK in line:
            found.append(int(line.split()[0], 16))
    return sorted(found)


def functions(module: Path) -> list[tuple[str, int, int, str]]:
    """Name, offset, size and section of the functions of a module or object."""
    sections = {}
    for line in _tool("readelf", "-SW", str(module)):
        words = line.replace("[", " ").replace("]", " ").split()
        if words and words[0].isdigit():
            sections[words[0]] = words[1]
    found = []
    for line in _tool("readelf", "-sW", str(module)):
        words = line.split()
        if len(words) >= 8 and words[3] == "FUNC" and words[6] in sections:
            found.append((words[7], int(words[1], 16), int(words[2], 0), sections[words[6]]))
    return found


def _tool(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def of_objects(module: Path, objects: list[Path]) -> dict[str, list[int]]:
    """The marks of a module that lie in functions of these objects, by section."""
    names = {(name, size) for path in objects for name, _, size, _ in functions(path)}
    ranges: dict[str, list[tuple[int, int]]] = {}
    for name, start, size, section in functions(module):
        if (name, size) in names:
            ranges.setdefault(section, []).append((start, start + size))
    found = {}
    for section, spans in ranges.items():
        spans.sort()
        starts = [start for start, _ in spans]
        inside = [mark for mark in marks(module, section) if _is_inside(mark, spans, starts)]
        if inside:
            found[section] = inside
    return found


def _is_inside(mark: int, spans: list[tuple[int, int]], starts: list[int]) -> bool:
    index = bisect.bisect_right(starts, mark) - 1
    return index >= 0 and mark < spans[index][1]


def read_numbers(path: Path) -> set[int]:
    return {int(line, 16) for line in path.read_text(encoding="ascii").split()}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="How much of the modules' code a run has gone through.")
    parser.add_argument("--guest", type=Path, required=True)
    parser.add_argument("--executed", type=Path, required=True)
    parser.add_argument("--objects", action="append", required=True, metavar="NAME=MODULE:OBJECT,...")
    options = parser.parse_args(argv)
    places = {}
    for line in (options.guest / "modules").read_text(encoding="ascii").splitlines():
        module, section, address = line.split()
        places[(module, section)] = int(address, 16)
    kcov, executed = read_numbers(options.guest / "kcov"), read_numbers(options.executed)
    for entry in options.objects:
        name, _, rest = entry.partition("=")
        module, _, objects = rest.partition(":")
        of = by_kcov = by_plugin = 0
        for section, offsets in of_objects(Path(module), [Path(path) for path in objects.split(",")]).items():
            base = places.get((Path(module).stem, section))
            if base is None:
                # Of a module that was loaded before and is not unloaded yet: code to begin and to end.
                continue
            of += len(offsets)
            by_kcov += sum(base + offset + BEHIND in kcov for offset in offsets)
            by_plugin += sum(base + offset - CALL in executed for offset in offsets)
        if not of:
            raise SystemExit(f"{name}: no marks in {module}: was it built for a kernel with KCOV?")
        print(f"{name}\tKCOV, from the callers' tasks\t{by_kcov}\t{of}")
        print(f"{name}\tTCG, in any context\t{by_plugin}\t{of}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
