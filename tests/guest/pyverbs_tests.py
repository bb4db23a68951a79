#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rdma-core's tests as they are, in the folder `tests`, with a fault of pyverbs 56.1 out of their way.

Its DmaBufMR registers the MR of a DmaBuf and then calls add_ref(), a method that Python code does not see
(pyverbs/dmabuf.pyx: cdef), so it always ends with an AttributeError. The buffers here have that method.
"""

from __future__ import annotations

import importlib
import runpy
import sys

import pyverbs.mr
from pyverbs.dmabuf import DmaBuf
from pyverbs.pd import PD


class Buffer(DmaBuf):
    """It need not know its MRs: each holds it."""

    def add_ref(self, _: object) -> None:
        pass


class DmaBufMR(pyverbs.mr.DmaBufMR):
    """Brings a buffer, where the caller has none."""

    def __init__(self, pd: PD, length: int, access: int, dmabuf: object = None, offset: int = 0, gpu: int = 0, gtt: int = 0) -> None:
        if dmabuf is None:
            dmabuf = Buffer(length + offset, gpu, gtt)
        super().__init__(pd, length, access, dmabuf, offset)


# In the tests alone: modules of pyverbs itself need the class that is theirs. What is imported here is not imported again.
sys.path[:0] = [".", "tests"]
importlib.import_module("tests")
for name, module in list(sys.modules.items()):
    if name.startswith("tests.") and hasattr(module, "DmaBufMR"):
        module.DmaBufMR = DmaBufMR
runpy.run_path("tests/run_tests.py", run_name="__main__")
