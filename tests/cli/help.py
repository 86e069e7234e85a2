#!/usr/bin/env python3
"""Help and manual page list every command and every option."""
import json
import re
import unittest

import tool

COMMANDS = ["elastic", "compare", "plan", "report", "serve", "info", "doctor", "env", "help"]


class Help(tool.ToolTest):
    def options(self, command):
        rows = json.loads(self.passes("info", "--json"))["options"]
        return [row for row in rows if row["command"] == command]

    def test_overview_names_every_command_and_exit_status(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            text = self.passes(*arguments)
            for command in COMMANDS:
                self.assertRegex(text, rf"(?m)^  {command} +\w")
            for status in (0, 1, 2, 3, 4, 5, 124, 128):
                self.assertRegex(text, rf"(?m)^ +{status}  \w")

    def test_help_and_version_are_found_where_they_are_looked_for(self):
        self.assertEqual(self.passes("version"), self.passes("--version"))
        for word in ("-h", "--help"):
            self.assertEqual(self.passes(word, "elastic"), self.passes("elastic", "--help"))

    def test_a_family_of_commands_explains_itself(self):
        for family, members in (("bench", ["transfer", "ep", "limits"]), ("slurm", ["run", "cancel"])):
            text = self.passes(family, "--help")
            for member in members:
                self.assertRegex(text, rf"(?m)^  weft {family} {member}: \w")
            self.assertNotIn("await", text)
            for words in ((family, "-h"), ("help", family), ("--help", family)):
                self.assertEqual(text, self.passes(*words))
            self.refused(2, f"weft {family}: want one of its commands", family)

    def test_commands_for_machines_are_not_shown(self):
        self.assertNotRegex(self.passes("--help"), r"(?m)^  rank ")
        self.assertNotIn("weft rank", self.passes("help", "--man"))

    def test_each_command_explains_every_option_and_gives_examples(self):
        for command in COMMANDS:
            text = self.passes(command, "--help")
            self.assertEqual(text, self.passes("help", command))
            self.assertEqual(text, self.passes(command, "-h"))
            self.assertIn(f"Usage: weft {command}", text)
            self.assertRegex(text, r"(?s)\nExamples:\n  .*weft ")
            for row in self.options(command):
                for name in filter(None, (row["option"], row["alias"], row["variable"])):
                    self.assertRegex(text, rf"(?<![\w-]){re.escape(name)}(?![\w-])")
                for word in (row["default"] or "").split() if row["default"] != "no" else []:
                    self.assertIn(word, text)

    def test_help_fits_100_columns(self):
        for command in COMMANDS:
            for line in self.passes(command, "--help").splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_the_option_names_that_scripts_use_are_there(self):
        names = {name for row in self.options("elastic") for name in (row["option"], row["alias"])}
        for name in ("plan num-processes num-agents store etcd-server rank-server tcp-server listen store-port token "
                     "token-file ca cert key user password job num-tokens num-experts-per-rank hidden-dim num-topk "
                     "dtype layout timeout-ms startup-timeout iterations warmup seed validate-phase-failures negative "
                     "run-dir json quiet").split():
            self.assertIn("--" + name, names)

    def test_presets_are_right_values(self):
        """An option that does not exist is found only after the presets are set."""
        for command in COMMANDS:
            self.refused(2, f"weft {command}: unknown option --no-such-thing", command, "--no-such-thing")

    def test_manual_page_has_every_command_and_option(self):
        page = self.passes("help", "--man").replace("\\-", "-")
        self.assertTrue(page.startswith(".TH WEFT 1"))
        for section in ("NAME", "SYNOPSIS", "COMMANDS", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"):
            self.assertRegex(page, rf"(?m)^\.SH {section}$")
        for command in COMMANDS:
            self.assertIn(f".SS weft {command}\n", page)
            for row in self.options(command):
                self.assertIn(row["option"], page)

    def test_version(self):
        self.assertRegex(self.passes("--version"), r"^weft \d+\.\d+\.\d+\n$")
        self.assertEqual(self.passes("-V"), self.passes("--version"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
