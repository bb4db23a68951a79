# SPDX-License-Identifier: GPL-2.0
"""What the kernel counts: live regions, dma-bufs, the importer's totals."""

from __future__ import annotations

from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug")


def counters() -> dict[str, int]:
    """The importer's counters, by name."""
    lines = (DEBUGFS / "rdma_dmabuf/counters").read_text(encoding="ascii").splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def regions() -> list[dict[str, str]]:
    """The live regions, each as its key=value pairs."""
    lines = (DEBUGFS / "rdma_dmabuf/regions").read_text(encoding="ascii").splitlines()
    return [dict(word.split("=", 1) for word in line.split()) for line in lines if line.strip()]


def buffers() -> str:
    """The last line of bufinfo: how many dma-bufs, how many bytes."""
    lines = (DEBUGFS / "dma_buf/bufinfo").read_text(encoding="ascii").splitlines()
    return [line for line in lines if line.startswith("Total ") and "objects" in line][-1]
