#!/usr/bin/env python3
"""A command that reaches the limit of file sizes says so, and does not die by a signal."""
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

import tool

PLAN = str(tool.SOURCE / "plans/single_expansion.json")
SMALL = ["--hidden-dim", "128", "--num-tokens", "8", "--iterations", "3", "--num-experts-per-rank", "1", "--quiet"]
SAYS = "File too large (raise the limit of file sizes, ulimit -f)"


def limited(size, *arguments, output=subprocess.PIPE, **more):
    """Runs the tool, whose files may have so many bytes."""
    return subprocess.run([tool.WEFT, *arguments], env=tool.environment(), stdin=subprocess.DEVNULL, stdout=output,
                          stderr=subprocess.PIPE, text=True, timeout=tool.TIMEOUT_S, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), **more)


class FileSize(tool.ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def says(self, result, *words):
        self.assertEqual(result.returncode, 3, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_output(self):
        for arguments in (["version"], ["--help"], ["help", "--man"], ["plan", PLAN], ["plan", PLAN, "--json"],
                          ["env"]):
            with open(self.folder / "output", "w") as output:
                self.says(limited(0, *arguments, output=output), "cannot write", SAYS)

    def test_a_report(self):
        run = str(self.folder / "run")
        self.assertEqual(limited(-1, "elastic", PLAN, *SMALL, "--run-dir", run).returncode, 0)
        for form in ("text", "json", "csv"):
            with open(self.folder / "output", "w") as output:
                self.says(limited(4096 if form == "json" else 0, "report", run, "--format", form, output=output),
                          "cannot write", SAYS)

    def test_a_token(self):
        self.says(limited(0, "serve", "--port", "0", "--write-token", str(self.folder / "token")), "token", SAYS)
        self.assertFalse((self.folder / "token").exists())

    def test_the_first_files_of_a_run(self):
        self.says(limited(0, "elastic", PLAN, *SMALL, cwd=self.folder), "host.json", "--run-dir", SAYS)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_windows_of_ranks(self):
        """They are files, too, as far as the kernel is concerned."""
        self.says(limited(65536, "elastic", PLAN, "--quiet", cwd=self.folder), "rank ", "cannot make a window", SAYS)

    def test_the_results_of_a_run(self):
        """Every window is smaller than the results, of which nothing is left but the message."""
        run = self.folder / "run"
        result = limited(-1, "elastic", PLAN, *SMALL, "--run-dir", str(run))
        self.assertEqual(result.returncode, 0, result.stderr)
        size = os.path.getsize(run / "results.json")
        self.assertGreater(size, 16384)
        again = self.folder / "again"
        self.says(limited(size - 4096, "elastic", PLAN, *SMALL, "--run-dir", str(again)), str(again), SAYS)
        self.assertEqual([path.name for path in again.iterdir() if "results" in path.name], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
