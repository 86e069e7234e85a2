#!/usr/bin/env python3
"""weft bench ep on one host: its rows, its refusals, and its ends."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import tool

SMALL = ("--hidden", 256, "--tokens", 32, "--topk", 2, "--experts-per-rank", 4, "--iterations", 10, "--warmup", 2)
ENDLESS = ("--ranks", 4, "--iterations", 100000, *SMALL[:8])
PATIENT = ("--timeout-ms", 600000)  # no test waits as long: what ends a run is that a death is seen
HEAD = 16  # bytes of a row's head, which counts among the logical ones


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Bench(tool.ToolTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "ep.json")

    def document(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def measure(self, *arguments, **more):
        self.passes("bench", "ep", "--json", self.file, *SMALL, *arguments, **more)
        document = self.document()
        self.assertTrue(document["complete"] and document["passed"])
        return [(row["keys"], {figure["name"]: figure for figure in row["figures"]}, row)
                for row in document["rows"]]

    def start(self, *arguments):
        process = subprocess.Popen([tool.WEFT, "bench", "ep", "--json", self.file, *map(str, arguments)],
                                   env=tool.environment(), text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def begun(self, process):
        """Waits until its ranks are there and at work; their processes."""
        while len(children(process.pid)) < 4 or not os.path.exists(self.file):
            self.assertIsNone(process.poll())
        pids = children(process.pid)
        while len(os.listdir(f"/proc/{pids[0]}/task")) < 2:  # it has opened its rank, which has threads
            self.assertIsNone(process.poll())
        return pids

    def end(self, process, status):
        _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, status, errors)
        return errors


class Measuring(Bench):
    def test_every_operation_is_measured_and_judged(self):
        ops = "dispatch,combine,both,dispatch_send,dispatch_recv,combine_send,combine_recv"
        rows = self.measure("--op", ops, "--check")
        self.assertEqual({keys["op"] for keys, _, _ in rows}, set(ops.split(",")))
        for keys, figures, row in rows:
            self.assertEqual((keys["ranks"], keys["experts"], keys["memory"], keys["graph"]), (2, 8, "host", False))
            self.assertEqual((figures["latency"]["count"], figures["rank_latency"]["count"]), (10, 20))
            self.assertEqual(len(figures["latency"]["samples"]), 10)
            self.assertLessEqual(figures["latency"]["p50"], figures["latency"]["p99"])
            self.assertRegex(row["slowest"], r"^rank [01] on ")
            self.assertEqual("wire_bandwidth" in figures, keys["op"] in ("dispatch", "combine", "both"))

    def test_types_and_layouts_are_judged(self):
        rows = self.measure("--op", "both", "--check", "--ranks", "2,4", "--dtype", "bf16,fp8,fp8-pow2,fp8-ue8m0",
                            "--combine-dtype", "bf16,logfmt10", "--layout", "per-expert,rank-major", "--iterations", 3)
        self.assertEqual(len({json.dumps(keys) for keys, _, _ in rows}), 2 * 4 * 2 * 2)

    def test_layouts_and_routes_of_both_modes_are_judged(self):
        """By a kept route no heads of rows travel, so a dispatch sends less."""
        for mode in ("latency", "throughput"):
            rows = self.measure("--mode", mode, "--op", "dispatch,combine", "--check", "--layout",
                                "per-expert,rank-major,packed", "--route", "fresh,kept", "--alignment", 8,
                                "--iterations", 3)
            self.assertEqual(len(rows), 3 * 2 * 2)
            sent = {(keys["layout"], keys["op"], keys["route"]): figures["wire_bytes"]["value"]
                    for keys, figures, _ in rows}
            for layout in ("per-expert", "rank-major", "packed"):
                self.assertLess(sent[layout, "dispatch", "kept"], sent[layout, "dispatch", "fresh"])
                self.assertEqual(sent[layout, "combine", "kept"], sent[layout, "combine", "fresh"])
            self.assertEqual({keys["mode"] for keys, _, _ in rows}, {mode})

    def test_many_tokens_flow_through_a_small_window(self):
        rows = self.measure("--mode", "throughput", "--op", "both", "--check", "--tokens", "1025,4096", "--window",
                            1 << 20, "--layout", "rank-major,packed", "--iterations", 3)
        self.assertEqual({(keys["tokens"], keys["layout"]) for keys, _, _ in rows},
                         {(tokens, layout) for tokens in (1025, 4096) for layout in ("rank-major", "packed")})

    def test_bytes_are_those_of_the_formulas(self):
        for keys, figures, _ in self.measure("--dtype", "bf16,fp8", "--tokens", "1,32"):
            pairs = keys["tokens"] * keys["topk"]
            row = 2 * keys["hidden"] if keys["dtype"] == "bf16" else keys["hidden"] + 4 * keys["hidden"] // 128
            dispatch, combine = pairs * (row + HEAD), pairs * 2 * keys["hidden"]
            logical = {"dispatch": dispatch, "combine": combine, "both": dispatch + combine}[keys["op"]]
            self.assertEqual(figures["logical_bytes"]["value"], logical)
            self.assertAlmostEqual(figures["logical_bandwidth"]["value"] * figures["latency"]["value"] * 1e3 / logical,
                                   1, places=4)
            self.assertLessEqual(figures["wire_bytes"]["value"], logical + 4096)

    def test_skews_are_uneven(self):
        rows = self.measure("--op", "dispatch", "--skew", "uniform,zipf,zipf:3,hot", "--tokens", 512, "--topk", 2)
        busiest = {keys["skew"]: figures["busiest_expert"]["value"] for keys, figures, _ in rows}
        self.assertLess(busiest["uniform"], 120)
        self.assertLess(busiest["uniform"], busiest["zipf"])
        self.assertLess(busiest["zipf"], busiest["zipf:3"])
        self.assertEqual(busiest["hot"], 100 * 8 / 2)  # every token's, of 8 experts and 2 selections

    def test_repeats_come_by_turns(self):
        rows = self.measure("--op", "both", "--tokens", "1,2", "--repeat", 3)
        self.assertEqual([(row["run"], keys["tokens"]) for keys, _, row in rows],
                         [(run, tokens) for run in range(3) for tokens in (1, 2)])

    def test_gpus_and_graphs(self):
        """By the plug-in of the tests, whose kernels carry no tokens: how the stream and its graph are used."""
        rows = self.measure("--memory", "cuda", "--graph", WEFT_CUDA_PLUGIN=os.environ["FAKE_DEVICE"])
        self.assertEqual([(keys["op"], keys["graph"]) for keys, _, _ in rows],
                         [("dispatch", False), ("combine", False), ("both", False), ("both", True)])
        for keys, figures, row in rows:
            self.assertEqual((keys["memory"], figures["latency"]["count"]), ("cuda", 10))
            self.assertRegex(row["slowest"], r"^rank ([01]) on .*, GPU \1, a fake$")

    def test_ranks_as_on_two_hosts(self):
        result = tool.weft("bench", "ep", *SMALL, "--as-hosts", 2, "--check", "--json", self.file)
        if "no transport to other hosts works here" in result.stderr:
            self.skipTest("no transport to other hosts was built")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(self.document()["rows"]), 3)

    def test_bytes_of_rows_that_cross_to_another_host_once(self):
        """Ranks that share rows know of that after the first operations; the bytes are those of the last one."""
        sent = {}
        for once in ("no", "yes"):
            result = tool.weft("bench", "ep", *SMALL[:-4], "--iterations", 40, "--topk", 4, "--as-hosts", 2,
                               "--ranks", 4, "--mode", "throughput", "--op", "dispatch", "--route", "fresh,kept",
                               "--json", self.file, WEFT_EP_ONCE=once)
            if "no transport to other hosts works here" in result.stderr:
                self.skipTest("no transport to other hosts was built")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for row in self.document()["rows"]:
                figures = {figure["name"]: figure["value"] for figure in row["figures"]}
                sent[once, row["keys"]["route"]] = figures["wire_bytes"]
        for once in ("no", "yes"):
            self.assertLess(sent[once, "kept"], sent[once, "fresh"])
        for route in ("fresh", "kept"):
            self.assertLess(sent["yes", route], 0.85 * sent["no", route])

    def test_one_rank_alone(self):
        for _, figures, row in self.measure("--ranks", 1, "--check"):
            self.assertEqual((row["slowest"], figures["wire_bytes"]["value"]), ("", 0))

    def test_the_table_has_a_line_for_each_row(self):
        lines = self.passes("bench", "ep", *SMALL, "--tokens", "1,2").splitlines()
        self.assertEqual([line.split()[0] for line in lines[-6:]], ["dispatch", "combine", "both"] * 2)
        self.assertTrue(all(len(line) <= 100 for line in lines), lines)


class Refusing(Bench):
    def test_values_that_are_wrong(self):
        for says, *arguments in (
                ('--tokens: "0" is out of range: want numbers from 1 to 32768', "--tokens", "0"),
                ("--tokens names 8 twice", "--tokens", "8,8"),
                ("--seed: 9223372036854775808 is out of range", "--seed", "9223372036854775808"),
                ("want one or more of bf16, fp8, fp8-pow2, fp8-ue8m0", "--dtype", "fp9"),
                ("want one or more of uniform, zipf, hot", "--skew", "flat"),
                ("want one or more of host, cuda", "--memory", "disk"),
                ("want one or more of dispatch, combine", "--op", "send"),
                ("more than there are experts", "--topk", "9"),
                ("want only --memory cuda", "--graph"),
                ("one host has at most 256 ranks", "--ranks", "257"),
                ("--ranks 65 is more than the 64 ranks that a group has with --memory cuda", "--ranks", "65",
                 "--memory", "cuda"),
                ("--local-ranks 3 does not fit --ranks 4", "--ranks", "4", "--local-ranks", "3"),
                ("--local-ranks 4 is more than --ranks, 2", "--local-ranks", "4"),
                ("latency, throughput", "--mode", "fast"),
                ("--tokens 4096 is more than the 1024 that --mode latency allows", "--tokens", "4096"),
                ("want one or more of fresh, kept", "--route", "old"),
                ("--processors 24 is for kernels", "--processors", "24"),
                ("--transport: carrier is not a transport to other hosts: want ofi, ucx, nvlink or none",
                 "--transport", "carrier"),
                ("--alignment is given without --layout packed", "--alignment", "8", "--layout", "rank-major"),
                ("--iterations", "--iterations", "0")):
            self.refused(2, says, "bench", "ep", *SMALL[:2], "--experts-per-rank", 4, *arguments)

    def test_what_the_library_cannot_do_is_its_own_answer(self):
        result = tool.weft("bench", "ep", *SMALL, "--mode", "throughput", "--hidden", 16384, "--window", 4096)
        self.assertRegex(result.stderr, "^weft bench ep: rank [01]: --window: window_bytes is 4096; ")
        self.assertEqual(result.returncode, 2)

    def test_a_worker_that_waits_for_the_store_of_another_says_so(self):
        waits = "weft bench ep: waits for the store https://127.0.0.1:1 of another worker, for up to 1 s\n"
        for more, said in (((), waits), (("--quiet",), "")):
            result = tool.weft("bench", "ep", "--rank-server", "127.0.0.1:1", "--startup-timeout", 1, *more,
                               WEFT_TOKEN="s3cret")
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertTrue(result.stderr.startswith(f"{said}weft bench ep: the store https://127.0.0.1:1, "),
                            result.stderr)

    def test_a_run_without_a_row_replaces_the_files_of_an_earlier_one(self):
        prometheus = self.file + ".prom"
        outputs = ("--json", self.file, "--prometheus", prometheus)
        for path in (self.file, prometheus):
            with open(path, "w", encoding="utf-8") as file:
                file.write("{}")
        self.refused(2, "--ranks", "bench", "ep", *SMALL, "--ranks", 0, *outputs)
        self.assertEqual(self.document(), {})  # nothing ran
        self.refused(3, "https://127.0.0.1:1, ", "bench", "ep", "--rank-server", "127.0.0.1:1", "--startup-timeout", 1,
                     *SMALL, *outputs, WEFT_TOKEN="s3cret")
        self.assertIn("https://127.0.0.1:1, ", self.document()["error"])
        with open(prometheus, encoding="utf-8") as file:
            self.assertIn('weft_bench_passed{kind="ep"} 0\n', file.read())

    def test_gpus_that_are_not_there(self):
        result = tool.weft("bench", "ep", *SMALL, "--memory", "cuda", WEFT_CUDA_PLUGIN="/nowhere/libweft_cuda.so")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("the CUDA plug-in", result.stderr)
        result = tool.weft("bench", "ep", *SMALL, "--memory", "cuda", "--ranks", 4,
                           WEFT_CUDA_PLUGIN=os.environ["WEFT_FAKE_GPUS"], FAKE_GPUS="2")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("each needs one of its own", result.stderr)

    def test_a_file_that_cannot_be_written(self):
        self.refused(3, "/nowhere/ep.json", "bench", "ep", *SMALL, "--json", "/nowhere/ep.json")


class Ending(Bench):
    def test_a_rank_that_is_killed_is_named(self):
        process = self.start(*ENDLESS, *PATIENT)
        pids = self.begun(process)
        os.kill(pids[2], signal.SIGKILL)
        errors = self.end(process, 5)
        self.assertIn(f"rank 2 died: its process {pids[2]} was ended by signal 9", errors)
        self.assertFalse(self.document()["passed"])
        self.assertIn("rank 2 died", self.document()["error"])
        self.assertFalse([pid for pid in pids if os.path.exists(f"/proc/{pid}")])

    def test_a_rank_that_takes_no_part_is_missed_too(self):
        process = self.start(*ENDLESS, *PATIENT, "--ranks", "2,4")  # two measure first, for longer than this test waits
        pids = self.begun(process)
        os.kill(pids[3], signal.SIGKILL)
        self.assertIn(f"rank 3 died: its process {pids[3]} was ended by signal 9", self.end(process, 5))

    def test_a_rank_that_stands_still_is_named(self):
        process = self.start(*ENDLESS, "--timeout-ms", 2000, "--startup-timeout", 2)  # the others live
        os.kill(self.begun(process)[1], signal.SIGSTOP)
        _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertIn(process.returncode, (5, 124), errors)  # 124: it had not connected yet
        self.assertRegex(errors, r"rank [023]: .*\b1\b")

    def test_an_interrupt_keeps_what_was_measured(self):
        for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
            process = self.start(*ENDLESS, "--op", "both", "--warmup", 0)
            self.begun(process)
            process.send_signal(number)
            self.assertIn(f"interrupted by {name}", self.end(process, 128 + number))
            document = self.document()
            self.assertEqual((document["complete"], document["passed"], document["cut_short"]), (False, False, name))
            for row in document["rows"]:
                self.assertLess(row["figures"][0]["count"], 100000)

    def test_rows_that_are_done_stay(self):
        process = self.start(*ENDLESS, "--op", "both", "--tokens", "1,2", "--iterations", 20000)
        while not (os.path.exists(self.file) and self.document()["rows"]):
            self.assertIsNone(process.poll())
        os.kill(children(process.pid)[0], signal.SIGKILL)
        self.assertIn("rank 0 died", self.end(process, 5))
        self.assertEqual(self.document()["rows"][0]["figures"][0]["count"], 20000)

    def test_ranks_end_with_their_lead(self):
        process = self.start(*ENDLESS)
        pids = self.begun(process)
        process.kill()
        process.communicate(timeout=tool.TIMEOUT_S)
        while any(map(is_alive, pids)):
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
