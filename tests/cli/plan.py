#!/usr/bin/env python3
"""weft plan accepts every classic plan, describes it, and refuses every malformed one with the place of the fault."""
import json
import pathlib
import tempfile
import unittest

import tool

MALFORMED = {
    "not JSON": "[[0, 1], [0",
    "not a list": '{"phases": [[0]]}',
    "an empty file": "",
    "an empty plan": "[]",
    "an empty phase": "[[0, 1], []]",
    "a phase that is no list": "[[0, 1], 2]",
    "a string": '[[0, "1"]]',
    "a boolean": "[[0, true]]",
    "a fraction": "[[0, 1.5]]",
    "null": "[[0, null]]",
    "a rank twice": "[[0, 1, 1]]",
    "a rank both ways": "[[0, 1], [0, 1, -1]]",
    "a kill of a rank that is not active": "[[0, 1], [0, 1, -2]]",
    "a kill in phase 0": "[[0, 1, -2]]",
    "a rank beyond the capacity": "[[0, 4096]]",
    "a number beyond all ranks": "[[0, 99999999999999999999]]",
    "something behind the plan": "[[0]] [[1]]",
}


class Plan(tool.ToolTest):
    def write(self, text):
        path = pathlib.Path(self.folder, "plan.json")
        path.write_text(text, encoding="utf-8")
        return path

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def test_every_classic_plan_is_described(self):
        plans = sorted((tool.SOURCE / "plans").glob("*.json"))
        self.assertGreaterEqual(len(plans), 5)
        for path in plans:
            phases = json.loads(path.read_text(encoding="utf-8"))
            needed = max(map(len, phases))
            text = self.passes("plan", path)
            self.assertGreaterEqual(len(text.splitlines()), len(phases) + 1)
            self.assertEqual(text, self.passes("plan", "--plan", path, "--num-processes", needed))
            described = json.loads(self.passes("plan", path, "--json"))
            self.assertEqual(len(described["phases"]), len(phases))
            self.refused(2, f"{needed - 1} process slots" if needed > 2 else "1 process slot", "plan", path,
                         "--num-processes", needed - 1)

    def test_every_malformed_plan_is_refused(self):
        for what, text in MALFORMED.items():
            path = self.write(text)
            with self.subTest(what):
                said = self.refused(2, f"weft plan: plan {path}: ", "plan", path)
                self.assertGreater(len(said), len(f"weft plan: plan {path}: \n"))

    def test_the_place_of_a_fault_is_reported(self):
        self.assertRegex(self.refused(2, "phase 1", "plan", self.write("[[0, 1], [0, 2, 2]]")), "2")
        self.refused(2, "line 2", "plan", self.write("[[0, 1],\n [0 1]]"))

    def test_a_file_that_cannot_be_read_is_named(self):
        missing = pathlib.Path(self.folder, "missing.json")
        self.refused(3, f"plan {missing}: cannot open it: No such file or directory", "plan", missing)
        self.refused(3, self.folder, "plan", self.folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
