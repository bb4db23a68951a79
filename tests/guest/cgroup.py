# SPDX-License-Identifier: GPL-2.0
"""A memory control group, for what it counts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Joined:
    """The current process is in a group of its own until this ends."""

    def __init__(self, name: str) -> None:
        self.path = ROOT / name

    def __enter__(self) -> Joined:
        if not (ROOT / "cgroup.procs").exists():
            subprocess.run(["mount", "-t", "cgroup2", "none", str(ROOT)], check=True)
        (ROOT / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        self.path.mkdir()
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        return self

    def __exit__(self, *_: object) -> None:
        (ROOT / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        self.path.rmdir()

    def bytes(self) -> int:
        """All memory of the group."""
        return int((self.path / "memory.current").read_text(encoding="ascii"))

    def kernel_bytes(self) -> int:
        """Memory that the kernel has for the group's processes."""
        lines = (self.path / "memory.stat").read_text(encoding="ascii").splitlines()
        return int(dict(line.split() for line in lines)["kernel"])
