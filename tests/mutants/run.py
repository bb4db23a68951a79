#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Builds and boots each mutant, some at a time, and says which case notices it. Started by tests/mutants.sh."""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from harness import logscan

from . import catalogue
from .catalogue import PROJECT, TESTS, Catalogue, Mutant
from .console import FAILED, Finding, Reading
from .slot import Slot, Stopped, noticing

# While one builds and others boot, some guests only wait.
SLOTS = (os.cpu_count() or 1) + 1
# How often a guest is booted that does not come to its first suite: a busy machine can break the kernel's own start.
BOOTS = 2

CAUGHT = "caught"
SURVIVED = "SURVIVED"
NOT_BUILT = "NOT BUILT"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, and the explanation behind it."""

    verdict: str
    detail: str


class Run:
    """All mutants of a list, each in one of the slots."""

    def __init__(self, mutants: list[Mutant], listed: Catalogue, options: argparse.Namespace) -> None:
        self.mutants = mutants
        self.listed = listed
        self.logs: Path = options.logs
        self.patterns = logscan.read_patterns(TESTS / "log-patterns")
        self.stop = threading.Event()
        self.slots = [Slot(options.work / str(number), self.stop) for number in range(SLOTS)]
        self.outcomes: list[Outcome] = []
        self._printing = threading.Lock()

    def baseline(self) -> list[str]:
        """Builds all slots and runs the suites of the first, which must pass. Returns the cases in order."""
        print(f"building {SLOTS} copies and running the suites without a mutant", flush=True)
        for slot in self.slots:
            slot.fill()
        log = self.logs / "baseline"
        with ThreadPoolExecutor(SLOTS) as pool:
            first = pool.submit(self._run_whole, log)
            for slot in self.slots[1:]:
                slot.leave_out(self.listed.left_out)
            build = (log / "build.log", "tests/mutants/slot.sh", "build")
            others = [pool.submit(slot.run, *build) for slot in self.slots[1:]]
            self._await([first, *others])
        if any(other.result() != 0 for other in others):
            raise SystemExit(f"mutants: the tree does not build; see {log}/build.log")
        return first.result()

    def _run_whole(self, log: Path) -> list[str]:
        slot = self.slots[0]
        status = slot.run(log / "kunit.log", "tests/kunit.sh")
        lines = (log / "kunit.log").read_text(encoding="utf-8", errors="replace").splitlines() or ["no output"]
        console = slot.folder / "build/run/kunit/console.log"
        if status != 0 or not lines[-1].endswith(" 0 failed"):
            raise SystemExit(f"mutants: the suites fail without a mutant ({lines[-1]}); see {log}/kunit.log")
        shutil.copy(console, log / "console.log")
        reading = Reading(self.patterns, [])
        for line in console.read_text(encoding="utf-8", errors="replace").splitlines():
            reading.feed(line)
        if not reading.ended:
            raise SystemExit(f"mutants: no case can be read from {log}/console.log")
        print(f"without a mutant: {lines[-1]}", flush=True)
        slot.leave_out(self.listed.left_out)
        gone = self.listed.suites_left_out(PROJECT)
        return [case for case in reading.ended if case.split("/", 1)[0] not in gone]

    def all(self, order: list[str]) -> None:
        """Runs each mutant as soon as a slot is free."""
        free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for slot in self.slots:
            free.put(slot)

        def work(number: int, mutant: Mutant) -> None:
            slot = free.get()
            try:
                self._one(number, mutant, slot, order)
            finally:
                free.put(slot)

        with ThreadPoolExecutor(SLOTS) as pool:
            self._await([pool.submit(work, number, mutant) for number, mutant in enumerate(self.mutants, 1)])

    def _await(self, futures: list[Future]) -> None:
        """Waits for all; the first that fails, or an interrupt, ends the others."""
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            self.stop.set()
            raise

    def _one(self, number: int, mutant: Mutant, slot: Slot, order: list[str]) -> None:
        if self.stop.is_set():
            raise Stopped
        started = time.monotonic()
        outcome = self._outcome(mutant, self.logs / f"{number:02}", slot, order)
        seconds = int(time.monotonic() - started)
        with self._printing:
            self.outcomes.append(outcome)
            place = f"{number:>2}/{len(self.mutants)}"
            print(f"{outcome.verdict:<9} {place} {mutant.name}  ({outcome.detail})  {seconds}s", flush=True)

    def _outcome(self, mutant: Mutant, logs: Path, slot: Slot, order: list[str]) -> Outcome:
        logs.mkdir(parents=True, exist_ok=True)
        (logs / "mutant.txt").write_text(describe(mutant), encoding="utf-8")
        if not slot.build(mutant, logs / "build.log"):
            return Outcome(NOT_BUILT, f"see {logs}/build.log")
        for _ in range(BOOTS):
            reading = Reading(self.patterns, order)
            slot.boot(logs, reading, self.listed, mutant)
            if reading.has_begun():
                break
        counted = noticing(reading.findings, self.listed, mutant)
        if counted:
            return Outcome(CAUGHT, told(counted, len(reading.findings)))
        return Outcome(SURVIVED, "; ".join([*why_not(reading, mutant), f"see {logs}"]))


def told(counted: list[Finding], findings: int) -> str:
    """The first case that counts, and how many noticed besides."""
    first = counted[0]
    how = "" if first.how == FAILED else f": {first.how}"
    more = f", +{findings - 1} more" if findings > 1 else ""
    return f"{first.case}{how}{more}"


def why_not(reading: Reading, mutant: Mutant) -> list[str]:
    """What there was, though nothing that counts."""
    reasons = [f"{mutant.case} does not notice"] if mutant.case else ["no case notices that is meant to"]
    if reading.findings:
        reasons.append("noticed by " + ", ".join(f"{finding.case}: {finding.how}" for finding in reading.findings))
    if reading.strays:
        reasons.append(f"in no case: {reading.strays[0]}")
    return reasons


def describe(mutant: Mutant) -> str:
    return f"{mutant.name}\n{mutant.why}\n\n{mutant.file}\n--- old\n{mutant.old}\n--- new\n{mutant.new}\n"


def main(argv: list[str]) -> int:
    """Nothing is built unless every entry fits the tree."""
    options = _options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: ended by a signal"))
    listed = catalogue.read(catalogue.LIST)
    stale = listed.stale(PROJECT)
    if stale:
        print("tests/mutants/list does not fit the tree:", *(f"    {line}" for line in stale), sep="\n")
        return 2
    mutants = [mutant for mutant in listed.mutants if options.only.search(f"{mutant.name} {mutant.file}")]
    if not mutants:
        print(f"no mutant's name or file matches {options.only.pattern!r}")
        return 2
    started = time.monotonic()
    shutil.rmtree(options.logs, ignore_errors=True)
    print(f"{len(mutants)} mutants (logs: {options.logs}/NUMBER)", flush=True)
    run = Run(mutants, listed, options)
    try:
        run.all(run.baseline())
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    return conclude(run.outcomes, int(time.monotonic() - started))


def conclude(outcomes: list[Outcome], seconds: int) -> int:
    """Prints the last line; the exit status of the run."""
    count = Counter(outcome.verdict for outcome in outcomes)
    not_built = f", {count[NOT_BUILT]} not built" if count[NOT_BUILT] else ""
    print(f"\nin {seconds // 60}m{seconds % 60:02}s\n{count[CAUGHT]} caught, {count[SURVIVED]} survived{not_built}")
    return 0 if count[CAUGHT] == len(outcomes) else 1


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="Says which case notices which mutant.")
    parser.add_argument("--work", type=Path, required=True, help="where the copies of the tree go; emptied")
    parser.add_argument("--logs", type=Path, required=True, help="where the logs go; emptied")
    only = "only mutants whose name or file matches"
    parser.add_argument("--only", type=re.compile, default="", metavar="REGEX", help=only)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
