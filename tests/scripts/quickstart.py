#!/usr/bin/env python3
"""quickstart.sh explains itself without building, and passes a plan and options on to weft elastic."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
TOOL = "#!/bin/sh\nprintf '<%s>' \"$@\"\n"  # in the place of weft: shows its arguments


class Quickstart(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-quickstart ")  # a path with a blank
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        self.default = f"<elastic><--plan><{self.root}/plans/single_expansion.json>"
        shutil.copy(SOURCE / "quickstart.sh", self.root)
        self.program("scripts/install-deps.sh", "#!/bin/sh\n")
        self.program("build/tools/bin/cmake", "#!/bin/sh\ntouch built\n")
        self.program("build/release/weft", TOOL)

    def program(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
        path.chmod(0o755)

    def start(self, *arguments):
        run = subprocess.run([self.root / "quickstart.sh", *arguments], text=True, capture_output=True, timeout=60,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_help_builds_nothing(self):
        for option in ("--help", "-h"):
            self.assertTrue(self.start("-q", option).startswith("Usage: ./quickstart.sh [PLAN] [OPTION...]\n"))
        self.assertFalse((self.root / "built").exists())

    def test_a_plan_replaces_that_of_the_script(self):
        for arguments in (["--plan", "a b.json"], ["--plan=a.json", "-q"], ["-q", "-p", "a.json"], ["-pa.json"],
                          ["a b.json", "--iterations", "3"]):
            shown = "".join(f"<{one}>" for one in arguments)
            self.assertTrue(self.start(*arguments).endswith(f"\n<elastic>{shown}"), arguments)
        self.assertTrue((self.root / "built").exists())

    def test_without_a_plan_the_script_has_one(self):
        self.assertTrue(self.start().endswith(f"\n{self.default}"))
        self.assertTrue(self.start("--iterations", "3").endswith(f"\n{self.default}<--iterations><3>"))


if __name__ == "__main__":
    unittest.main()
