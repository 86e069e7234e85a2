#!/usr/bin/env python3
"""weft report prints a results.json as text, JSON and CSV, and refuses files that are no results."""
import csv
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import tool


def times(avg):
    return {"count": 20, "avg": avg, "min": avg / 2, "p50": avg, "p99": avg * 2, "max": avg * 3}


def rank_results(rank, state):
    return {"rank": rank, "local_rank": rank, "gpu": None, "gpu_name": "", "window_bytes": 1000,
            "host": "host-a", "incarnation": f"{rank + 1:016x}", "state": state,
            "reason": "calc_diff was 0.5" if state == "failed" else "", "checked": 6, "num_lost_selections": 0,
            "worst_diff": 1e-6, "both": times(300.0), "dispatch": times(100.0), "combine": times(200.0),
            "dispatch_logical_bytes": 2e6, "dispatch_wire_bytes": 1e6, "combine_logical_bytes": 2e6,
            "combine_wire_bytes": 1e6, "dispatch_rows": [2560, 1280, 0] if state == "passed" else []}


def results():
    states = [["passed", "passed", "not_member"], ["passed", "failed", "passed"]]
    phases = [{"index": index, "begin_s": index / 2, "end_s": None if index else 0.5,
               "ranks": [rank_results(rank, state) for rank, state in enumerate(phase)]}
              for index, phase in enumerate(states)]
    joined = {"phase": 1, "change": "join", "rank": 2, "epoch": 2, "op": 40, "time_s": 0.75,
              "launch_us": 900.0, "connect_us": 1500.0,
              "first_dispatch_us": 2500.0, "longest_stall_us": 700.0, "stalled_rank": 0, "median_us": 300.0,
              "membership_stall_us": 450.0, "membership_rank": 1, "membership_median_us": 310.0,
              "detect_us": None, "detect_median_us": None}
    return {"weft_results": 1, "run": "5f0c3e1a-9b7d-4c52-8e64-2a1b0c9d8e7f", "job": "elastic", "version": "0.1.0",
            "started": "2026-11-20T12:00:00Z", "elapsed_s": 1.5, "store": "embedded, http://127.0.0.1:1",
            "config": {"num_tokens": 128, "hidden": 7168, "topk": 8, "experts_per_rank": 2, "dtype": "bf16"},
            "plan": [[0, 1], [0, 1, 2]], "passed": False, "exit_status": 4, "error": "", "phases": phases,
            "processors": [{"host": "host-a", "usable": 2, "ranks": 3}],
            "transitions": [joined]}


class Report(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.file = self.folder / "results.json"
        self.file.write_text(json.dumps(results()), encoding="utf-8")

    def test_the_directory_of_runs_names_the_newest_run(self):
        runs = self.folder / "weft-run"
        for name in ("20261128-235959-b", "20261129-000001-a", "20261129-000002-c"):
            (runs / name).mkdir(parents=True)
            if not name.endswith("c"):  # that one has not ended
                (runs / name / "results.json").write_text(self.file.read_text(encoding="utf-8"), encoding="utf-8")
        for given in (f"{runs}", f"{runs}/"):
            self.refused(3, f"no results.json; want one in it, such as {runs}/20261129-000001-a\n", "report", given)

    def test_text_tells_what_failed(self):
        text = self.passes("report", self.folder)
        self.assertIn("host-a", text)
        self.assertIn("calc_diff was 0.5", text)
        self.assertIn("3 ranks on 2 usable processors of host-a", text)
        self.assertIn("without joiners' own work the longest stall was 450.0 us, of rank 1, 1.5x its median", text)
        self.assertNotIn("\033[", text)
        self.assertEqual(text, self.passes("report", "--run-dir", self.file))

    def test_json_is_what_was_read(self):
        self.assertEqual(json.loads(self.passes("report", self.folder, "--format", "json")), results())

    def test_csv_has_a_row_for_each_phase_and_rank(self):
        rows = list(csv.DictReader(io.StringIO(self.passes("report", self.folder, "-f", "csv"))))
        self.assertEqual([(row["phase"], row["rank"], row["state"]) for row in rows],
                         [(str(phase["index"]), str(rank["rank"]), rank["state"])
                          for phase in results()["phases"] for rank in phase["ranks"]])

    def test_colour_and_characters_are_as_asked_for(self):
        coloured = self.passes("report", self.folder, "--color", "always")
        self.assertIn("\033[", coloured)
        self.assertIn("\033[", self.passes("report", self.folder, "--color=always", NO_COLOR="1"))
        self.assertFalse(self.passes("report", self.folder).isascii())
        self.assertTrue(self.passes("report", self.folder, LC_ALL="C").isascii())

    def test_colour_needs_a_terminal_that_shows_it(self):
        # On a pseudo-terminal: coloured, but not with NO_COLOR or a dumb one.
        cases = [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
        for more, expected in cases:
            self.assertEqual(b"\033[" in self.on_terminal(more, "report", self.folder), expected, more)

    def on_terminal(self, more, *arguments):
        try:
            ours, theirs = os.openpty()
        except OSError as error:  # a root without devpts
            self.skipTest(f"no pseudo-terminal here: {error}")
        process = subprocess.Popen([tool.WEFT, *map(str, arguments)], env=tool.environment(**more), stdout=theirs,
                                        stdin=subprocess.DEVNULL)
        os.close(theirs)
        output = b""
        try:
            while part := os.read(ours, 65536):
                output += part
        except OSError:  # how Linux says that the other side is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(tool.TIMEOUT_S), 0)
        return output

    def test_what_is_no_run_directory_is_refused(self):
        missing = self.folder / "missing"
        self.refused(3, f"cannot read the run directory {missing}: No such file", "report", missing)
        self.file.unlink()
        self.refused(3, f"{self.folder} is not the directory of a run", "report", self.folder)

    def test_what_is_no_result_is_refused(self):
        self.file.write_text("{", encoding="utf-8")
        self.refused(2, str(self.file), "report", self.folder)
        wrong = results()
        del wrong["phases"][1]["ranks"][0]["state"]
        self.file.write_text(json.dumps(wrong), encoding="utf-8")
        self.refused(2, "phases[1].ranks[0].state", "report", self.folder)
        self.file.write_text(json.dumps(results() | {"weft_results": 99}), encoding="utf-8")
        self.refused(2, "99", "report", self.folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
