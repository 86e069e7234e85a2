#!/usr/bin/env python3
"""scripts/sum-tests.py: failed tests, tests that failed only beside others, and the last line."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.environ["WEFT_SOURCE"], "scripts", "sum-tests.py")


def junit(*tests):
    """A file as ctest writes it, of tests: (name, whether it passed, what it said)."""
    cases = "".join(f'<testcase name="{name}" time="0.5" status="{"run" if passed else "fail"}">'
                    f"<system-out>{said}</system-out></testcase>" for name, passed, said in tests)
    return f'<?xml version="1.0"?><testsuite name="t">{cases}</testsuite>'


class SumTests(unittest.TestCase):
    def sum(self, files, *arguments):
        with tempfile.TemporaryDirectory(prefix="weft-test-sum-") as directory:
            for name, text in files.items():
                (pathlib.Path(directory) / name).write_text(text)
            done = subprocess.run([sys.executable, SCRIPT, *arguments, directory], capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout

    def test_all_pass(self):
        status, said = self.sum({"release.xml": junit(("a", True, ""), ("b", True, ""))})
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed"))

    def test_one_that_fails_alone_too_has_failed(self):
        status, said = self.sum({"release.xml": junit(("a", True, ""), ("b", False, "late by 3 s")),
                                 "release.alone": junit(("b", False, "late"))})
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("FAILED release: b after 0.5 s; late by 3 s", said)

    def test_one_that_passes_alone_is_named(self):
        status, said = self.sum({"release.xml": junit(("a", True, ""), ("b", False, "late by 3 s")),
                                 "release.alone": junit(("b", True, ""))})
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed"))
        self.assertIn("UNSTEADY release: b after 0.5 s, and passed alone", said)
        self.assertIn("UNSTEADY release: b after 0.5 s; late by 3 s", said)

    def test_what_a_sanitizer_says_is_no_matter_of_load(self):
        for report in ("==7==ERROR: AddressSanitizer: 678 byte(s) leaked", "WARNING: ThreadSanitizer: data race",
                       "a.c:3:1: runtime error: shift", "==7== ERROR SUMMARY: 2 errors from 1 contexts"):
            status, said = self.sum({"asan.xml": junit(("a", True, ""), ("b", False, report)),
                                     "asan.alone": junit(("b", True, ""))})
            self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed"), report)

    def test_threads_that_a_failed_assertion_leaves_race_with_what_follows(self):
        failed = "[  ERROR   ] --- 0x1 != 0\n[   LINE   ] --- /a/b.c:27: error: Failure!\n"
        race = "WARNING: ThreadSanitizer: data race\nThreadSanitizer: reported 1 warnings\n"
        for said, last in ((failed + race, "2 passed, 0 failed"), (race + failed, "1 passed, 1 failed")):
            status, summary = self.sum({"tsan.xml": junit(("a", True, ""), ("b", False, said)),
                                        "tsan.alone": junit(("b", True, ""))})
            self.assertEqual((status, summary.splitlines()[-1]), (int("1 failed" in last), last), said)
            self.assertIn("b after 0.5 s; 0x1 != 0 at /a/b.c:27", summary)

    def test_a_leak_after_a_failure_with_a_message_is_no_finding(self):
        said = "ERROR: rank 1 is late\n[  ERROR   ] --- [   LINE   ] --- /a/b.c:27: error: Failure!\n"
        status, summary = self.sum({"asan.xml": junit(("a", True, ""), ("b", False, said + "LeakSanitizer: 168 bytes")),
                                    "asan.alone": junit(("b", True, ""))})
        self.assertEqual((status, summary.splitlines()[-1]), (0, "2 passed, 0 failed"))
        self.assertIn("b after 0.5 s; rank 1 is late at /a/b.c:27", summary)

    def test_what_is_left_behind_is_a_failure_named_near_the_end(self):
        status, said = self.sum({"release.xml": junit(("a", True, "")), "release.left": "file /tmp/x\nprocess 7: y\n",
                                 "asan.xml": junit(("a", True, "")), "asan.left": ""})
        self.assertEqual((status, said.splitlines()[-1]), (1, "2 passed, 1 failed"))
        self.assertIn("FAILED release: left behind: file /tmp/x; process 7: y", said.splitlines()[-6:])

    def test_a_build_that_fails_is_shown_with_its_errors(self):
        status, said = self.sum({"release.xml": junit(("a", True, "")), "asan.broken": "a.c:7:2: error: no\n"})
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("FAILED asan: did not reach its tests: a.c:7:2: error: no", said.splitlines()[-6:])

    def test_another_stage_s_run_alone_counts_for_nothing(self):
        status, said = self.sum({"asan.xml": junit(("b", False, "")), "release.xml": junit(("b", True, "")),
                                 "release.alone": junit(("b", True, ""))})
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed"))

    def test_failures_are_counted(self):
        with tempfile.TemporaryDirectory(prefix="weft-test-sum-") as directory:
            path = pathlib.Path(directory) / "release.xml"
            path.write_text(junit(("a", True, ""), ("b", False, ""), ("c", False, "")))
            done = subprocess.run([sys.executable, SCRIPT, "--failures", path], capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stdout, "2\n")


unittest.main()
