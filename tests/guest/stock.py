# SPDX-License-Identifier: GPL-2.0
"""rxe as it is without our patches, and with them, on the same kernel."""

from __future__ import annotations

import os
from pathlib import Path

from expect import same, shell

RXE = Path("/lib/modules") / os.uname().release / "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"
STOCK = Path("/project/selftests/stock/rdma_rxe.ko")
IMPORTER = "/project/modules/rdma_dmabuf.ko"


def use(module: bytes, is_patched: bool) -> None:
    """Puts rxe in the place where modprobe finds it, with the importer loaded or without, and looks what it is."""
    for name in ("rdma_dmabuf", "rdma_rxe"):
        if Path(f"/sys/module/{name}").exists():
            shell(f"rmmod {name}")
    RXE.write_bytes(module)
    shell("modprobe rdma_rxe")
    if is_patched:
        shell(f"insmod {IMPORTER}")
    symbols = Path("/proc/kallsyms").read_text(encoding="ascii").splitlines()
    ours = [line for line in symbols if line.endswith("[rdma_rxe]") and "dmabuf" in line]
    same(bool(ours), is_patched)
