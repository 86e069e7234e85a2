#!/usr/bin/env python3
"""scripts/left_behind.py reports, ends and removes what tests have left, and touches nothing of other programs."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.environ["WEFT_SOURCE"], "scripts"))
import left_behind  # noqa: E402

NOBODY = 65534


class LeftBehind(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(self.enter(tempfile.TemporaryDirectory(prefix="weft-test-left-")))
        self.directory, self.shared, self.began = (self.place / name for name in ("tests", "shm", "began"))
        self.directory.mkdir()
        self.shared.mkdir()
        self.began.touch()
        left_behind.SHARED, left_behind.PATIENCE_S = self.shared, 5  # not the host's: other tests run beside this one

    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def expect(self, *left):
        """What it tells; each thing once."""
        self.assertEqual(self.told(), (1 if left else 0, sorted(left)))
        self.assertEqual(self.told(), (0, []))

    def told(self):
        said = io.StringIO()
        sys.argv = ["left_behind.py", str(self.directory), str(self.began)]
        with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as end:
            left_behind.main()
        return end.exception.code, sorted(said.getvalue().splitlines())

    def make(self, path):
        path.write_text("")
        return path

    def test_nothing_is_left(self):
        self.expect()

    def test_files_in_the_folder_of_the_tests(self):
        self.make(self.directory / "file")
        (self.directory / "folder" / "in it").mkdir(parents=True)
        self.expect(f"file {self.directory / 'file'}", f"file {self.directory / 'folder'}")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_shared_memory_of_weft_and_the_libraries_below_it(self):
        names = ("weft-1", "ucx_shm_posix_1", "fi_shm_1", "1000:42:0")
        self.expect(*(f"file {self.make(self.shared / name)}" for name in names))
        self.assertEqual(list(self.shared.iterdir()), [])

    def test_shared_memory_of_other_programs_stays(self):
        others = [self.make(self.shared / name) for name in ("libpod_lock", "libpod_rootless_lock_1000", "sem.other",
                                                             "PostgreSQL.1234", "a-weft", "1000:42:0.other")]
        self.expect()
        self.assertTrue(all(path.exists() for path in others))

    def test_what_was_there_before_stays(self):
        old = self.make(self.shared / "weft-old")
        os.utime(self.began, (old.stat().st_ctime + 1,) * 2)
        self.expect()
        self.assertTrue(old.exists())

    def test_what_somebody_has_open_stays(self):
        with open(self.make(self.shared / "weft-open"), "rb") as file:
            self.expect()
        self.expect(f"file {file.name}")

    @unittest.skipUnless(os.geteuid() == 0, "wants root, to give a file to another user")
    def test_what_is_another_users_stays(self):
        os.chown(self.make(self.shared / "weft-other"), NOBODY, NOBODY)
        self.expect()

    def start(self, *command, **environment):
        """Returns once the process shows its environment, which it does a moment after exec began."""
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while not left_behind.read(pathlib.Path(f"/proc/{process.pid}/environ")):
            self.assertLess(time.monotonic(), end, "the process shows no environment")
            time.sleep(0.01)
        return process

    def test_a_process_that_goes_on_is_ended(self):
        left_behind.PATIENCE_S = 0
        process = self.start("sleep", "300", TMPDIR=str(self.directory))
        other = self.start("sleep", "300", TMPDIR=str(self.place))
        self.expect(f"process {process.pid}: sleep 300")
        self.assertNotEqual(process.wait(60), 0)
        self.assertIsNone(other.poll())

    def test_a_process_has_time_to_end(self):
        left_behind.PATIENCE_S = 60
        process = self.start("cat", TMPDIR=str(self.directory))
        looks = []

        def look(mark, processes=left_behind.processes):
            looks.append(processes(mark))
            if len(looks) == 2 and process.poll() is None:
                process.communicate()  # it ends while it is waited for
            return looks[-1]
        with unittest.mock.patch.object(left_behind, "processes", look):
            self.assertEqual(self.told(), (0, []))
        self.assertIn(process.pid, looks[0])


if __name__ == "__main__":
    unittest.main()
