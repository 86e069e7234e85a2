#!/usr/bin/env python3
"""weft p2p measures files, and objects where the environment names an S3 server (s3_swift.py)."""
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import unittest

import tool
from p2p_sides import TOKEN, running

HAS_SERVER = "AWS_ENDPOINT_URL" in os.environ
KEPT = b"what was there before"


def measured(text):
    said = json.loads(text)
    return said, [(one["operation"], one["bytes"], one["checked"], one["transport"]) for one in said["results"]]


@unittest.skipIf(HAS_SERVER, "this run is for objects")
class Files(tool.ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "trial")

    def has_it_open(self, process):
        for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(link).startswith(str(self.path.resolve())):
                    return True
        return False

    def file(self, *arguments):
        return ("p2p", "--memory", "file", "--path", self.path, "-n", 5, *arguments)

    def test_writes_and_reads_are_measured_and_checked(self):
        said, ran = measured(self.passes(*self.file("-s", "1,4096,100001", "--depth", 3, "--json")))
        self.assertEqual(ran, [(op, size, True, "file") for op in ("write", "read") for size in (1, 4096, 100001)])
        self.assertEqual((said["initiator_memory"], said["target_memory"]), ("host", "file"))
        self.assertEqual({one["at_once"] for one in said["results"]}, {3})
        self.assertFalse(self.path.exists())  # it was made for this

    def test_one_operation(self):
        for op in ("write", "read"):
            _, ran = measured(self.passes(*self.file("-s", "8", "--op", op, "--json")))
            self.assertEqual(ran, [(op, 8, True, "file")])

    def test_a_file_that_is_there_is_left_alone(self):
        self.path.write_bytes(KEPT)
        said = self.refused(1, "exists already", *self.file("-s", "8"))
        self.assertIn("--overwrite", said)
        self.passes(*self.file("-s", "4", "--depth", 5, "--op", "read", "--no-check"))
        self.assertEqual(self.path.read_bytes(), KEPT)
        self.passes(*self.file("-s", "8", "--depth", 3, "--overwrite"))
        self.assertEqual(self.path.stat().st_size, max(len(KEPT), 24))

    def test_an_interrupted_run_leaves_no_file(self):
        with running(*self.file("-s", "8,64MB", "--depth", 1, "-n", 20000, "--op", "write", "--csv")[1:]) as process:
            self.assertTrue(process.stdout.readline())  # the header comes with the first row
            self.assertTrue(self.has_it_open(process))
            self.assertFalse(self.path.exists())  # whatever ends it
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual((process.returncode, errors), (130, "weft p2p: interrupted by SIGINT\n"))

    def test_faults_are_reported(self):
        self.refused(4, "0 of 1 pieces", *self.file("--transport", "fault:1:short=100:file"))
        self.refused(124, "", *self.file("--transport", "fault:1:stick=100:file", "--timeout-ms", 50))
        with running(*self.file("--transport", "fault:1:stick=100:file", "--timeout-ms", 600000)[1:]) as process:
            while not self.has_it_open(process):  # it watches for signals since before
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual((process.returncode, errors), (130, "weft p2p: interrupted by SIGINT\n"))

    def test_what_is_not_there_cannot_be_read(self):
        self.refused(3, "cannot open", *self.file("--op", "read", "--no-check"))
        self.refused(3, "cannot make the file", "p2p", "--memory", "file", "--path", self.path / "deeper")

    def test_a_run_without_a_row_replaces_the_file_of_an_earlier_one(self):
        before, prometheus = "what an earlier run wrote\n", self.path.with_suffix(".prom")
        prometheus.write_text(before)
        self.refused(2, "bucket/key", "p2p", "--memory", "object", "--path", "no_key", "--prometheus", prometheus)
        self.assertEqual(prometheus.read_text(), before)  # nothing ran
        self.refused(3, "cannot open", *self.file("--op", "read", "--no-check", "--prometheus", prometheus))
        self.assertIn('weft_bench_passed{kind="p2p"} 0\n', prometheus.read_text())

    def test_contradictions(self):
        self.refused(2, "--path FILE", "p2p", "--memory", "file")
        self.refused(2, "--path BUCKET/KEY", "p2p", "--memory", "object")
        self.refused(2, "--path", "p2p", "--path", "a")
        self.refused(2, "--overwrite", "p2p", "--overwrite")
        for mode in ("target", "initiator"):
            self.refused(2, f"--memory file and --mode {mode}", *self.file("--mode", mode), **TOKEN)
        self.refused(2, "--memory file and --op notify", *self.file("--op", "notify"))
        self.refused(2, "--memory file and --bidirectional", *self.file("--bidirectional"))


@unittest.skipIf(HAS_SERVER, "this run is for objects")
class NoServer(tool.ToolTest):
    def test_the_reason_is_reported_also_when_the_time_is_up(self):
        for timeout_ms in (200, 30000):  # shorter than all attempts take, and longer
            result = tool.weft("p2p", "--memory", "object", "--path", "bucket/key", "--timeout-ms", timeout_ms,
                               AWS_ENDPOINT_URL_S3="http://127.0.0.1:9", NO_PROXY="127.0.0.1")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("bucket/key: http://127.0.0.1:9: ", result.stderr)
            self.assertIn("Connection refused", result.stderr)


@unittest.skipUnless(HAS_SERVER, "no S3 server is named")
class Objects(tool.ToolTest):
    def objects(self, key, *arguments):
        return ("p2p", "--memory", "object", "--path", f"bucket/{key}", "-n", 2, "--warmup", 0, "--depth", 2,
                *arguments)

    def test_writes_and_reads_are_measured_and_checked(self):
        said, ran = measured(self.passes(*self.objects("trial", "-s", "8,100001", "--json")))
        self.assertEqual(ran, [(op, size, True, "object") for op in ("write", "read") for size in (8, 100001)])
        self.assertEqual(said["target_memory"], "object")
        self.assertEqual({one["at_once"] for one in said["results"]}, {2})
        for key in ("trial", "trial.1"):  # they stay
            self.refused(1, f"the object bucket/{key} exists already", *self.objects(key, "-s", "8"))
            _, ran = measured(self.passes(*self.objects(key, "-s", "8", "--op", "read", "--no-check", "--json")))
            self.assertEqual(ran, [("read", 8, False, "object")])
        self.passes(*self.objects("trial", "-s", "8", "--overwrite", "--op", "write"))

    def test_what_is_not_there_cannot_be_read(self):
        self.refused(1, "NoSuchKey", *self.objects("none", "-s", "8", "--op", "read", "--no-check"))
        self.refused(2, "bucket/key", "p2p", "--memory", "object", "--path", "no_key")


if __name__ == "__main__":
    unittest.main()
