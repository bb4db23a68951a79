#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rdma-core's tests as they are, in the folder `tests`, with a fault of pyverbs 56.1 out of their way.

Takes the arguments of their run_tests.py. With `--each FOLDER SECONDS` before those, each module runs in a process of
its own, for at most that time, and what it says goes to a file of its name: pyverbs does not survive all of them in one.

Its DmaBufMR registers the MR of a DmaBuf and then calls add_ref(), a method that Python code does not see
(pyverbs/dmabuf.pyx: cdef), so it always ends with an AttributeError. The buffers here have that method.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
from pathlib import Path

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


def each(folder: Path, seconds: int, arguments: list[str]) -> None:
    for module in sorted(path.stem for path in Path("tests").glob("test_*.py")):
        pid = os.fork()
        if pid == 0:
            signal.alarm(seconds)
            output = os.open(folder / module, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            sys.argv[1:] = [*arguments, "-v", "-k", f"tests.{module}."]
            runpy.run_path("tests/run_tests.py", run_name="__main__")
            sys.exit()
        os.waitpid(pid, 0)


if sys.argv[1:2] == ["--each"]:
    each(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
else:
    runpy.run_path("tests/run_tests.py", run_name="__main__")
