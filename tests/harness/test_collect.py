# SPDX-License-Identifier: GPL-2.0
"""collect.py must report everything that is wrong with a run, and nothing else."""

from .fixture import GOOD_KTAP, LIST, RunTestCase, ktap

SUITE = "rdma_dmabuf_window"


class ResultsTest(RunTestCase):
    """KTAP files against the list."""

    def spoil(self, text: str) -> None:
        self.write(f"kunit/{SUITE}.ktap", text)

    def test_good_run_passes(self) -> None:
        self.assertGood(last="4 passed, 0 failed")

    def test_failed_case(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "# second: EXPECTATION FAILED at window.rs:7", "not ok 2 second", good=False, plan=2))
        self.assertReported(f"{SUITE}/second", why="EXPECTATION FAILED at window.rs:7")

    def test_failed_suite_of_good_cases(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 2 second", good=False))
        self.assertReported(f"{SUITE}/suite")

    def test_missing_suite(self) -> None:
        (self.folder / f"kunit/{SUITE}.ktap").unlink()
        self.assertReported(f"{SUITE}/first", why="missing", failures=2)

    def test_missing_folder(self) -> None:
        (self.folder / f"kunit/{SUITE}.ktap").unlink()
        (self.folder / "kunit").rmdir()
        self.assertReported("run/kunit", failures=3)

    def test_missing_case(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first"))
        self.assertReported(f"{SUITE}/second", why="missing")

    def test_unlisted_case(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 2 second", "ok 3 third"))
        self.assertReported(f"{SUITE}/third", why="not listed")

    def test_unlisted_suite(self) -> None:
        self.write("kunit/other.ktap", ktap("other", "ok 1 case"))
        self.assertReported("other/case", why="not listed")

    def test_case_twice_in_a_file(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 2 second", "ok 3 second"))
        self.assertReported(f"{SUITE}/second", why="more than once", failures=2)

    def test_suite_in_two_files(self) -> None:
        self.write("kunit/copy.ktap", GOOD_KTAP)
        self.assertReported(f"{SUITE}/first", why="reported 2 times", failures=2)

    def test_skip(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 2 second # SKIP no heap"))
        self.assertReported(f"{SUITE}/second", why="no heap")

    def test_allowed_skip(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 2 second # SKIP no heap"))
        self.write("expected.list", f"{SUITE}/first\n{SUITE}/second may-skip\n")
        self.assertGood(last="3 passed, 0 failed, 1 skipped")

    def test_allowed_skip_that_fails(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "not ok 2 second", good=False))
        self.write("expected.list", f"{SUITE}/first\n{SUITE}/second may-skip\n")
        self.assertReported(f"{SUITE}/second")

    def test_truncated_ktap(self) -> None:
        self.spoil("\n".join(GOOD_KTAP.splitlines()[:-2]) + "\n")
        self.assertReported(f"{SUITE}/ktap", why="missing", failures=3)

    def test_truncated_ktap_without_plan(self) -> None:
        self.spoil("\n".join(line for line in GOOD_KTAP.splitlines()[:-1] if "1..2" not in line) + "\n")
        self.assertReported(f"{SUITE}/ktap", why="missing subtest result line", failures=2)

    def test_ktap_without_plan(self) -> None:
        self.spoil("\n".join(line for line in GOOD_KTAP.splitlines() if "1..2" not in line) + "\n")
        self.assertGood(last="4 passed, 0 failed")

    def test_empty_ktap(self) -> None:
        self.spoil("")
        self.assertReported(f"{SUITE}/ktap", why="Could not find any KTAP output", failures=3)

    def test_ktap_with_no_cases(self) -> None:
        self.spoil(ktap(SUITE))
        self.assertReported(f"{SUITE}/ktap", failures=4)

    def test_wrong_number(self) -> None:
        self.spoil(ktap(SUITE, "ok 1 first", "ok 3 second"))
        self.assertReported(f"{SUITE}/ktap", why="Expected test number 2 but found 3")

    def test_failing_parameter_fails_its_case(self) -> None:
        inner = ["    KTAP version 1", "    # Subtest: second", "    ok 1 a", "    not ok 2 b", "not ok 2 second"]
        self.spoil(ktap(SUITE, "ok 1 first", *inner, good=False, plan=2))
        self.assertReported(f"{SUITE}/second")

    def test_list_of_nothing(self) -> None:
        self.write("expected.list", "")
        self.assertReported(f"{SUITE}/first", why="not listed", failures=2)

    def test_bad_list(self) -> None:
        for text in ("no_slash\n", "a/b sometimes\n", "a/b\na/b\n"):
            self.write("expected.list", text)
            with self.subTest(text), self.assertRaises(SystemExit):
                self.collect()

    def test_failed_step(self) -> None:
        self.assertReported("run/build", "--failed-step", "build")


class MoreListsTest(RunTestCase):
    """Several lists, and the same suites on another kernel."""

    def again(self, *results: str) -> tuple[str, str, str]:
        (self.folder / "again").mkdir()
        self.write(f"again/{SUITE}.ktap", ktap(SUITE, *results))
        return "--again", "plain", f"{self.folder}/again"

    def test_case_of_another_list(self) -> None:
        self.write("more.list", "other/case\n")
        self.assertReported("other/case", "--more", f"{self.folder}/more.list", why="missing")

    def test_suites_of_all_lists(self) -> None:
        self.write("more.list", "other/case\nlast/case\n")
        more = ("--more", f"{self.folder}/more.list", "--suites", SUITE)
        self.assertGood(*more, last="4 passed, 0 failed")
        self.assertReported("other/case", *more, "other", why="missing")

    def test_no_suite(self) -> None:
        """Where none is expected, those that report are not listed."""
        self.assertReported(f"{SUITE}/first", "--suites", why="not listed", failures=2)

    def test_suites_again(self) -> None:
        self.assertGood(*self.again("ok 1 first", "ok 2 second"), last="6 passed, 0 failed")

    def test_missing_case_again(self) -> None:
        self.assertReported(f"plain_{SUITE}/second", *self.again("ok 1 first"), why="missing")

    def test_failed_case_again(self) -> None:
        self.assertReported(f"plain_{SUITE}/second", *self.again("ok 1 first", "not ok 2 second"))


class GuestTest(RunTestCase):
    """How the guest ended, and what it logged."""

    def test_panicked(self) -> None:
        self.assertReported("guest/finishes", why="panicked", result="panicked")

    def test_timeout(self) -> None:
        self.assertReported("guest/finishes", why="timeout", result="timeout")

    def test_no_answer(self) -> None:
        self.assertReported("guest/finishes", result="")

    def test_job_failed(self) -> None:
        self.assertReported("guest/finishes", why="finished 1", result="finished 1")

    def test_crashed_with_all_cases_passed(self) -> None:
        self.write("console.log", "[    3.1] BUG: kernel NULL pointer dereference, address: 0\n[    3.1] Call Trace:\n")
        self.assertReported("guest/log_is_clean", why="NULL pointer", failures=2, result="panicked")

    def test_warning_in_the_log(self) -> None:
        self.write("console.log", "[    3.1] WARNING: rxe_mr.c:7 at rxe_mr_copy+0xf/0xf30 [rdma_rxe], CPU#1: kworker/3\n")
        self.assertReported("guest/log_is_clean", why="rxe_mr_copy")

    def test_no_log(self) -> None:
        self.assertReported("guest/log_is_clean", why="missing", console="none.log")

    def test_empty_log(self) -> None:
        self.write("console.log", "")
        self.assertReported("guest/log_is_clean", why="empty")


CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/host-0123456789abcdef)

running 2 tests
test window::empty ... ok
test window::whole - should panic ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests host

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


class CargoTest(RunTestCase):
    """The log of `cargo test`."""

    def cargo(self, text: str, status: str = "0") -> tuple[str, ...]:
        self.write("cargo.log", text)
        return ("--cargo", "host", status, f"{self.folder}/cargo.log")

    def test_each_cargo_test_counts(self) -> None:
        self.assertGood(*self.cargo(CARGO), last="6 passed, 0 failed")

    def test_failed_cargo_test(self) -> None:
        log = CARGO.replace("empty ... ok", "empty ... FAILED").replace("ok. 2 passed; 0 failed", "FAILED. 1 passed; 1 failed")
        self.assertReported("host/host::window::empty", *self.cargo(log, "101"))

    def test_cargo_that_does_not_build(self) -> None:
        self.assertReported("host/cargo", *self.cargo("error: could not compile `host`\n", "101"), why="101")

    def test_cargo_that_ends_badly(self) -> None:
        self.assertReported("host/cargo", *self.cargo(CARGO, "101"), why="101")

    def test_cargo_that_runs_nothing(self) -> None:
        self.assertReported("host/cargo", *self.cargo("test result: ok. 0 passed; 0 failed; 0 ignored;\n"), why="no test")

    def test_cargo_log_cut_short(self) -> None:
        self.assertReported("host/log", *self.cargo(CARGO.replace("test window::empty ... ok\n", "")), why="cargo counted 2")
