# SPDX-License-Identifier: GPL-2.0
"""What a run has tried, in numbers, for the summary: `NAME<tab>VALUE` lines in /share/figures."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("/share/figures")


def add(name: str, value: float) -> None:
    """Figures of the same name are added up."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "figures").open("a", encoding="ascii") as file:
        file.write(f"{name}\t{value}\n")
