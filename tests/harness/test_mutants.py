# SPDX-License-Identifier: GPL-2.0
"""Which case a console says has noticed a mutant, and which entries of the list are told to be stale."""

import tempfile
import unittest
from pathlib import Path

from mutants import catalogue
from mutants.catalogue import Catalogue, Mutant
from mutants.console import DIED, FAILED, FAULT, HUNG, Finding, Reading
from mutants.slot import noticing

from . import logscan

PATTERNS = logscan.read_patterns(Path(__file__).resolve().parent.parent / "log-patterns")
ORDER = ["rdma_dmabuf_gate/first", "rdma_dmabuf_gate/second", "rdma_dmabuf_races/third"]
GATE = "    # Subtest: rdma_dmabuf_gate"
RACES = "    # Subtest: rdma_dmabuf_races"
WARNING = "WARNING: possible recursive locking detected"


def read(*lines: str) -> Reading:
    reading = Reading(PATTERNS, ORDER)
    for number, line in enumerate(lines):
        reading.feed(f"[   {number}.123456] {line}\r")
    return reading


def mutant(**values: str) -> Mutant:
    return Mutant(**{"name": "one", "why": "", "file": "gate.rs", "old": "lock();", "new": "", **values})


class ConsoleTest(unittest.TestCase):
    def assertFound(self, reading: Reading, *found: Finding) -> None:
        self.assertEqual(reading.findings, list(found))

    def test_failed_case_is_named(self) -> None:
        reading = read(GATE, "    ok 1 first", "    not ok 2 second", "not ok 1 rdma_dmabuf_gate")
        self.assertFound(reading, Finding("rdma_dmabuf_gate/second", FAILED))

    def test_suites_of_the_kernel_are_not_ours(self) -> None:
        reading = read("    # Subtest: rust_kernel_fmt", "    not ok 1 first", WARNING)
        self.assertFound(reading)
        self.assertEqual(reading.strays, [WARNING])

    def test_fault_is_laid_to_the_case_that_runs(self) -> None:
        self.assertFound(read(GATE, WARNING, "    ok 1 first"), Finding(ORDER[0], FAULT))
        self.assertFound(read(GATE, "    ok 1 first", WARNING, WARNING), Finding(ORDER[1], FAULT))

    def test_fault_after_the_last_case_is_nobodys(self) -> None:
        reading = read(GATE, "    ok 1 first", "    ok 2 second", RACES, "    ok 1 third", WARNING)
        self.assertTrue(reading.is_over())
        self.assertFound(reading)
        self.assertEqual(reading.strays, [WARNING])

    def test_announced_fault_is_none(self) -> None:
        announced = ["rdma_dmabuf-expect: recursive", WARNING, "rdma_dmabuf-expect-end"]
        self.assertFound(read(GATE, *announced, "    ok 1 first"))
        self.assertFound(read(GATE, announced[0], announced[2], "    ok 1 first"), Finding(ORDER[0], FAULT))
        other = read(GATE, announced[0], "BUG: kernel NULL pointer dereference", *announced[1:], "    ok 1 first")
        self.assertFound(other, Finding(ORDER[0], FAULT))

    def test_hang_is_laid_to_the_case_that_runs(self) -> None:
        reading = read(GATE, "    ok 1 first")
        reading.blame(HUNG, "")
        self.assertFound(reading, Finding(ORDER[1], HUNG))
        # The verdict itself can be stuck on its way to the console.
        reading = read(GATE, "    # first.speed: normal")
        reading.blame(HUNG, "")
        self.assertFound(reading, Finding(ORDER[1], HUNG))

    def test_end_before_the_last_case_is_laid_to_the_case_that_runs(self) -> None:
        reading = read(GATE, "    ok 1 first", "    ok 2 second")
        reading.end()
        self.assertFound(reading, Finding(ORDER[2], DIED))
        reading = read(GATE, "    ok 1 first", "    ok 2 second", RACES, "    ok 1 third")
        reading.end()
        self.assertFound(reading)
        self.assertEqual(reading.strays, [])

    def test_end_before_the_first_suite_is_nobodys(self) -> None:
        reading = read("reboot: Power down")
        reading.end()
        self.assertFound(reading)
        self.assertEqual(len(reading.strays), 1)

    def test_what_races_notice_does_not_count(self) -> None:
        found = [Finding(ORDER[2], FAILED), Finding(ORDER[1], FAILED)]
        self.assertEqual(noticing(found, Catalogue([], ["rdma_dmabuf_races/*"], []), mutant()), found[1:])

    def test_only_the_named_case_counts(self) -> None:
        found = [Finding(ORDER[0], FAILED), Finding(ORDER[1], FAILED)]
        self.assertEqual(noticing(found, Catalogue([], [], []), mutant(case=ORDER[1])), found[1:])
        self.assertEqual(noticing(found[:1], Catalogue([], [], []), mutant(case=ORDER[1])), [])


class CatalogueTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        (self.tree / "tests").mkdir()
        (self.tree / "tests" / "expected.list").write_text(f"{ORDER[0]}\n", encoding="utf-8")
        (self.tree / "tests" / "kunit").mkdir()
        (self.tree / "tests" / "kunit" / "kunit.rs").write_text("mod gate;\nmod races;\n", encoding="utf-8")
        (self.tree / "gate.rs").write_text("lock();\nmap();\nmap();\n", encoding="utf-8")

    def assertStale(self, why: str, *mutants: Mutant) -> None:
        lines = Catalogue(list(mutants), [], []).stale(self.tree)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(why, lines[0])

    def test_good_entry_is_not_stale(self) -> None:
        self.assertEqual(Catalogue([mutant(case=ORDER[0])], [], ["races"]).stale(self.tree), [])

    def test_stale_entries_are_told(self) -> None:
        self.assertStale("there is no view.rs", mutant(file="view.rs"))
        self.assertStale("stands 0 times", mutant(old="unlock();"))
        self.assertStale("stands 2 times", mutant(old="map();"))
        self.assertStale("are the same", mutant(new="lock();"))
        self.assertStale("not in tests/expected.list", mutant(case=ORDER[1]))
        self.assertStale("listed twice", mutant(), mutant())

    def test_module_that_is_not_there_is_told(self) -> None:
        lines = Catalogue([], [], ["races", "luck"]).stale(self.tree)
        self.assertEqual(lines, ["luck: no module of tests/kunit/kunit.rs"])

    def test_entry_with_a_misspelt_key_is_refused(self) -> None:
        for text in ('[[mutant]]\nname = "x"\nreason = "y"\n', '[[mutants]]\nname = "x"\n'):
            (self.tree / "list.toml").write_text(text, encoding="utf-8")
            with self.assertRaises(SystemExit):
                catalogue.read(self.tree)
