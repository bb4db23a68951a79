# SPDX-License-Identifier: GPL-2.0
"""A suite with the movable exporter: it is loaded first, and unloaded when nothing is left of all that was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import kernel
from expect import same, shell, wait
from ktap import Suite


def run(name: str, cases: Iterable[tuple[str, Callable[[], None]]], vram_mb: int = 16) -> int:
    """The exit status of the suite. Starts without the exporter, and without regions."""
    suite = Suite(name)
    before = kernel.buffers()
    suite.check("exporter_loads", lambda: shell(f"insmod /project/modules/vram_exporter.ko vram_mb={vram_mb}"))
    for case, test in cases:
        suite.check(case, test)
    suite.check("no_region_is_left", lambda: same(kernel.regions(), []))
    suite.check("no_buffer_is_left", lambda: wait(lambda: kernel.buffers() == before))
    suite.check("exporter_unloads", lambda: shell("rmmod vram_exporter"))
    return suite.finish()
