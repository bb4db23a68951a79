#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table of everything `unsafe` in the kernel modules: each file, how many, and the reason given for each.

    scripts/unsafe-audit.py [--out FILE] FOLDER...

Writes Markdown, and fails where a block, an impl or a function has no reason. clippy looks at the blocks, too; this is
for people to read in one go, and it sees the reasons of functions (`# Safety`) as well.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

UNSAFE = re.compile(r"\bunsafe\b")
# What may stand between a reason and the function that it is for.
ATTRIBUTE = re.compile(r"^\s*#!?\[")


class Use(NamedTuple):
    """One `unsafe`: what it is of, where, and why it is all right."""

    kind: str
    line: int
    reason: str


def uses(path: Path) -> list[Use]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines):
        code = _without_comment(line)
        for match in UNSAFE.finditer(code):
            kind = _kind(code[match.end() :])
            if kind:
                found.append(Use(kind, number + 1, _reason(lines, number, kind)))
    return found


def _without_comment(line: str) -> str:
    code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return code.split("//", 1)[0]


def _kind(rest: str) -> str | None:
    rest = rest.strip()
    if rest.startswith("{"):
        return "block"
    if rest.startswith("impl"):
        return "impl"
    if re.match(r'(extern\s+(""\s+)?)?fn\s+\w', rest):
        return "fn"
    # A type of a function, or a word of a lint's name.
    return None


def _reason(lines: list[str], number: int, kind: str) -> str:
    """The comment above: `SAFETY:` for a block or an impl, `# Safety` for a function."""
    if kind == "fn":
        above = _documentation(lines, number)
        start = next((index for index, line in enumerate(above) if line.strip() == "# Safety"), None)
        if start is not None:
            return " ".join(line.strip() for line in above[start + 1 :] if line.strip())
    for start in range(number, -1, -1):
        if "SAFETY:" in lines[start]:
            return _paragraph(lines, start)
        if start < number and _ends_a_statement(lines[start]):
            break
    return ""


def _ends_a_statement(line: str) -> bool:
    """Whether what is below belongs to another one, which a reason above this line is not for."""
    return _without_comment(line).rstrip().endswith((";", "}", "},"))


def _documentation(lines: list[str], number: int) -> list[str]:
    above: list[str] = []
    for line in reversed(lines[:number]):
        text = line.strip()
        if text.startswith("///"):
            above.insert(0, text[3:])
        elif not ATTRIBUTE.match(line) and text:
            break
    return above


def _paragraph(lines: list[str], start: int) -> str:
    text = [lines[start].split("SAFETY:", 1)[1].strip()]
    for line in lines[start + 1 :]:
        stripped = line.strip()
        if not stripped.startswith("//") or "INVARIANT:" in stripped:
            break
        text.append(stripped.lstrip("/").strip())
    return " ".join(part for part in text if part)


def table(folders: list[Path]) -> tuple[str, int]:
    """The Markdown, and how many have no reason."""
    parts, missing, rows = [], 0, []
    for path in sorted(path for folder in folders for path in folder.rglob("*.rs")):
        found = uses(path)
        if not found:
            continue
        counts = [sum(use.kind == kind for use in found) for kind in ("block", "impl", "fn")]
        rows.append(f"| `{path}` | {counts[0]} | {counts[1]} | {counts[2]} |")
        parts.append(f"\n## {path}\n\n| line | of | relies on |\n|---|---|---|")
        for use in found:
            missing += not use.reason
            parts.append(f"| {use.line} | {use.kind} | {use.reason.replace('|', chr(92) + '|') or '**no reason given**'} |")
    head = "# Everything unsafe, and what it relies on\n\n| file | blocks | impls | functions |\n|---|---|---|---|"
    return "\n".join([head, *rows, *parts]) + "\n", missing


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The table of everything unsafe.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    options = parser.parse_args(argv)
    text, missing = table(options.folders)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    if missing:
        print(f"{missing} uses of unsafe have no reason: write // SAFETY: or # Safety above them", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
