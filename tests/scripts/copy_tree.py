#!/usr/bin/env python3
"""scripts/copy-tree.sh: build results of the last copy are kept, and are older than each file that changed since."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.environ["WEFT_SOURCE"], "scripts", "copy-tree.sh")
LONG_AGO = 1_000_000_000


class CopyTree(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="weft-test-copy-")
        self.addCleanup(place.cleanup)
        self.tree, self.copied = (pathlib.Path(place.name, name) for name in ("tree", "copied"))
        self.tree.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.tree)], check=True)
        self.write(".gitignore", "build/\n")
        self.write("folder/same file.c", "same")
        self.write("changed.c", "before")
        self.write("removed.c", "")
        self.write("build/ignored", "")
        self.copy()

    def write(self, name, text):
        """As if it was written long ago."""
        file = self.tree / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="ascii")
        os.utime(file, (LONG_AGO, LONG_AGO))

    def copy(self):
        subprocess.run([SCRIPT, str(self.tree), str(self.copied)], check=True)

    def build(self):
        """Makes an object, newer than all that was copied by a second."""
        (self.copied / "build").mkdir()
        built = self.copied / "build" / "object"
        built.touch()
        for file in self.copied.rglob("*"):
            if file.is_file() and file != built:
                os.utime(file, (built.stat().st_mtime - 1,) * 2)
        return built

    def names(self):
        return sorted(str(file.relative_to(self.copied)) for file in self.copied.rglob("*") if file.is_file())

    def test_git_says_what_is_copied(self):
        self.assertEqual(self.names(), [".gitignore", "changed.c", "folder/same file.c", "removed.c"])

    def test_removed_files_are_not_copied(self):
        subprocess.run(["git", "-C", str(self.tree), "add", "--all"], check=True)
        (self.tree / "removed.c").unlink()
        self.copy()
        self.assertEqual(self.names(), [".gitignore", "changed.c", "folder/same file.c"])

    def test_what_changed_is_newer_than_what_was_built(self):
        built = self.build()
        self.write("changed.c", "after ")  # of the same size
        self.write("new.c", "new")
        self.copy()
        self.assertEqual((self.copied / "changed.c").read_text(encoding="ascii"), "after ")
        newer = [name for name in self.names() if (self.copied / name).stat().st_mtime_ns > built.stat().st_mtime_ns]
        self.assertEqual(newer, ["changed.c", "new.c"])
        self.assertTrue(built.exists())

    def test_what_did_not_change_stays_older(self):
        built = self.build()
        os.utime(self.tree / "changed.c")
        self.copy()
        newer = [name for name in self.names() if (self.copied / name).stat().st_mtime_ns > built.stat().st_mtime_ns]
        self.assertEqual(newer, [])


if __name__ == "__main__":
    if not shutil.which("git"):
        print("skipped: there is no git here")
        sys.exit(77)
    unittest.main()
