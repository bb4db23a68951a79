# SPDX-License-Identifier: GPL-2.0
"""What counts as a kernel fault in a log, and how a test announces one."""

import tempfile
import unittest
from pathlib import Path

from . import logscan

PATTERNS = logscan.read_patterns(Path(__file__).resolve().parent.parent / "log-patterns")

FAULTS = [
    "WARNING: rxe_mr.c:7 at rxe_mr_copy+0xf/0xf30 [rdma_rxe], CPU#1: kworker/3",
    "WARNING: CPU: 1 PID: 7 at drivers/dma-buf/dma-buf.c:900 dma_buf_dynamic_attach+0x1/0x2",
    "WARNING: possible circular locking dependency detected",
    "WARNING: possible recursive locking detected",
    "WARNING: inconsistent lock state",
    "WARNING: held lock freed!",
    "WARNING: lock held when returning to user space!",
    "WARNING: suspicious RCU usage",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "BUG: KASAN: slab-use-after-free in rxe_mr_copy+0x1/0x2",
    "BUG: sleeping function called from invalid context at mm/util.c:1",
    "BUG: scheduling while atomic: kworker/0:1/9/0x00000002",
    "BUG: Bad page state in process python3  pfn:12345",
    "kernel BUG at lib/list_debug.c:29!",
    "Oops: 0000 [#1] SMP",
    "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
    "Kernel panic - not syncing: Fatal exception",
    "INFO: task rmmod:99 blocked for more than 120 seconds.",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
    "INFO: trying to register non-static key.",
    "DMA-API: rdma_dmabuf rdma_dmabuf: mapping sg segment longer than device claims to support",
    "DMA-API: rdma_dmabuf rdma_dmabuf: device driver has pending DMA allocations while released",
    "refcount_t: underflow; use-after-free.",
    "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "rust_kernel: panicked at rust/window.rs:9:5:",
    "UBSAN: array-index-out-of-bounds in x.c:1:2",
    "list_del corruption, ffff888 ->next is LIST_POISON1",
    "** 99 printk messages dropped **",
    "rdmabuf[123]: segfault at 0 ip 0000 sp 0000 error 4 in rdmabuf[400000+1000]",
    "do not call blocking ops when !TASK_RUNNING; state=1 set at",
    "BUG: MAX_LOCKDEP_ENTRIES too low!",
    "turning off the locking correctness validator.",
    "ODEBUG: free active (active state 0) object type: work_struct",
]

HARMLESS = [
    "Linux version 7.3.4 (root@host) (Debian clang version 19.1.7) #1 SMP PREEMPT",
    "DMA-API: preallocated 65536 debug entries",
    "DMA-API: debugging enabled by kernel config",
    "rdma_dmabuf: loading out-of-tree module taints kernel.",
    "rcu: Hierarchical RCU implementation.",
    "Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar",
    "clocksource: Watchdog remote CPU 1 read timed out",
    "    ok 1 debug_checks_are_on",
    "rdma_rxe: loaded",
    "NX (Execute Disable) protection: active",
]


def announced(regex: str, *lines: str) -> list[str]:
    return [f"[    1.0] rdma_dmabuf-expect: {regex}", *lines, "[    2.0] rdma_dmabuf-expect-end"]


SPLAT = [
    "[    1.1] ------------[ cut here ]------------",
    "[    1.1] WARNING: dma-buf.c:900 at dma_buf_dynamic_attach+0x1/0x2, CPU#1: kunit_try_catch/94",
    "[    1.1] Call Trace:",
    "[    1.1] ---[ end trace 0000000000000000 ]---",
]


