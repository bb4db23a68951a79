# SPDX-License-Identifier: GPL-2.0
"""Guests that fail on purpose: each way to fail must be reported as what it is."""

import contextlib
import io
import os
import subprocess
import unittest
from pathlib import Path

import collect

QEMU = Path(__file__).resolve().parents[2] / "scripts/qemu.sh"
SUITE = "rdma_dmabuf_mustfail"


def boot(job: str, *options: str, initrds: tuple[str, ...] = ("GUEST_MINI", "GUEST_PROJECT")) -> tuple[int, str, Path]:
    """Exit status, verdict and run folder of one small guest."""
    folder = Path(os.environ["GUEST_RUNS"]) / job
    command = [str(QEMU), "--kernel", os.environ["GUEST_KERNEL"], "--run-dir", str(folder), "--job", job, "--memory", "256"]
    for variable in initrds:
        command += ["--initrd", os.environ[variable]]
    run = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout.strip(), folder


class MustFailTest(unittest.TestCase):
    """Inserting the failing module succeeds, and so does its guest; the results and the log tell."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.status, cls.verdict, cls.folder = boot("mustfail")
        expected = cls.folder / "expected.list"
        cases = ("passes", "fails_on_purpose", "is_skipped", "warns_on_purpose", "is_not_there")
        expected.write_text("".join(f"{SUITE}/{case}\n" for case in cases), encoding="utf-8")
        options = ["--kdir", os.environ["KDIR"], "--expected", str(expected), "--ktap", str(cls.folder / "share/kunit")]
        options += ["--console", str(cls.folder / "console.log"), "--guest-result", cls.verdict]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            cls.collected = collect.main(options)
        cls.output = output.getvalue()

    def test_guest_of_the_failing_suite_ends_well(self) -> None:
        self.assertEqual((self.status, self.verdict), (0, "finished 0"))

    def test_run_of_the_failing_suite_is_failed(self) -> None:
        self.assertEqual(self.collected, 1)
        self.assertEqual(self.output.splitlines()[-1], "3 passed, 4 failed")

    def test_failing_case_is_named(self) -> None:
        self.assertIn(f"failed: {SUITE}/fails_on_purpose\n", self.output)
        self.assertIn("Expected 1 == 2", self.output)

    def test_skipped_case_is_named(self) -> None:
        self.assertIn(f"failed: {SUITE}/is_skipped\n", self.output)

    def test_missing_case_is_named(self) -> None:
        self.assertIn(f"failed: {SUITE}/is_not_there\n", self.output)

    def test_warning_is_shown(self) -> None:
        self.assertIn("failed: guest/log_is_clean\n", self.output)
        self.assertIn("rdma_dmabuf: warning on purpose", self.output)


class EndsTest(unittest.TestCase):
    """How a guest can end without having done its job."""

    def test_panic(self) -> None:
        self.assertEqual(boot("panic")[:2], (3, "panicked"))

    def test_job_that_hangs(self) -> None:
        status, verdict, folder = boot("hang", "--job-timeout", "1")
        self.assertEqual(status, 1)
        self.assertRegex(verdict, r"^finished (124|137|143)$")
        self.assertIn("stopped after 1 s", (folder / "share/output").read_text(encoding="utf-8"))

    def test_machine_that_hangs(self) -> None:
        # A machine that is never started.
        self.assertEqual(boot("nothing", "--timeout", "2", "--qemu-arg", "-S")[:2], (124, "timeout"))

    def test_machine_that_does_not_start(self) -> None:
        self.assertEqual(boot("nothing", "--qemu-arg", "-no-such-option")[:2], (4, "no-answer"))

    def test_missing_kernel(self) -> None:
        run = subprocess.run([QEMU, "--kernel", "/nonexistent", "--run-dir", os.environ["GUEST_RUNS"] + "/none", "--job", "nothing", "--initrd", "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("make kernel", run.stderr)

    def test_job_that_is_missing(self) -> None:
        status, verdict, _ = boot("no-such-job")
        self.assertEqual(status, 1)
        self.assertRegex(verdict, r"^finished 12[67]$")
