#!/usr/bin/env python3
"""weft bench traffic runs patterns between workers, keeps their gaps, checks their bytes, and says what went wrong."""
import csv
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

import tool

RING = "0 64K 1000 0\n0 0 64K 1000\n1000 0 0 64K\n64K 1000 0 0\n"
BACK = "0 4K\n8K 0\n"
FEW = ("-n", 4, "--alone", 3, "--warmup", 1)


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class TrafficTest(tool.ToolTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.write("ring.txt", RING)
        self.write("back.txt", BACK)

    def write(self, name, text):
        (self.at / name).write_text(text)
        return self.at / name

    def start(self, *arguments, **more):
        process = subprocess.Popen([tool.WEFT, "bench", "traffic", *map(str, arguments)], text=True,
                                   env=tool.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process, status):
        out, err = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def await_rows(self, process):
        """Waits until the workers measure, which they do when all have come and the files are there."""
        deadline = time.monotonic() + tool.TIMEOUT_S
        while not (self.at / "out.json").exists() or not (self.at / "out.json").read_text():
            self.assertIsNone(process.poll(), "it ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def load(self):
        return json.loads((self.at / "out.json").read_text())

    def run_json(self, *arguments, **more):
        said = json.loads(self.passes("bench", "traffic", *arguments, "--json", "-", **more))
        self.assertEqual((said["weft_figures"], said["kind"], said["complete"], said["passed"]),
                         (1, "traffic", True, True))
        return said


def figures(row):
    return {figure["name"]: figure for figure in row["figures"]}


def patterns(said):
    return [row for row in said["rows"] if "senders" in row["keys"]]


class Runs(TrafficTest):
    def test_two_workers(self):
        said = self.run_json("--matrix", self.at / "back.txt", *FEW, "--check")
        [row] = patterns(said)
        keys, found = row["keys"], figures(row)
        self.assertEqual((keys["pattern"], keys["op"], keys["senders"], keys["receivers"], keys["pairs"],
                          keys["bytes"], keys["memory"], keys["transport"]),
                         ("back.txt", "WRITE", 2, 2, 2, 12288, "host", "shm"))
        self.assertEqual((found["latency"]["count"], found["alone_latency"]["count"]), (4, 3))
        self.assertGreater(found["latency"]["min"], 0)
        self.assertAlmostEqual(found["bandwidth"]["value"] / (12288 / found["latency"]["value"] / 1e3), 1, places=4)
        self.assertRegex(row["slowest"], r"^worker [01] on .*, in \d of 4$")
        self.assertEqual(len(said["hosts"]), 2)

    def test_every_pair_and_worker_has_a_row(self):
        said = self.run_json("--matrix", self.at / "ring.txt", *FEW, "--isolate-pairs", "--op", "read", "--check")
        pairs = {(row["keys"]["from"], row["keys"]["to"]): row for row in said["rows"] if "from" in row["keys"]}
        workers = {row["keys"]["rank"]: row for row in said["rows"] if "rank" in row["keys"]}
        self.assertEqual(sorted(pairs), [(0, 1), (0, 2), (1, 2), (1, 3), (2, 0), (2, 3), (3, 0), (3, 1)])
        self.assertEqual(sorted(workers), [0, 1, 2, 3])
        for row in pairs.values():
            self.assertEqual(figures(row)["latency"]["count"], 4)
            self.assertEqual(figures(row)["alone_latency"]["count"], 3)
        self.assertEqual(workers[1]["keys"]["bytes"], 64 * 1024 + 1000)  # what it receives, as it reads

    def test_a_sequence_keeps_its_gaps(self):
        listed = self.write("list.yaml", "traffic_patterns:\n"
                            "- {matrix_file: ring.txt, shards: 3, sleep_before_launch_sec: 0.02, name: there}\n"
                            "- {matrix_file: back.txt, xfer_op: READ, sleep_after_launch_sec: 0.03,\n"
                            "   metadata: {isl: 1000}}\n")
        said = self.run_json(listed, *FEW, "--check", "--repeat", 2)
        self.assertEqual([(row["keys"]["step"], row["keys"]["pattern"], row["run"]) for row in patterns(said)],
                         [(0, "there", 0), (1, "back.txt", 0), (0, "there", 1), (1, "back.txt", 1)])
        for first, second in (patterns(said)[:2], patterns(said)[2:]):
            there, back = figures(first), figures(second)
            self.assertEqual(there["gap_before"]["count"], 16)  # of each of four workers, in each of four runs
            self.assertGreaterEqual(there["gap_before"]["min"], 20000)
            self.assertNotIn("gap_after", there)
            self.assertEqual(back["gap_after"]["count"], 8)  # of the two that take part
            self.assertGreaterEqual(back["gap_after"]["min"], 30000)
            self.assertNotIn("gap_before", back)
            self.assertEqual(first["keys"]["pieces"], 24)
        self.assertGreaterEqual(said["elapsed_s"], 2 * 4 * 0.05)
        self.assertEqual(said["settings"]["plan"][1]["metadata"], {"isl": 1000})

    def test_a_worker_sends_to_itself(self):
        said = self.run_json("--matrix", self.write("self.txt", "64K 0\n1K 0\n"), *FEW, "--check")
        self.assertEqual(patterns(said)[0]["keys"]["bytes"], 65 * 1024)

    def test_workers_that_no_pattern_names(self):
        said = self.run_json("--matrix", self.at / "back.txt", "--workers", 3, *FEW)
        self.assertEqual(len(said["hosts"]), 3)

    def test_a_table_and_csv(self):
        table = self.passes("bench", "traffic", "--matrix", self.at / "back.txt", *FEW, "--csv", self.at / "out.csv")
        self.assertIn("back.txt", table)
        heading, line = (self.at / "out.csv").read_text().splitlines()[:2]
        self.assertIn("pattern", heading)
        self.assertIn("back.txt", line)

    def test_its_csv_and_json_compare_alike(self):
        self.passes("bench", "traffic", "--matrix", self.at / "ring.txt", *FEW, "--isolate-pairs", "--show-workers",
                    "--show-pairs", "--repeat", 2, "--csv", self.at / "out.csv", "--json", self.at / "out.json")
        found = json.loads(self.passes("compare", self.at / "out.csv", self.at / "out.json", "--json"))
        changes = {row["change_percent"] for row in found["rows"]}
        self.assertEqual((found["only_in"], changes), ([], {0}))
        rows = [row["keys"] for row in found["rows"] if row["figure"] == "latency"]
        self.assertEqual((len(rows), sum("rank" in keys for keys in rows), sum("from" in keys for keys in rows)),
                         (13, 4, 8))

    def test_a_gap_that_only_the_second_pattern_has(self):
        self.write("two.yaml", "traffic_patterns:\n- {matrix_file: ring.txt}\n"
                   "- {matrix_file: back.txt, sleep_after_launch_sec: 0.001}\n")
        self.passes("bench", "traffic", self.at / "two.yaml", *FEW, "--csv", self.at / "out.csv", "--json",
                    self.at / "out.json")
        with open(self.at / "out.csv", encoding="utf-8", newline="") as file:
            first, second = csv.DictReader(file)
        gap = next(figure for figure in patterns(self.load())[1]["figures"] if figure["name"] == "gap_after")
        self.assertEqual((first["gap_after_us_mean"], float(second["gap_after_us_mean"])), ("", gap["value"]))
        self.assertNotIn("gap_before_us_mean", first)
        found = json.loads(self.passes("compare", self.at / "out.csv", self.at / "out.json", "--figure", "gap_after",
                                       "--json"))
        self.assertEqual([row["change_percent"] for row in found["rows"]], [0])

    def serve(self):
        store = subprocess.Popen([tool.WEFT, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True,
                                 env=tool.environment(WEFT_TOKEN="t" * 32), stdin=subprocess.DEVNULL)
        self.addCleanup(store.wait)
        self.addCleanup(store.kill)
        self.addCleanup(store.stdout.close)
        return store.stdout.readline().strip()

    def test_commands_that_meet_on_a_store(self):
        url = self.serve()
        same = ("--matrix", self.at / "ring.txt", *FEW, "--local", 2, "--store", url, "--json")
        first = self.start(*same, self.at / "a.json", WEFT_TOKEN="t" * 32)
        second = self.start(*same, self.at / "b.json", WEFT_TOKEN="t" * 32)
        self.end(first, 0)
        self.end(second, 0)
        [written] = [name for name in ("a.json", "b.json") if (self.at / name).exists()]  # by one of them
        self.assertEqual(len(patterns(json.loads((self.at / written).read_text()))), 1)


    def on_two_hosts(self, *arguments, **other):
        """Two that only seem so: another boot id, and another name, and what `other` makes of that one."""
        probe = subprocess.run(["unshare", "-mu", "true"], capture_output=True)
        if os.geteuid() != 0 or probe.returncode != 0:
            self.skipTest("needs root and namespaces")
        url = self.serve()
        boot = self.write("boot", "11111111-2222-3333-4444-555555555555\n")
        same = ["--matrix", *arguments, "--store", url, "--json"]
        here = self.start(*same, self.at / "a.json", WEFT_TOKEN="t" * 32)
        line = " ".join(map(str, [*[f"{name}={text}" for name, text in other.items()], tool.WEFT, "bench", "traffic",
                                  *same, self.at / "b.json"]))
        there = subprocess.run(["unshare", "-mu", "sh", "-c", "hostname other && mount --bind "
                                f"{boot} /proc/sys/kernel/random/boot_id && exec env {line}"], capture_output=True,
                               text=True, env=tool.environment(WEFT_TOKEN="t" * 32), timeout=tool.TIMEOUT_S)
        out, err = here.communicate(timeout=tool.TIMEOUT_S)
        if "cannot be reached" in err + there.stderr:
            self.skipTest("no transport to other hosts here")
        self.assertEqual((here.returncode, there.returncode), (0, 0), out + err + there.stderr)
        [written] = [name for name in ("a.json", "b.json") if (self.at / name).exists()]
        return json.loads((self.at / written).read_text())

    def test_two_hosts(self):
        """They share no memory, and compare their clocks."""
        said = self.on_two_hosts(self.at / "ring.txt", *FEW, "--check", "--local", 2)
        self.assertIn("other", said["hosts"])
        self.assertGreater(said["settings"]["clock_error_us"], 0)
        self.assertNotEqual(patterns(said)[0]["keys"]["transport"], "shm")

    def test_every_transport_of_a_sender_is_named(self):
        """Of the three others one is on the sender's host, and two are on the other one."""
        listed = self.write("one.txt", "0 4K 4K 4K\n0 0 0 0\n0 0 0 0\n0 0 0 0\n")
        said = self.on_two_hosts(listed, *FEW, "--local", 2)
        transports = patterns(said)[0]["keys"]["transport"].split("+")
        self.assertEqual((len(transports), "shm" in transports), (2, True), transports)

    def test_clocks_that_drift_apart(self):
        """One goes too fast by a twentieth, which is 25 ms in the half second after which they are compared anew. On a
        busy machine that half second is longer. Compared once, they would drift by a twentieth of the whole run, and
        the median would be half of that."""
        if "FAST_CLOCK" not in os.environ:
            self.skipTest("a sanitizer's runtime does not suffer what is preloaded")
        listed = self.write("one.txt", "0 4K\n4K 0\n")
        said = self.on_two_hosts(listed, "-n", 300, "--alone", 1, "--warmup", 1, "--local", 1,
                                 LD_PRELOAD=os.environ["FAST_CLOCK"], WEFT_FAST_CLOCK=0.05)
        skew = figures(patterns(said)[0])["start_skew"]
        print(f"start_skew: {skew['p50']:.0f} us of {skew['count']} runs in {said['elapsed_s']:.1f} s")
        self.assertLess(skew["p50"], min(100000, 0.05 * said["elapsed_s"] * 1e6 / 4))

    def test_gpus(self):
        said = self.run_json("--matrix", self.at / "ring.txt", *FEW, "--memory", "cuda", "--check",
                             WEFT_CUDA_PLUGIN=os.environ["FAKE_DEVICE"])
        keys = patterns(said)[0]["keys"]
        self.assertEqual((keys["memory"], keys["transport"]), ("cuda", "cuda"))
        self.assertEqual(keys["same_gpu_pairs"], 4)  # four workers take two GPUs in turn: 0 and 2, 1 and 3 share one


class Caches(TrafficTest):
    SMALL = ("--model", "qwen3-0.6b", "--tokens", 48, "--tp", 2, "--decode-tp", 1)

    def test_a_plan_is_worked_out(self):
        text = self.passes("bench", "kv", *self.SMALL)
        self.assertIn("qwen3-0.6b: 28 layers, 8 KV heads, 2 x 128 numbers each in bf16", text)
        said = json.loads(self.passes("bench", "kv", *self.SMALL, "--json"))
        self.assertEqual((said["weft_kv_plan"], said["token_bytes"], said["total_bytes"]),
                         (1, 28 * 4096, 48 * 28 * 4096))
        self.assertEqual([(pair["from"], pair["to"], pair["batches"]) for pair in said["pairs"]],
                         [(0, 2, [{"block_bytes": 16 * 28 * 2048, "blocks": 3}]),
                          (1, 2, [{"block_bytes": 16 * 28 * 2048, "blocks": 3}])])

    def test_a_window_is_named(self):
        self.assertIn("12 of 24 layers have a sliding window of 128 tokens",
                      self.passes("bench", "kv", "--model", "gpt-oss-20b"))

    def test_it_runs_from_the_model_and_from_the_plan(self):
        plan = self.write("plan.json", self.passes("bench", "kv", *self.SMALL, "--json"))
        runs = [self.run_json(*source, *FEW, "--check") for source in (self.SMALL, ("--plan", plan))]
        for said in runs:
            keys = patterns(said)[0]["keys"]
            self.assertEqual((keys["pattern"], keys["bytes"], keys["pieces"], keys["pairs"]),
                             ("qwen3-0.6b", 48 * 28 * 4096, 6, 2))
            self.assertEqual(said["settings"]["plan"][0]["metadata"]["token_bytes"], 28 * 4096)
        self.assertEqual(patterns(runs[0])[0]["keys"], patterns(runs[1])[0]["keys"])

    def test_wrong_models_and_plans(self):
        self.refused(2, 'no model "llama-9"', "bench", "kv", "--model", "llama-9")
        self.refused(2, "no model is given", "bench", "kv")
        self.refused(2, "both given", "bench", "kv", "--model", "qwen3-8b", "--model-config", "x")
        self.refused(2, "--tp 3: qwen3-8b has 8 KV heads", "bench", "kv", "--model", "qwen3-8b", "--tp", 3)
        config = self.write("config.json", '{"num_hidden_layers": true}')
        self.refused(2, '"num_hidden_layers" is wrong', "bench", "kv", "--model-config", config)
        self.refused(2, "not JSON: line 1", "bench", "kv", "--model-config", self.write("no.json", "{"))
        self.refused(2, "weft bench kv --json", "bench", "traffic", "--plan", config)


class Failures(TrafficTest):
    def long_run(self, *more):
        listed = self.write("list.yaml", "traffic_patterns:\n"
                            "- {matrix_file: ring.txt, sleep_before_launch_sec: 0.01}\n")
        process = self.start(listed, "-n", 1000000, "--alone", 3, "--warmup", 1, "--json", self.at / "out.json", *more)
        self.await_rows(process)
        return process

    def test_a_run_without_a_row_replaces_the_files_of_an_earlier_one(self):
        outputs = ("--json", self.at / "out.json", "--prometheus", self.at / "out.prom")
        for path in outputs[1::2]:
            path.write_text("{}")
        wrong = self.write("wrong.txt", "1K 0\n1K\n")
        self.refused(2, "wrong.txt", "bench", "traffic", "--matrix", wrong, *outputs)
        self.assertEqual(self.load(), {})  # nothing ran
        self.refused(3, "127.0.0.1:9", "bench", "traffic", "--matrix", self.at / "back.txt", "--local", 2, "--store",
                     "http://127.0.0.1:9", *FEW, *outputs, WEFT_TOKEN="t" * 32)
        self.assertIn("127.0.0.1:9", self.load()["error"])
        self.assertIn('weft_bench_passed{kind="traffic"} 0\n', (self.at / "out.prom").read_text())

    def test_a_killed_worker_is_named(self):
        process = self.long_run()
        workers = children_of(process.pid)
        if not workers:
            self.fail(f"its workers have ended: {self.load()}, {process.communicate(timeout=tool.TIMEOUT_S)}")
        victim = random.choice(workers)
        os.kill(victim, signal.SIGKILL)
        begun = time.monotonic()
        _, err = self.end(process, 5)
        print(f"named after {time.monotonic() - begun:.2f} s")
        self.assertRegex(err, rf"rank \d on \S+ \(process {victim}\) is lost")
        said = self.load()
        self.assertEqual((said["complete"], said["passed"]), (False, False))
        self.assertIn("is lost", said["error"])

    def test_it_does_not_wait_for_those_that_it_started(self):
        """A signal that only this process gets, while it and two others wait for a fourth."""
        process = self.start("--matrix", self.at / "ring.txt", "--local", 3, "--listen", "127.0.0.1", "--store-port",
                             tool.free_port(), WEFT_TOKEN="t" * 32)
        self.assertIn("start the others", process.stderr.readline())  # signals are watched for since before
        time.sleep(0.5)  # until all three wait; whenever it is, the end has to be the same
        process.terminate()
        begun = time.monotonic()
        self.end(process, 143)
        self.assertLess(time.monotonic() - begun, 9)

    def test_who_is_missing_is_named_by_who_knows(self):
        """Worker 0 comes to a start when another has waited for it for a while, and a third one stands still."""
        at = f"127.0.0.1:{tool.free_port()}"
        self.write("three.txt", "0 4K 4K\n0 0 4K\n0 0 0\n")
        listed = self.write("list.yaml", "traffic_patterns:\n"
                            "- {matrix_file: three.txt, sleep_before_launch_sec: 0.2}\n")
        same = (listed, "-n", 1000000, "--alone", 1, "--warmup", 1, "--timeout-ms", 1000, "--local", 1, "--quiet")
        token = {"WEFT_TOKEN": "t" * 32}
        lead = self.start(*same, "--listen", "127.0.0.1", "--store-port", at.split(":")[1], "--json",
                          self.at / "out.json", **token)
        others = [self.start(*same, "--rank-server", at, **token) for _ in range(2)]
        self.await_rows(lead)
        time.sleep(0.5)  # into the sequence; whenever it is, worker 0 is not to be blamed
        for process in (lead, others[1]):
            process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        lead.send_signal(signal.SIGCONT)
        _, err = others[0].communicate(timeout=tool.TIMEOUT_S)
        self.assertRegex(err, "(worker|rank) [12] on")
        self.assertNotIn("worker 0", err)

    def test_ctrl_c_keeps_what_was_measured(self):
        process = self.long_run()
        time.sleep(1.5)  # not for something to happen: so that some batches of half a second are there
        process.send_signal(signal.SIGINT)
        _, err = self.end(process, 130)
        self.assertIn("interrupted by SIGINT", err)
        said = self.load()
        self.assertEqual((said["complete"], said["cut_short"], said["passed"]), (False, "SIGINT", False))
        self.assertGreater(figures(patterns(said)[0])["latency"]["count"], 0)

    def test_a_spoilt_byte_is_found(self):
        process = self.long_run("--check")
        children = children_of(process.pid)
        deadline = time.monotonic() + tool.TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            for pid in children:  # whatever two sides share; what is written over before it is looked at does no harm
                self.spoil(pid)
        out, err = self.end(process, 4)
        self.assertRegex(err, r"bytes that worker \d sent to worker \d are wrong", out)

    def spoil(self, pid):
        try:
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
                for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .*memfd:weft \(deleted\)", maps, re.M):
                    if int(end, 16) - int(begin, 16) >= 64 * 1024:
                        memory.seek(int(begin, 16) + random.randrange(60000))
                        memory.write(b"\xa5")
        except (OSError, ValueError):
            pass  # it has ended

    def test_bad_input_has_a_place(self):
        wrong = self.write("wrong.txt", "0 1K\n-1K 0\n")
        self.refused(2, f"{wrong}:2:1: \"-1K\" is negative", "bench", "traffic", "--matrix", wrong)
        wrong = self.write("wrong.txt", "0 1K 0\n1K 0 0\n")
        self.refused(2, f"{wrong}:2:1: the matrix has 2 rows", "bench", "traffic", "--matrix", wrong)
        ring = self.at / "ring.txt"
        self.refused(2, f"{ring}:1:7: a column is for worker 2, but there are only 2 workers", "bench", "traffic",
                     "--matrix", ring, "--workers", 2)
        listed = self.write("list.yaml", "traffic_patterns:\n- {matrix_file: ring.txt, shard: 2}\n")
        self.refused(2, f"{listed}:2:27: a pattern has no member shard", "bench", "traffic", listed)
        self.refused(2, "there is nothing to run", "bench", "traffic")
        self.refused(2, "more than one source", "bench", "traffic", listed, "--matrix", ring)
        for source in (("--matrix", ring), (listed,)):
            self.refused(2, "--tp is given without --model or", "bench", "traffic", *source, "--tp", 2)
            self.refused(2, "--whole-window is given without", "bench", "traffic", *source, "--whole-window")
        self.refused(2, "--shards is given without --matrix: each pattern", "bench", "traffic", listed, "--shards", 2)
        self.refused(2, "--op is given with a file of patterns", "bench", "traffic", listed, "--op", "write")
        self.refused(2, "--shards is given without --matrix: the blocks", "bench", "traffic", "--model", "qwen3-8b",
                     "--shards", 2)
        self.refused(2, "--tokens is given without --model or --model-config: the plan has it", "bench", "traffic",
                     "--plan", ring, "--tokens", 8)
        self.refused(2, "--local 9: there are 4 workers", "bench", "traffic", "--matrix", ring, "--local", 9)
        self.refused(3, "cannot open it", "bench", "traffic", "--matrix", self.at / "none")
        self.refused(3, "MiB of memory together", "bench", "traffic", "--matrix", self.write("big.txt", "0 1T\n0 0\n"))
        self.refused(2, '--transport smoke: there is no transport', "bench", "traffic", "--matrix", ring, "--transport",
                     "smoke")

    def test_no_gpu(self):
        said = self.refused(3, "CUDA", "bench", "traffic", "--matrix", self.at / "back.txt", "--memory", "cuda",
                            WEFT_CUDA_PLUGIN="/none")
        self.assertNotIn("is lost", said)


if __name__ == "__main__":
    unittest.main()
