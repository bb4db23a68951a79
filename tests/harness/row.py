# SPDX-License-Identifier: GPL-2.0
"""One verdict of a test run."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Row:
    """The verdict on one case; `detail` says why it is not ok."""

    suite: str
    case: str
    status: str
    detail: str = ""

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.case}"


def failed(suite: str, case: str, detail: str) -> Row:
    return Row(suite, case, FAILED, detail)
