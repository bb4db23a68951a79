# SPDX-License-Identifier: GPL-2.0
"""Test runs made up for the harness's own tests."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

import collect

GOOD_CONSOLE = "[    0.000000] Linux version 7.3.4\n[    3.000000] rdma_dmabuf-job: suite ended with 0\n"
LIST = "rdma_dmabuf_window/first\nrdma_dmabuf_window/second\n"


def ktap(suite: str, *results: str, good: bool = True, plan: int | None = None) -> str:
    """A results file as debugfs shows it; each result is a line such as `ok 1 first`."""
    body = [f"    {line}" for line in results]
    count = len(results) if plan is None else plan
    head = ["KTAP version 1", "1..1", "    KTAP version 1", f"    # Subtest: {suite}", f"    1..{count}"]
    return "\n".join([*head, *body, f"{'ok' if good else 'not ok'} 1 {suite}", ""])


GOOD_KTAP = ktap("rdma_dmabuf_window", "ok 1 first", "ok 2 second")


class RunTestCase(unittest.TestCase):
    """A folder with one made-up run in it, good until a test spoils it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "kunit").mkdir()
        self.write("kunit/rdma_dmabuf_window.ktap", GOOD_KTAP)
        self.write("expected.list", LIST)
        self.write("console.log", GOOD_CONSOLE)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def collect(self, *more: str, result: str = "finished 0", console: str = "console.log") -> tuple[int, str]:
        """Exit status and output of collect.py over this run."""
        options = ["--kdir", os.environ["KDIR"], "--expected", f"{self.folder}/expected.list", "--ktap", f"{self.folder}/kunit"]
        options += ["--console", f"{self.folder}/{console}", "--guest-result", result, *more]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = collect.main(options)
        return status, output.getvalue()

    def assertReported(self, name: str, *more: str, why: str = "", failures: int = 1, **options: str) -> None:
        """The run must fail, with that many failed rows, one of them this."""
        status, output = self.collect(*more, **options)
        self.assertEqual(status, 1, output)
        self.assertIn(f"failed: {name}\n", output)
        self.assertIn(why, output)
        self.assertRegex(output.splitlines()[-1], rf"^\d+ passed, {failures} failed")

    def assertGood(self, *more: str, last: str, **options: str) -> None:
        status, output = self.collect(*more, **options)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.splitlines()[-1], last)
