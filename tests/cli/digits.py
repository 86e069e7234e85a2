#!/usr/bin/env python3
"""Numbers of every JSON have six significant digits, or all before the point; counts are exact."""
import json
import os
import re
import tempfile
import unittest

import tool

PLAN = str(tool.SOURCE / "plans/single_expansion.json")
SMALL = ["--hidden-dim", "128", "--num-tokens", "8", "--iterations", "3", "--num-experts-per-rank", "1"]


class Digits(tool.ToolTest):
    def reals(self, text):
        """All of the document's, as they are written."""
        found = []
        json.loads(text, parse_float=found.append)
        for number in found:
            digits = re.sub(r"[eE].*", "", number).lstrip("-").replace(".", "")
            whole = number.endswith(".0")
            self.assertTrue(whole or len(digits.strip("0")) <= 6, number)
        return found

    def test_results_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            directory = os.path.join(folder, "run")
            result = tool.weft("elastic", PLAN, *SMALL, "--json", "--quiet", "--run-dir", directory)
            self.assertEqual(result.returncode, 0, result.stderr)
            text = result.stdout
            self.assertGreater(len(self.reals(text)), 100)
            with open(os.path.join(directory, "results.json")) as file:
                self.assertEqual(json.load(file), json.loads(text))
            self.assertEqual(self.passes("report", directory, "--format", "json"), text)

    def test_results_of_transfers(self):
        text = self.passes("p2p", "--buffer-sizes", "8,64KB", "--iterations", "10", "--json", "--quiet")
        self.assertGreater(len(self.reals(text)), 10)

    def test_what_has_no_measured_numbers(self):
        for arguments in (["info", "--json"], ["env", "--json"], ["plan", PLAN, "--json"]):
            self.reals(self.passes(*arguments))
        self.reals(tool.weft("doctor", "--json").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
