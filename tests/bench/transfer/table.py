#!/usr/bin/env python3
"""What scrapers read of weft bench transfer, launch lines of nixlbench, and our own documents."""
import csv
import io
import json
import re
import tempfile
import unittest

import bench
import tool

SECRETS = ("AKTHEKEY", "THESECRETKEY", "THESESSION")


class Table(bench.BenchTest):
    def test_ten_columns_as_scrapers_read_them(self):
        said = self.bench(*bench.SMALL, "--max_batch_size", 2)
        header, rows = bench.table(said)
        self.assertEqual(header, "".join(f"{name:<{20 if i == 0 else 15}}" for i, name in enumerate(bench.HEADER)))
        self.assertEqual([row[:2] for row in rows], [[4096, 1], [4096, 2], [8192, 1], [8192, 2]])
        self.assertEqual({len(row) for row in rows}, {10})
        line = next(line for line in said.splitlines() if re.match(r"4096 +1 ", line))
        self.assertRegex(line, r"^4096 {16}1 {14}\d+\.\d{6} +(\d+\.\d +){7}$")
        self.assertEqual(len(line), 20 + 9 * 15)

    def test_the_defaults_are_those_of_nixlbench(self):
        said = bench.settings(self.bench(*bench.SMALL))
        wanted = {"benchmark_group": "default", "runtime_type": "ETCD", "worker_type": "nixl", "scheme": "pairwise",
                  "mode": "SG", "op_type": "WRITE", "check_consistency": "0", "total_buffer_size": "8589934592",
                  "start_batch_size": "1", "max_batch_size": "1", "pipeline_depth": "1", "large_blk_iter_ftr": "16",
                  "num_threads": "1", "num_files": "1", "gds_batch_pool_size": "32", "gds_batch_limit": "128",
                  "gds_mt_num_threads": "1", "device_list": "all", "asio_address": "127.0.0.1", "asio_port": "12345",
                  "randomize_location_mode": "none", "posix_api_type": "AIO", "posix_ios_pool_size": "65536",
                  "posix_kernel_queue_size": "256", "obj_scheme": "http", "obj_region": "eu-central-1",
                  "obj_req_checksum": "supported", "obj_crt_min_limit": "0", "use_device_api": "0",
                  "initiator_seg_type": "DRAM", "target_seg_type": "DRAM", "num_initiator_dev": "1"}
        self.assertEqual({name: said.get(name) for name in wanted}, wanted)
        text = tool.weft("bench", "transfer", "--help").stdout
        for name, value in (("backend", "UCX"), ("start-block-size", "4096"), ("max-block-size", "67108864"),
                            ("num-iter", "1000"), ("warmup-iter", "100")):
            self.assertRegex(text, rf"(?s)--{name} .*?default: {value}[;\]]")

    def test_launch_lines(self):
        ways = (("-backend", "SHM", "-max_block_size", "4096", "-num_iter", "48", "-warmup_iter", "16",
                 "-check_consistency"),
                ("--backend=SHM", "--max-block-size=4096", "--num-iter=48", "--warmup-iter=16",
                 "--check_consistency=true"),
                ("-backend=SHM", "--max_block_size", "4096", "-num_iter=48", "--warmup_iter", "16",
                 "-check_consistency", "1"))
        for line in ways:
            _, rows = bench.table(self.bench(*line))
            self.assertEqual([row[0] for row in rows], [4096])

    def test_iterations_are_rounded_up_and_that_is_said(self):
        result = tool.weft("bench", "transfer", "--backend", "SHM", "--max_block_size", 4096)
        self.assertIn("--num_iter is rounded up from 1000 to 1008", result.stderr)
        self.assertIn("--warmup_iter is rounded up from 100 to 112", result.stderr)
        said = self.figures("--backend", "SHM", "--start_block_size", 1 << 20, "--max_block_size", 2 << 20,
                            "--num_iter", 64, "--num_threads", 2, "--warmup_iter", 0, statuses=(0, 1))
        counts = [next(one["count"] for one in row["figures"] if one["name"] == "latency") for row in said["rows"]]
        self.assertEqual(counts, [64, 4])  # beyond 1 MiB a sixteenth of them

    def test_secrets_are_not_shown(self):
        for more in ((), ("--json", "-")):
            result = tool.weft("bench", "transfer", *bench.SMALL, "-obj_access_key", SECRETS[0],
                               f"--obj_secret_key={SECRETS[1]}", "--obj_session_token", SECRETS[2], *more)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("***", result.stdout)
            for secret in SECRETS:
                self.assertNotIn(secret, result.stdout + result.stderr)

    def test_back_ends_and_repeats_by_turns(self):
        said = self.figures(*bench.SMALL[2:], "--backend", "SHM,AUTO", "--repeat", 2)
        order = [(row["keys"]["bytes"], row["run"], row["keys"]["backend"]) for row in said["rows"]]
        self.assertEqual(order, [(size, run, name) for size in (4096, 8192) for run in (0, 1)
                                 for name in ("SHM", "AUTO")])
        self.assertEqual({row["keys"]["transport"] for row in said["rows"]}, {"shm"})  # it says which one carried

    def test_documents(self):
        said = self.figures(*bench.SMALL, "--op_type", "READ")
        self.assertEqual((said["weft_figures"], said["kind"], said["complete"], said["passed"]),
                         (1, "transfer", True, True))
        for row in said["rows"]:
            self.assertEqual({name: row["keys"][name] for name in ("op", "scheme", "threads", "depth", "batch")},
                             {"op": "READ", "scheme": "pairwise", "threads": 1, "depth": 1, "batch": 1})
            self.assertEqual((row["keys"]["initiator_memory"], row["keys"]["target_memory"]), ("host", "host"))
            found = {one["name"]: one for one in row["figures"]}
            self.assertLessEqual({"latency", "prep", "post", "transfer", "bandwidth", "messages", "cpu"}, set(found))
            latency = found["latency"]
            self.assertEqual((latency["count"], len(latency["samples"]), latency["unit"]), (48, 48, "us"))
            self.assertTrue(latency["min"] <= latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p999"]
                            <= latency["max"])
            self.assertEqual(found["bandwidth"]["unit"], "GB/s")
            self.assertAlmostEqual(found["bandwidth"]["value"] * 1e9,
                                   found["messages"]["value"] * row["keys"]["bytes"],
                                   delta=found["bandwidth"]["value"] * 1e7)
        lines = list(csv.DictReader(io.StringIO(self.bench(*bench.SMALL, "--csv", "-"))))
        self.assertEqual([line["bytes"] for line in lines], ["4096", "8192"])

    def test_columns_agree_with_each_other(self):
        """By every scheme: the time of a block is that of an initiator's, and a message is what goes to one target."""
        block, files = 1 << 20, tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        for initiators, line in ((1, ("--scheme", "onetomany", "--num_target_dev", 3)),
                                 (1, ("--scheme", "tp", "--num_target_dev", 2, "--start_batch_size", 2,
                                      "--max_batch_size", 2)),
                                 (2, ("--scheme", "manytoone", "--num_initiator_dev", 2)),
                                 (1, ("--mode", "MG", "--num_initiator_dev", 2, "--num_target_dev", 2)),
                                 (1, ("--backend", "POSIX", "--filepath", files.name, "--num_initiator_dev", 4))):
            line = (*bench.SMALL[:2], "--start_block_size", block, "--max_block_size", block, *bench.SMALL[6:], *line)
            for _, _, rate, each_us, *_ in bench.table(self.bench(*line, statuses=(0, bench.HELD_UP)))[1]:
                if rate > 0:  # which has six digits behind the point, and the time has one
                    self.assertAlmostEqual(rate * 1e3 * each_us, initiators * block,
                                           delta=rate * 1e3 * 0.051 + each_us * 1e3 * 0.51e-6, msg=line)
            for row in self.figures(*line, statuses=(0, bench.HELD_UP))["rows"]:
                found = {one["name"]: one["value"] for one in row["figures"]}
                if row["refused"]:
                    self.assertEqual((found["bandwidth"], found["messages"]), (None, None))
                    continue
                self.assertAlmostEqual(found["bandwidth"] * 1e9, found["messages"] * block * row["keys"]["batch"],
                                       delta=found["bandwidth"] * 1e5, msg=line)

    def test_our_own_table_stands_below(self):
        said = self.bench(*bench.SMALL)
        own = said[said.rindex("-" * 160):]
        for word in ("p50", "p95", "p99", "p99.9", "max", "messages", "bandwidth", "Bounds:"):
            self.assertIn(word, own)
        self.assertEqual(json.loads(json.dumps(bench.table(said)[1]))[0][0], 4096)


if __name__ == "__main__":
    unittest.main()
