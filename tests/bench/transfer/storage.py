#!/usr/bin/env python3
"""weft bench transfer with files, and with objects where the environment names an S3 server (s3_swift.py)."""
import contextlib
import http.server
import json
import math
import os
import pathlib
import tempfile
import threading
import unittest

import bench
import tool

HAS_SERVER = "AWS_ENDPOINT_URL" in os.environ
SMALL = ("--start_block_size", 4096, "--max_block_size", 8192, "--num_iter", 48, "--warmup_iter", 16,
         "--check_consistency")
CACHED = (0, 1)  # a file system in memory has no other speed, and its rows are refused


@unittest.skipIf(HAS_SERVER, "this run is for objects")
class Files(bench.BenchTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, *arguments):
        for op in ("WRITE", "READ"):
            said = self.figures("--backend", "POSIX", "--filepath", self.folder, *SMALL, "--op_type", op, *arguments,
                                statuses=CACHED)
            self.assertEqual([(row["keys"]["transport"], row["keys"]["initiator_memory"], row["keys"]["target_memory"])
                              for row in said["rows"]], [("file", "host", "file")] * 2)
        return said

    def test_files_are_made_checked_and_removed(self):
        self.check()
        self.check("--num_files", 3, "--max_batch_size", 1, "--pipeline_depth", 4, "--num_threads", 2)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_whatever_ends_it_leaves_no_file(self):
        with bench.running("--backend", "POSIX", "--filepath", self.folder, "--start_block_size", 4096,
                           "--max_block_size", 8192, "--num_iter", 10000000) as process:
            self.assertIn("Block Size", next(line for line in process.stdout if line.startswith("Block Size")))
            process.kill()
            process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_random_places(self):
        for mode in ("blockaligned", "bytealigned"):
            self.check("--randomize_location_mode", mode, "--total_buffer_size", 1 << 20, "--pipeline_depth", 3)
        self.check("--randomize_location_mode", "blockaligned", "--total_buffer_size", 1 << 20, "--reregister_mem")

    def test_named_files_stay(self):
        self.check("--filenames", "a,b", "--num_files", 2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a", "b"])
        self.wrong(2, "want the same number", "--backend", "POSIX", "--filepath", self.folder, "--filenames", "a,b",
                   "--num_files", 3, *SMALL)
        self.wrong(2, "are one file", "--backend", "POSIX", "--filepath", self.folder, "--filenames", "a,./a", *SMALL)

    def test_a_spoilt_byte_is_found(self):
        for op in ("WRITE", "READ"):
            result = tool.weft("bench", "transfer", "--backend", "POSIX", "--filepath", self.folder, *SMALL,
                               "--op_type", op, "--transport", "fault:1:spoil=100:file")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("1 of 4096 bytes of a block", result.stderr)

    def test_what_the_page_cache_served_is_refused(self):
        said = self.figures("--backend", "POSIX", "--filepath", self.folder, "--start_block_size", 1000,
                            "--max_block_size", 1000, *SMALL[4:], "--op_type", "READ", statuses=(1,))
        self.assertIn("page cache", said["rows"][0]["refused"])
        self.assertFalse(said["passed"])
        values = {one["name"]: one["value"] for one in said["rows"][0]["figures"]}
        self.assertEqual((values["bandwidth"], values["messages"]), (None, None))
        self.assertGreater(values["latency"], 0)

    def test_scripts_get_no_figure_that_was_refused(self):
        said = self.bench("--backend", "POSIX", "--filepath", self.folder, "--start_block_size", 1000,
                          "--max_block_size", 1000, *SMALL[4:], "--op_type", "READ", statuses=(1,))
        rows = bench.table(said)[1]
        self.assertEqual([row[:2] for row in rows], [[1000, 1]])
        self.assertTrue(all(math.isnan(figure) for figure in rows[0][2:]), rows)
        [own, why] = said[said.rindex("-" * 160):].split("refused: ")
        self.assertRegex(own, r"(?m)^ +1000 .* - +- ", own)
        self.assertIn("page cache", why)
        saved = self.folder / "table"
        saved.write_text(said)
        compared = tool.weft("compare", saved, saved)
        self.assertIn("its figures are nan: the benchmark refused them", compared.stdout + compared.stderr)

    def test_a_run_without_a_row_replaces_the_files_of_an_earlier_one(self):
        files = {kind: self.folder / kind for kind in ("json", "csv", "prometheus")}
        outputs = [word for kind, path in files.items() for word in (f"--{kind}", path)]
        for path in files.values():
            path.write_text("what an earlier run wrote\n")
        self.wrong(2, "want the same number", "--backend", "POSIX", "--filepath", self.folder, "--filenames", "a,b",
                   "--num_files", 3, *SMALL, *outputs)
        for path in files.values():
            self.assertEqual(path.read_text(), "what an earlier run wrote\n")  # nothing ran
        for says, line in (("cannot open the file", ("--backend", "POSIX", "--filepath", self.folder / "none", *SMALL)),
                           ("127.0.0.1:9", (*bench.SMALL, "--store", "http://127.0.0.1:9", "--local_workers", 2))):
            for path in files.values():
                path.write_text("what an earlier run wrote\n")
            result = tool.weft("bench", "transfer", *line, *outputs, **bench.TOKEN)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn(says, json.loads(files["json"].read_text())["error"])
            self.assertEqual(files["csv"].read_text(), "")
            self.assertIn('weft_bench_passed{kind="transfer"} 0\n', files["prometheus"].read_text())

    def test_what_cannot_be(self):
        self.wrong(3, "cannot open the file", "--backend", "POSIX", "--filepath", self.folder / "none", *SMALL)
        if os.path.isdir("/dev/shm"):
            self.wrong(3, "--storage_enable_direct", "--backend", "POSIX", "--filepath", "/dev/shm",
                       "--storage_enable_direct", *SMALL)
        self.wrong(3, "needs a GPU", "--backend", "GDS", "--initiator_seg_type", "VRAM", "--filepath", self.folder,
                   *SMALL, WEFT_CUDA_PLUGIN="/nonexistent/libweft_cuda.so.0")


class Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses every request, and keeps its headers."""

    def do_PUT(self):
        self.server.seen.append(self.headers)
        self.send_error(403)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def refusing_server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@unittest.skipIf(HAS_SERVER, "this run is for objects")
class Client(bench.BenchTest):
    ELSEWHERE = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9", "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                 "AWS_ACCESS_KEY_ID": "key-of-environment", "AWS_SECRET_ACCESS_KEY": "secret-of-environment",
                 "AWS_SESSION_TOKEN": "token-of-environment", "NO_PROXY": "127.0.0.1"}

    def first_request(self, *arguments):
        """The headers of the first request that reaches the server of --obj_endpoint_override."""
        with refusing_server() as server:
            result = tool.weft("bench", "transfer", "--backend", "OBJ", "--obj_bucket_name", "bucket",
                               "--obj_endpoint_override", f"127.0.0.1:{server.server_port}", *SMALL, *arguments,
                               **self.ELSEWHERE)
            self.assertNotEqual(result.returncode, 0)
            self.assertTrue(server.seen, result.stderr)
            return server.seen[0]

    def test_options_go_before_the_environment(self):
        headers = self.first_request("--obj_access_key", "given-key", "--obj_secret_key", "given-secret")
        self.assertIn("Credential=given-key/", headers["Authorization"])
        self.assertNotIn("x-amz-security-token", headers)  # it belongs to the environment's key
        headers = self.first_request("--obj_access_key", "given-key", "--obj_secret_key", "given-secret",
                                     "--obj_session_token", "given-token")
        self.assertEqual(headers["x-amz-security-token"], "given-token")

    def test_without_options_the_environment_has_the_keys(self):
        headers = self.first_request("--obj_req_checksum", "required")
        self.assertIn("Credential=key-of-environment/", headers["Authorization"])
        self.assertEqual(headers["x-amz-security-token"], "token-of-environment")
        # No checksums, as the help says.
        self.assertEqual(headers["x-amz-content-sha256"], "UNSIGNED-PAYLOAD")
        self.assertFalse([name for name in headers if "checksum" in name.lower() or name.lower() == "content-md5"])
        self.assertRegex(tool.weft("bench", "transfer", "--help").stdout,
                         r"(?s)--obj-req-checksum WHEN\s+accepted: Weft\s+sends\s+no\s+checksums")


@unittest.skipUnless(HAS_SERVER, "no S3 server is named")
class Objects(bench.BenchTest):
    def test_objects_are_checked(self):
        for op in ("WRITE", "READ"):
            said = self.figures("--backend", "OBJ", "--obj_bucket_name", "bucket", "--obj_region",
                                os.environ.get("AWS_REGION", "us-east-1"), "--start_block_size", 4096,
                                "--max_block_size", 4096, "--num_iter", 16, "--warmup_iter", 0, "--check_consistency",
                                "--pipeline_depth", 2, "--op_type", op)
            self.assertEqual([(row["keys"]["transport"], row["keys"]["target_memory"]) for row in said["rows"]],
                             [("object", "object")])


if __name__ == "__main__":
    unittest.main()
