#!/usr/bin/env python3
"""The page of a batch of `weft slurm` in a headless Chromium: all runs with their phases, and links to their pages."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

import browser
import samples
import tool

HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
SCENARIO = """name = "two"
[[Tests]]
id = "sweep"
name = "sweep"
description = "a grid with iterations"
test_template_name = "NixlEP"
iterations = 2
[Tests.cmd_args]
docker_image_url = "none"
plan = "[[0, 1], [0, 1]]"
num_processes_per_node = 2
num_tokens = [4, 8]
[[Tests]]
id = "bad"
name = "bad"
description = "one that fails"
test_template_name = "NixlEP"
[Tests.cmd_args]
docker_image_url = "none"
plan = "[[0, 1], [0, 1]]"
num_processes_per_node = 2
"""


class Scenario(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        for name, text in (("sbatch", "echo 7"), ("squeue", "exit 0")):  # a Slurm that has forgotten all jobs
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (self.folder / name).chmod(0o755)
        self.path = f"{self.folder}:{os.environ['PATH']}"

    def batch(self):
        """Its directory: four runs of a grid that passed, one that failed by a hostile word, each with its results."""
        (self.folder / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
        self.passes("slurm", "run", self.folder / "scenario.toml", "--output-dir", self.folder, PATH=self.path)
        for i, run in enumerate(("sweep/step1/iteration1", "sweep/step1/iteration2", "sweep/step2/iteration1",
                                 "sweep/step2/iteration2", "bad")):
            results = samples.results(2, 2, 0)
            for rank in results["phases"][1]["ranks"]:
                rank["combine_logical_bytes"] *= 1 + i // 2
            if run == "bad":
                results["phases"][1]["ranks"][1].update(state="failed", reason=HOSTILE)
                results.update(passed=False, error=HOSTILE)
            (self.folder / "two" / run / "results.json").write_text(json.dumps(results), encoding="utf-8")
        return self.folder / "two"

    def cells(self, page, test):
        """Of a test's table, each the text of its cells."""
        return page.evaluate(f"""Array.from(document.querySelectorAll("section"))
            .find((section) => section.querySelector("h2") && section.querySelector("h2").textContent === "{test}")
            .querySelectorAll("tbody tr").length""")

    def test_runs_phases_and_links(self):
        batch = self.batch()
        self.passes("slurm", "report", batch, "--html", PATH=self.path)
        for width in (1600, 400):
            page = browser.Page(STARTED, batch / "report.html", width)
            self.addCleanup(page.close)
            self.assertEqual(page.complaints(), [])
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            self.assertEqual(page.evaluate("document.getElementById('verdict').textContent"), "4 of 5 runs passed")
            self.assertEqual((self.cells(page, "sweep"), self.cells(page, "bad")), (4, 1))
            links = page.evaluate("Array.from(document.querySelectorAll('td a'), (one) => one.getAttribute('href'))")
            self.assertEqual(len(links), 5)
            for link in links:
                self.assertTrue((batch / link).is_file(), link)
            phases = page.evaluate("""Array.from(document.querySelectorAll("td:nth-child(6)"), (cell) =>
                Array.from(cell.children, (mark) => mark.title).join())""")
            self.assertEqual(phases, ["phase 0: passed,phase 1: passed"] * 4 + ["phase 0: passed,phase 1: failed"])
            words = page.evaluate("document.body.textContent")
            self.assertIn("Best: step 2 (num_tokens=8), default ", words)
            self.assertIn("against the next best, step 1: ", words)
            self.assertIn(HOSTILE, words)
            self.assertFalse(page.evaluate("window.hit === 1 || document.querySelector('img') !== null"))


if __name__ == "__main__":
    PROGRAM = browser.require(tool.weft)
    if "no tomlplusplus" in tool.weft("slurm", "verify", tool.SOURCE / "tests/slurm/golden/system.toml").stderr:
        print("skipped: this build has no tomlplusplus")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="weft-test-", ignore_cleanup_errors=True) as profile:
        STARTED = browser.Browser(PROGRAM, profile)
        try:
            unittest.main()
        finally:
            STARTED.close()
