#!/usr/bin/env python3
"""weft bench limits as a command: what it stores, and how other commands use it."""
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import tool

WITH_FAKE_GPUS = {"WEFT_CUDA_PLUGIN": os.environ["FAKE_DEVICE"], "FAKE_PCI": "0000:01:00.0,0000:02:00.0"}


class Limits(tool.ToolTest):
    @classmethod
    def setUpClass(cls):
        """Measures once, for the tests that need something kept."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prepared = pathlib.Path(folder.name) / "cache"
        tool.weft("bench", "limits", "--seconds", 1, XDG_CACHE_HOME=str(cls.prepared))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.cache = {"XDG_CACHE_HOME": str(pathlib.Path(self.folder.name) / "cache")}

    def kept(self):
        return list(pathlib.Path(self.folder.name).glob("cache/weft/limits-*.json"))

    def measure(self, *arguments, **more):
        text = self.passes("bench", "limits", "--seconds", 1, "--json", *arguments, **{**self.cache, **more})
        said = json.loads(text)
        return said, {row["keys"]["name"]: row for row in said["rows"]}

    def have_measured(self):
        shutil.copytree(self.prepared, self.cache["XDG_CACHE_HOME"])

    def claim(self, kind, gbps):
        """Makes the kept file say that all of a kind is so fast."""
        [path] = self.kept()
        document = json.loads(path.read_text())
        for entry in document["entries"]:
            if entry["kind"] == kind:
                entry["gbps"] = gbps
        path.write_text(json.dumps(document))

    def test_it_is_measured_once_and_kept(self):
        said, rows = self.measure()
        self.assertEqual((said["kind"], said["complete"], said["passed"]), ("limits", True, True))
        self.assertIn("host copy by 1", rows)
        self.assertIn("loopback tcp", rows)
        self.assertTrue(all(row["figures"][0]["value"] > 0 for row in rows.values()))
        self.assertEqual({bound["name"] for bound in said["bounds"]}, set(rows))
        self.assertEqual(len(self.kept()), 1)
        self.assertNotIn("machine", said["settings"]["hardware"])
        shown = json.loads(self.passes("bench", "limits", "--show", "--json", **self.cache))
        self.assertEqual([row["keys"] for row in shown["rows"] if row["keys"]["kind"] != "nic"],
                         [row["keys"] for row in said["rows"] if row["keys"]["kind"] != "nic"])
        text = self.passes("bench", "limits", "--show", **self.cache)
        self.assertIn("measured at 20", text.splitlines()[-1])
        self.assertIn("removed", self.passes("bench", "limits", "--forget", **self.cache))
        self.assertEqual(self.kept(), [])
        self.assertIn("no results are kept", self.passes("bench", "limits", "--forget", **self.cache))
        text = self.passes("bench", "limits", "--show", **self.cache)
        self.assertIn("as the hardware describes itself", text.splitlines()[-1])

    def test_gpus_are_measured(self):
        _, rows = self.measure(**WITH_FAKE_GPUS)
        kinds = [row["keys"]["kind"] for row in rows.values()]
        self.assertEqual((kinds.count("gpu memory"), kinds.count("gpu host"), kinds.count("gpu link")), (2, 2, 2))

    def test_where_nothing_can_be_kept_it_is_said(self):
        nowhere = {"XDG_CACHE_HOME": "/proc/nowhere"}
        result = tool.weft("bench", "limits", "--seconds", 1, **nowhere)
        self.assertEqual(result.returncode, 0)
        self.assertIn("weft bench limits: warning: the results cannot be kept: cannot make the folder /proc/nowhere",
                      result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "measured now, and not kept")

    def test_rates_stand_beside_their_bound(self):
        self.have_measured()
        self.claim("copy", 1000)
        [row] = json.loads(self.passes("p2p", "--op", "write", "-s", "1MB", "--json", **self.cache))["results"]
        self.assertEqual(row["bound_gb_per_second"], 1000)
        self.assertAlmostEqual(row["bound_percent"], row["gb_per_second"] / 10, places=4)
        self.assertIs(row["bound"]["measured"], True)
        lines = self.passes("p2p", "--op", "write", "-s", "1MB", **self.cache).splitlines()
        self.assertRegex(lines[2], r" (<0.1|[\d.]+)%  ok    shm$")
        self.assertRegex(lines[3], r"^bound: \w+ copy by 1, 1000 GB/s: measured, ")

    def test_a_shared_bound_is_that_of_both_directions(self):
        self.have_measured()
        self.claim("copy", 1000)
        figures = pathlib.Path(self.folder.name) / "p2p.prom"
        [row] = json.loads(self.passes("p2p", "--op", "write", "-s", "1MB", "--bidirectional", "--json", "--prometheus",
                                       figures, **self.cache))["results"]
        sum_of_both = row["gb_per_second"] + row["peer_gb_per_second"]
        self.assertAlmostEqual(row["bound_percent"], sum_of_both / 10, places=3)
        shown = {line.split("{")[0]: float(line.split()[-1]) for line in figures.read_text().splitlines()
                 if line.startswith("weft_bench")}
        self.assertEqual(shown["weft_bench_both_bandwidth_bound_bytes_per_second"], 1e12)
        self.assertAlmostEqual(shown["weft_bench_both_bandwidth_bytes_per_second"] / 1e9, sum_of_both, places=2)
        self.assertNotIn("weft_bench_bandwidth_bound_bytes_per_second", shown)
        self.assertNotIn("weft_bench_peer_bandwidth_bound_bytes_per_second", shown)

    def test_a_rate_above_its_bound_is_refused(self):
        self.have_measured()
        self.claim("copy", 0.001)
        arguments = ("p2p", "--op", "write", "-s", "1MB", "-n", 200)
        result = tool.weft(*arguments, "--json", **self.cache)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rates were refused", result.stderr)
        [row] = json.loads(result.stdout)["results"]
        self.assertIn("above the bound of", row["refused"])
        self.assertEqual({"gb_per_second", "per_second"} & set(row), set())
        self.assertGreater(row["latency_p50_us"], 0)
        result = tool.weft(*arguments, **self.cache)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^refused: .* is above the bound of")
        result = tool.weft(*arguments, "--csv", **self.cache)
        self.assertIn('"', result.stdout.splitlines()[1])

    def test_the_name_of_a_bound_is_one_value_of_csv(self):
        self.have_measured()
        self.claim("copy", 1000)
        [path] = self.kept()
        document = json.loads(path.read_text())
        for entry in document["entries"]:
            entry["name"] = 'disk read /a,b "c"'  # as of a folder
        path.write_text(json.dumps(document))
        said = self.passes("p2p", "--op", "write", "-s", "1MB", "--csv", **self.cache)
        [row] = csv.DictReader(said.splitlines())
        self.assertEqual((row["bound"], row["bound_gb_per_second"]), ('disk read /a,b "c"', "1000"))

    def test_a_pattern_has_its_bound_also_alone(self):
        self.have_measured()
        matrix = pathlib.Path(self.folder.name) / "matrix.txt"
        matrix.write_text("0 4K\n8K 0\n")
        arguments = ("bench", "traffic", "--matrix", matrix, "-n", 4, "--alone", 3, "--json", "-")
        for gbps, status in ((1000, 0), (1e-6, 1)):
            self.claim("copy", gbps)
            result = tool.weft(*arguments, **self.cache)
            self.assertEqual(result.returncode, status, result.stderr)
            row = json.loads(result.stdout)["rows"][0]
            bounds = {figure["name"]: (figure["bound"], figure["bound_name"] != "") for figure in row["figures"]}
            self.assertEqual((bounds["bandwidth"], bounds["alone_bandwidth"]), ((gbps, True), (gbps, True)))
            self.assertEqual(bounds["pair_bandwidth"], (None, False))
            self.assertEqual("is above the bound of" in row["refused"], status == 1)

    def test_a_run_says_its_bound(self):
        self.have_measured()
        self.claim("copy", 1000)
        plan = pathlib.Path(self.folder.name) / "plan.json"
        plan.write_text("[[0, 1]]")
        runs = pathlib.Path(self.folder.name) / "runs"
        result = tool.weft("elastic", "--plan", plan, "--num-processes", 2, "--num-tokens", 16, "--hidden-dim", 1024,
                           "--iterations", 5, "--memory", "host", "--run-dir", runs, "--json", "--quiet", **self.cache)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(result.stdout)
        bound = said["config"]["bound"]
        self.assertEqual((bound["gb_per_second"], bound["measured"], bound["of"]), (1000, True, "host"))
        [results] = runs.rglob("results.json")
        self.assertRegex(self.passes("report", results),
                         r"(?m)^bound +\w+ copy by \d+, 1000 GB/s \(measured\); the ranks of ")

    def test_a_file_of_other_hardware_is_not_used(self):
        self.have_measured()
        [path] = self.kept()
        path.write_text(path.read_text().replace('"memory_gib": ', '"memory_gib": 9'))
        text = self.passes("bench", "limits", "--show", **self.cache)
        self.assertIn("they are of other hardware: memory_gib was 9", text.splitlines()[-1])
        [row] = json.loads(self.passes("p2p", "--op", "write", "-s", "1MB", "--json", **self.cache))["results"]
        self.assertIs(row["bound"]["measured"], False)
        self.assertNotIn("bound_percent", row)

    def test_bad_input(self):
        self.refused(2, "--show and --forget", "bench", "limits", "--show", "--forget", **self.cache)
        self.refused(2, "there is no such folder", "bench", "limits", "/no/where", **self.cache)
        self.refused(2, "--seconds", "bench", "limits", "--seconds", 0, **self.cache)

    def test_a_signal_keeps_nothing(self):
        with subprocess.Popen([tool.WEFT, "bench", "limits", "--seconds", "600"], env=tool.environment(**self.cache),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            # It watches for signals from its first thread on.
            while process.poll() is None and len(list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())) < 2:
                pass
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual((process.returncode, out), (130, ""), errors)
        self.assertIn("none was kept", errors)
        self.assertEqual(self.kept(), [])


if __name__ == "__main__":
    unittest.main()
