# SPDX-License-Identifier: GPL-2.0
"""A copy of the tree, in which one mutant after the other is built and booted."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .catalogue import KUNIT, PROJECT, Catalogue, Mutant
from .console import HUNG, Finding, Reading

# Seconds for a guest: as long as tests/kunit.sh gives it.
LIMIT = 180
# Seconds without a word of the guest's console after which it hangs: a failing case may wait for 10 s several times.
SILENCE = 50
# Seconds that a guest goes on after a case has noticed, to see who else does.
AFTERMATH = 1
POLL = 0.3


class Stopped(Exception):
    """The whole run is to end."""


class Slot:
    """Own sources and own build folder, so that only the crate is built anew for each mutant."""

    def __init__(self, folder: Path, stop: threading.Event) -> None:
        self.folder = folder
        self._stop = stop

    def fill(self) -> None:
        """Copies the tree as it is now; what an earlier run left must not be taken for up to date."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in _tree_files():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target)

    def leave_out(self, modules: list[str]) -> None:
        """Takes modules of KUnit cases out of the copy."""
        path = self.folder / KUNIT
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        gone = {f"mod {module};\n" for module in modules}
        path.write_text("".join(line for line in lines if line not in gone), encoding="utf-8")

    def run(self, log: Path, *command: str) -> int:
        """Runs a script of the copy to its end; its exit status."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out, self._start(out, *command) as process:
            while process.poll() is None:
                self._wait(process)
            return process.returncode

    def build(self, mutant: Mutant, log: Path) -> bool:
        """Builds the copy with the mutant in it, and takes it out again; false if it does not build."""
        path = self.folder / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(whole), encoding="utf-8")
        try:
            return self.run(log, "tests/mutants/slot.sh", "build") == 0
        finally:
            path.write_text(whole, encoding="utf-8")

    def boot(self, logs: Path, reading: Reading, catalogue: Catalogue, mutant: Mutant) -> None:
        """Boots what was built and reads along, until it is known which case notices or the guest ends."""
        run = logs / "guest"
        with (logs / "qemu.log").open("ab") as out:
            with self._start(out, "tests/mutants/slot.sh", "boot", str(run), str(LIMIT)) as process:
                self._follow(process, run / "console.log", reading, catalogue, mutant)
        # It stays where the script was cut off.
        (run / "initramfs").unlink(missing_ok=True)

    def _follow(
        self, process: subprocess.Popen[bytes], path: Path, reading: Reading, catalogue: Catalogue, mutant: Mutant
    ) -> None:
        console = Console(path)
        heard = time.monotonic()
        noticed = 0.0
        while True:
            has_ended = process.poll() is not None
            for line in console.lines():
                heard = time.monotonic()
                reading.feed(line)
            now = time.monotonic()
            if not noticed and noticing(reading.findings, catalogue, mutant):
                noticed = now
            if has_ended:
                return reading.end()
            if noticed and now - noticed > AFTERMATH:
                return _end(process)
            if now - heard > SILENCE:
                reading.blame(HUNG, "the guest hangs")
                return _end(process)
            self._wait(process)

    def _start(self, out, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self.folder / command[0]), *command[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        if self._stop.wait(POLL):
            _end(process)
            raise Stopped


class Console:
    """A file that grows, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = ""

    def lines(self) -> Iterator[str]:
        """The lines that have come since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except FileNotFoundError:
            return
        self._at += len(new)
        *whole, self._rest = (self._rest + new.decode("utf-8", errors="replace")).split("\n")
        yield from whole


def noticing(findings: list[Finding], catalogue: Catalogue, mutant: Mutant) -> list[Finding]:
    """The findings that count: no luck, and the case that has to notice, where one is named."""
    return [
        finding
        for finding in findings
        if not catalogue.is_luck(finding.case) and mutant.case in ("", finding.case)
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The scripts end what they have started when they are told to end."""
    process.terminate()
    process.wait()


def _tree_files() -> list[str]:
    """Committed or about to be, and still there."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]
