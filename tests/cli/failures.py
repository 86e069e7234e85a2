#!/usr/bin/env python3
"""A run that fails replaces the files of an earlier run, describes itself in them, and names every file that it could
not write beside its own reason; wrong options and outputs that cannot be opened leave those files as they are."""
import json
import pathlib
import socket
import subprocess
import tempfile
import unittest

import tool

OLD = "of an earlier run\n"
NOBODY = "http://127.0.0.1:1"  # where no store listens


class Failures(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "plan.json").write_text("[[0, 1]]")
        (self.folder / "matrix.txt").write_text("0 4K\n8K 0\n")
        for name in ("page.html", "figures.prom", "figures.json"):
            (self.folder / name).write_text(OLD)

    def run_here(self, *arguments, stdout=subprocess.PIPE, **more):
        return subprocess.run([tool.WEFT, *map(str, arguments)], cwd=self.folder, env=tool.environment(**more),
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
                              timeout=tool.TIMEOUT_S, check=False)

    def fails(self, status, *arguments, **more):
        result = self.run_here(*arguments, **more)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def read(self, name):
        return (self.folder / name).read_text()


class Elastic(Failures):
    FILES = ("--html", "page.html", "--prometheus", "figures.prom")

    def test_a_run_that_cannot_begin_replaces_the_files(self):
        result = self.fails(3, "elastic", "plan.json", "--run-dir", "/proc/run", *self.FILES, "--json")
        said = json.loads(result.stdout)
        self.assertEqual((said["passed"], said["exit_status"], said["plan"], said["phases"]), (False, 3, [[0, 1]], []))
        self.assertIn("cannot make the run directory /proc/run", said["error"])
        self.assertIn("cannot make the run directory /proc/run", self.read("page.html"))
        self.assertIn('weft_elastic_passed{job="elastic"} 0\n', self.read("figures.prom"))

    def test_without_json_it_prints_only_its_reason(self):
        self.assertEqual(self.fails(3, "elastic", "plan.json", "--run-dir", "/proc/run", *self.FILES).stdout, "")

    def test_wrong_options_leave_the_files(self):
        result = self.fails(2, "elastic", "plan.json", "--num-processes", 1, "--num-agents", 1, *self.FILES, "--json")
        self.assertEqual((result.stdout, self.read("page.html"), self.read("figures.prom")), ("", OLD, OLD))

    def test_a_follower_leaves_the_files_of_its_lead(self):
        self.fails(2, "elastic", "--rank-server", "127.0.0.1:1", "--token", "x", "--startup-timeout", 1, "--html",
                   "page.html")
        self.assertEqual(self.read("page.html"), OLD)


class Bench(Failures):
    COMMANDS = (("traffic", "--matrix", "matrix.txt", "--local", 2), ("ep", "--local-ranks", 2),
                ("transfer", "--backend", "SHM", "--local-workers", 2))

    def test_the_document_of_a_run_that_cannot_begin_has_its_settings_and_its_host(self):
        for name, *more in self.COMMANDS:
            with self.subTest(name):
                self.fails(3, "bench", name, *more, "--store", NOBODY, "--startup-timeout", 1, "--json", "figures.json")
                said = json.loads(self.read("figures.json"))
                self.assertEqual((said["hosts"], said["complete"], said["rows"]), ([socket.gethostname()], False, []))
                self.assertIn(NOBODY, said["error"])
                self.assertGreater(len(said["settings"]), 10)

    def test_a_file_that_cannot_be_written_is_named_beside_the_reason(self):
        for name, *more in self.COMMANDS:
            with self.subTest(name):
                said = self.fails(3, "bench", name, *more, "--store", NOBODY, "--startup-timeout", 1, "--json",
                                  "missing/figures.json", "--html", "page.html").stderr
                self.assertIn("missing/figures.json: cannot create it", said)
                self.assertIn("does not answer", said.splitlines()[-1])
                self.assertEqual(self.read("page.html"), OLD)

    def test_outputs_that_cannot_be_opened_leave_the_other_files(self):
        for name, *more in self.COMMANDS:
            with self.subTest(name):
                said = self.fails(3, "bench", name, *more, "--json", "missing/figures.json", "--html", "page.html",
                                  "--prometheus", "figures.prom").stderr
                self.assertEqual(said.count("missing/figures.json: cannot create it"), 1, said)
                self.assertEqual((self.read("page.html"), self.read("figures.prom")), (OLD, OLD))


class P2p(Failures):
    def test_the_reason_of_the_run_counts_and_an_output_that_fails_is_named_too(self):
        with socket.create_server(("127.0.0.1", 0)) as silent, open("/dev/full", "wb") as full:
            port = silent.getsockname()[1]
            result = self.fails(124, "p2p", "--mode", "initiator", "--port", port, "--token", "x", "--timeout-ms", 200,
                                "--json", "--html", "page.html", "--prometheus", "figures.prom", stdout=full)
        first, last = result.stderr.splitlines()
        self.assertIn("cannot write the results: No space left on device", first)
        self.assertNotIn("cannot write", last)
        self.assertIn(last.removeprefix("weft p2p: ")[:40], self.read("page.html"))
        self.assertNotIn("cannot write the results", self.read("page.html"))
        self.assertNotEqual(self.read("figures.prom"), OLD)


class Doctor(Failures):
    def test_findings_that_nobody_gets_are_named(self):
        with open("/dev/full", "wb") as full:
            for more in ((), ("--json",)):
                said = self.fails(3, "doctor", *more, stdout=full).stderr
                self.assertIn("weft doctor: cannot write the findings to standard output: No space left", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
