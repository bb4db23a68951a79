# SPDX-License-Identifier: GPL-2.0
"""A copy of rdma-core's tests, as they are in the distribution's package."""

from __future__ import annotations

import shutil
from pathlib import Path

from expect import shell

PACKAGED = Path("/usr/share/doc/rdma-core/tests")
# What they are run in: they are in `tests` there.
FOLDER = Path("/tmp/rdma-core")


def copy_tests() -> None:
    if not FOLDER.exists():
        shutil.copytree(PACKAGED, FOLDER / "tests")
        shell(f"find {FOLDER} -name '*.gz' -exec gunzip {{}} +")