class FaultsTest(unittest.TestCase):
    def test_each_fault_is_seen(self) -> None:
        for line in FAULTS:
            with self.subTest(line):
                self.assertEqual(len(logscan.scan([f"[    3.141592] {line}"], PATTERNS)), 1)

    def test_harmless_lines_are_not(self) -> None:
        for line in HARMLESS:
            with self.subTest(line):
                self.assertEqual(logscan.scan([f"[    3.141592] {line}"], PATTERNS), [])

    def test_context_is_shown(self) -> None:
        lines = [f"line {number}" for number in range(50)]
        lines[20] = "BUG: here"
        (text,) = logscan.scan(lines, PATTERNS)
        self.assertIn("line 18", text)
        self.assertIn("line 30", text)
        self.assertNotIn("line 40", text)

    def test_a_splat_is_one_thing(self) -> None:
        self.assertEqual(len(logscan.scan(SPLAT, PATTERNS)), 1)

    def test_two_splats_apart_are_two(self) -> None:
        self.assertEqual(len(logscan.scan(SPLAT + ["quiet"] * 30 + SPLAT, PATTERNS)), 2)

    def test_a_trace_without_a_headline(self) -> None:
        self.assertEqual(len(logscan.scan(["[    1.1] Call Trace:"], PATTERNS)), 1)


class ReplayTest(unittest.TestCase):
    """A console that takes over begins the line anew."""

    MARK = ["", "** replaying previous printk message **"]

    def test_announcement_is_one(self) -> None:
        lines = announced("WARNING: .*dma_buf_dynamic_attach", *SPLAT)
        self.assertEqual(logscan.scan([lines[0], *self.MARK, *lines], PATTERNS), [])
        self.assertEqual(logscan.scan([lines[0][:9], *self.MARK, *lines], PATTERNS), [])

    def test_fault_is_seen(self) -> None:
        lines = ["BUG: he", *self.MARK, "BUG: here"]
        self.assertEqual(len(logscan.scan(lines, PATTERNS)), 1)

    def test_another_line_is_kept(self) -> None:
        lines = ["BUG: here", *self.MARK, "quiet"]
        self.assertEqual(len(logscan.scan(lines, PATTERNS)), 1)


class AnnouncedTest(unittest.TestCase):
    def scan(self, lines: list[str]) -> str:
        return "\n".join(logscan.scan(lines, PATTERNS))

    def test_announced_fault_is_tolerated(self) -> None:
        self.assertEqual(self.scan(announced("WARNING: .*dma_buf_dynamic_attach", *SPLAT)), "")

    def test_announced_fault_that_does_not_come(self) -> None:
        self.assertIn("did not come", self.scan(announced("WARNING: .*dma_buf_dynamic_attach", "quiet")))

    def test_another_fault_than_announced(self) -> None:
        text = self.scan(announced("WARNING: .*dma_buf_pin", *SPLAT))
        self.assertIn("did not come", text)

    def test_another_fault_beside_the_announced_one(self) -> None:
        quiet = ["quiet"] * 20
        text = self.scan(announced("WARNING: .*dma_buf_dynamic_attach", *SPLAT, *quiet, "BUG: something else"))
        self.assertIn("something else", text)

    def test_fault_after_the_end(self) -> None:
        lines = announced("WARNING: .*dma_buf_dynamic_attach", *SPLAT) + ["quiet"] * 20 + SPLAT
        self.assertIn("fault", self.scan(lines))

    def test_announcement_without_end(self) -> None:
        text = self.scan(announced("WARNING: .*dma_buf_dynamic_attach", *SPLAT)[:-1])
        self.assertIn("not ended at the end of the log", text)

    def test_announcement_inside_another(self) -> None:
        lines = announced("WARNING: a", "[ 1.1] rdma_dmabuf-expect: WARNING: .*dma_buf_dynamic_attach", *SPLAT)
        self.assertIn("not ended before the next one", self.scan(lines))

    def test_bad_expression(self) -> None:
        self.assertIn("bad expression", self.scan(announced("(", "quiet")))


class PatternFileTest(unittest.TestCase):
    def test_unknown_kind_is_refused(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "patterns"
        for text in ("ignore BUG\n", "fault\n", "fault \n"):
            path.write_text(text, encoding="utf-8")
            with self.subTest(text), self.assertRaises(SystemExit):
                logscan.read_patterns(path)
