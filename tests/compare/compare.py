#!/usr/bin/env python3
"""weft compare reads runs of any benchmark, reports changes, and ends with the exit status that CI needs."""
import csv
import io
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import tool

FORMATS = tool.SOURCE / "tests/compare/formats"
METHOD = "Benjamini-Hochberg"


def figure(name, unit, better, samples):
    ordered = sorted(samples)
    return {"name": name, "unit": unit, "better": better, "value": sum(samples) / len(samples), "count": len(samples),
            "min": ordered[0], "p50": ordered[len(samples) // 2], "p95": ordered[-2], "p99": ordered[-1],
            "p999": ordered[-1], "max": ordered[-1], "bound": None, "bound_name": "", "samples": samples}


def row(keys, mean, run=0, seed=1, spread=0.05, count=200):
    source = random.Random(f"{keys} {run} {seed}")
    samples = [round(mean * source.lognormvariate(0, spread), 5) for _ in range(count)]
    rate = {"name": "bandwidth", "unit": "GB/s", "better": "higher", "value": 4096 / mean / 1e3, "count": 0,
            "min": None, "p50": None, "p95": None, "p99": None, "p999": None, "max": None, "bound": None,
            "bound_name": ""}
    return {"keys": keys, "run": run, "slowest": "", "refused": "",
            "figures": [figure("latency", "us", "lower", samples), rate]}


def document(rows, started="2026-11-25T10:00:00Z"):
    return {"weft_figures": 1, "kind": "transfer", "version": "0.1.0", "started": started, "elapsed_s": 1.5,
            "complete": True, "cut_short": "", "passed": True, "error": "", "hosts": ["a"], "settings": {},
            "bounds": [], "rows": rows}


def keys(size, **more):
    return {"op": "WRITE", "bytes": size, "transport": "shm", **more}


class Compare(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.before = self.save("before.json", document([row(keys(size), 10) for size in (8, 64, 4096)]))
        self.after = self.save("after.json", document([row(keys(8), 12, seed=2), row(keys(64), 10, seed=2),
                                                       row(keys(4096), 8, seed=2)]))

    def save(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def compared(self, *arguments, status=0):
        result = tool.weft("compare", "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (status, ""), arguments)
        return json.loads(result.stdout)

    def verdicts(self, *arguments, status=0, figure="latency"):
        return {one["keys"].get("bytes"): one["verdict"]
                for one in self.compared(*arguments, "--figure", figure, status=status)["rows"]}

    def test_changes_are_found_and_noise_is_not(self):
        self.assertEqual(self.verdicts(self.before, self.after), {8: "worse", 64: "same", 4096: "better"})
        self.assertEqual(self.verdicts(self.after, self.before), {8: "better", 64: "same", 4096: "worse"})
        found = self.compared(self.before, self.after)
        self.assertEqual((found["weft_comparison"], found["verdict"], found["confidence"]), (1, "worse", 0.95))
        self.assertEqual([run["label"] for run in found["runs"]], ["before", "after"])
        one = found["rows"][0]
        self.assertEqual((one["figure"], one["unit"], one["better"], one["run"]), ("latency", "us", "lower", "after"))
        self.assertTrue(one["low_percent"] < one["change_percent"] < one["high_percent"])
        self.assertTrue(15 < one["low_percent"] and one["high_percent"] < 25)
        self.assertEqual((one["samples"], one["interval_from"]), ([200, 200], "iterations"))
        rate = found["rows"][1]  # one value without samples
        self.assertEqual((rate["figure"], rate["verdict"], rate["low_percent"]), ("bandwidth", "unknown", None))

    def test_the_limit_decides_the_status(self):
        self.compared(self.before, self.after, "--limit", "30")
        found = self.compared(self.before, self.after, "--limit", "5", status=1)
        self.assertEqual((found["beyond_limit"], found["limit_percent"]), (1, 5))
        self.assertEqual([one["keys"]["bytes"] for one in found["rows"] if one["beyond_limit"]], [8])
        self.compared(self.before, self.after, "--limit", "2.5%", status=1)
        self.compared(self.after, self.after, "--limit", "0")
        # A change without an interval is named and breaks no limit.
        found = self.compared(self.before, self.after, "--limit", "0", "--figure", "bandwidth")
        self.assertEqual([one["verdict"] for one in found["rows"]], ["unknown", "same", "unknown"])

    def test_the_floor_keeps_small_changes_small(self):
        self.assertEqual(self.verdicts(self.before, self.after, "--floor", "25"), dict.fromkeys((8, 64, 4096), "same"))

    def test_repeats_tell_how_runs_differ(self):
        """Runs whose levels differ by 5 % each: iterations alone promise a change, repeats do not."""
        levels = {"a": [10, 10.5, 9.6, 10.2], "b": [10.4, 9.9, 10.6, 9.8]}
        files = {name: [self.save(f"{name}{i}.json", document([row(keys(8), level, seed=f"{name}{i}", count=1000)]))
                        for i, level in enumerate(means)] for name, means in levels.items()}
        self.assertEqual(self.verdicts(files["a"][2], files["b"][2]), {8: "worse"})
        runs = [f"{name}={','.join(map(str, paths))}" for name, paths in files.items()]
        found = self.compared(*runs, "--figure", "latency")
        self.assertEqual((found["rows"][0]["verdict"], found["rows"][0]["samples"]), ("same", [4, 4]))
        self.assertEqual([(run["label"], run["repeats"]) for run in found["runs"]], [("a", 4), ("b", 4)])
        self.assertEqual(found["rows"][0]["interval_from"], "repeats")
        again = self.compared(f"a={files['a'][0]}", runs[1], "--repeats", f"a={files['a'][1]}", "--figure", "latency")
        self.assertEqual(again["rows"][0]["samples"], [2, 4])
        # The same as repeats within one file.
        whole = [self.save(f"{name}.json", document([row(keys(8), mean, run=i) for i, mean in enumerate(means)]))
                 for name, means in levels.items()]
        self.assertEqual(self.compared(*whole, "--figure", "latency")["rows"][0]["samples"], [4, 4])

    def test_an_interval_without_end_is_cut_short(self):
        """Two repeats of which one had to wait for a processor: the JSON has the numbers, the table says that much."""
        wild = [",".join(str(self.save(f"{name}{i}.json", document([row(keys(8), level, seed=f"{name}{i}")])))
                         for i, level in enumerate(levels)) for name, levels in (("a", (10, 900)), ("b", (11, 1000)))]
        self.assertGreater(self.compared(*wild, "--figure", "latency")["rows"][0]["high_percent"], 1e6)
        self.assertRegex(self.passes("compare", *wild, "--figure", "latency"), r" -100 to over \+1000 % +. same\n")

    def test_rows_of_a_pattern_are_distinguished(self):
        """A table of 100 columns has the keys that name a worker or a pair before those that only describe it."""
        about = {"op": "WRITE", "memory": "host", "transport": "shm", "senders": 4, "receivers": 4, "pieces": 8}
        lines = [about, {"rank": 0, "host": "a"}, {"rank": 1, "host": "b"}, {"from": 0, "to": 1}, {"from": 1, "to": 0}]
        made = self.save("traffic.json", document([row({"step": 0, "pattern": "p", "bytes": 8, **keys_of}, 10)
                                                   for keys_of in lines]))
        text = self.passes("compare", f"A={made}", f"B={made}", "--figure", "latency")
        heads = text.splitlines()[3].split()
        self.assertEqual(heads[:4], ["op", "rank", "from", "to"])

    def test_repeats_that_took_turns_are_pairs(self):
        drift = [10, 13, 9, 12, 11]
        for name, factor, late in (("a", 1, 0), ("b", 1.03, 30)):
            for i, mean in enumerate(drift):
                self.save(f"{name}{i}.json", document([row(keys(8), mean * factor, run=0, seed=f"{name}{i}")],
                                                      f"2026-11-25T10:{i:02}:{late:02}Z"))
        runs = [",".join(str(self.folder / f"{name}{i}.json") for i in range(5)) for name in "ab"]
        one = self.compared(*runs, "--figure", "latency")["rows"][0]
        self.assertEqual((one["verdict"], one["interval_from"]), ("worse", "pairs"))
        self.assertEqual(self.verdicts(*runs, "--paired", "no"), {8: "same"})
        self.refused(2, "has 5 repeats but after has 1: to compare pairs, both need the same number", "compare",
                     runs[0], self.after, "--paired", "yes")
        backwards = self.compared(runs[0], ",".join(reversed(runs[1].split(","))), "--figure", "latency")
        self.assertEqual(backwards["rows"][0]["interval_from"], "repeats")

    def test_many_rows_raise_few_false_alarms(self):
        sizes = [8 * n for n in range(1, 301)]
        a = self.save("a.json", document([row(keys(size), 10, seed=3, count=100) for size in sizes]))
        b = self.save("b.json", document([row(keys(size), 10, seed=4, count=100) for size in sizes]))
        found = self.compared(a, b, "--figure", "latency", "--floor", "0")
        outside = [one for one in found["rows"] if one["low_percent"] > 0 or one["high_percent"] < 0]
        self.assertTrue(3 <= len(outside) <= 35, len(outside))  # 5 % of 300
        self.assertLessEqual(len([one for one in found["rows"] if one["significant"]]), 2)

    def test_a_baseline_is_small_and_as_good(self):
        base = self.folder / "base.json"
        self.save("before.json", document([row(keys(size), 10, count=1000) for size in (8, 64, 4096)]))
        self.assertEqual(self.passes("compare", self.before, "--save-baseline", base), "")
        self.assertLess(base.stat().st_size, self.before.stat().st_size / 3)
        self.assertNotIn("samples", base.read_text(encoding="utf-8"))
        self.assertEqual(self.verdicts("--baseline", base, self.after), {8: "worse", 64: "same", 4096: "better"})
        full = self.compared(self.before, self.after, "--figure", "latency")["rows"][0]
        kept = self.compared("--baseline", base, self.after, "--figure", "latency")["rows"][0]
        for member in ("low_percent", "high_percent"):
            self.assertAlmostEqual(full[member], kept[member], delta=0.5)
        # What cannot be compared with it leaves it as it is; and no result gives its samples for one.
        text, other = base.read_text(encoding="utf-8"), self.save("other.json", document([row({"op": "x"}, 1)]))
        result = tool.weft("compare", "--baseline", base, other, "--save-baseline", base)
        self.assertEqual((result.returncode, base.read_text(encoding="utf-8")), (2, text), result.stderr)
        text = self.after.read_text(encoding="utf-8")
        result = tool.weft("compare", "--baseline", base, self.after, "--save-baseline", self.after)
        self.assertEqual((result.returncode, self.after.read_text(encoding="utf-8")), (2, text), result.stderr)
        self.assertIn("would be read and also written by --save-baseline", result.stderr)
        # It takes the place of the one before, in the call that judges by that.
        result = tool.weft("compare", "--baseline", base, self.after, "--save-baseline", base, "--limit", "5")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(set(self.verdicts("--baseline", base, self.after).values()), {"same"})

    def test_other_benchmarks_text_against_weft(self):
        table = FORMATS / "nixlbench10.out"
        ours = self.save("ours.json", document([
            {**row({"op": "WRITE", "bytes": size, "batch": 1, "backend": "UCX", "depth": 1}, us), "slowest": ""}
            for size, us in ((4096, 2.7), (65536, 5.0))]))
        found = self.compared(table, ours)
        self.assertEqual({one["keys"]["bytes"] for one in found["rows"]}, {4096, 65536})
        self.assertEqual(found["runs"][0]["format"], "nixlbench table")
        self.assertEqual(set(found["keys_not_matched"]),
                         {"scheme", "initiator_memory", "target_memory", "threads", "depth"})
        for path in sorted(FORMATS.iterdir()):
            verdicts = {one["verdict"] for one in self.compared(path, f"again={path}")["rows"]}
            self.assertEqual(verdicts, {"same"}, path)

    def test_the_tables_of_weft_and_of_nixlbench_against_its_documents(self):
        """As both programs write them: memory is named alike, and rows of reads are none of writes."""
        saved = {}
        for op in ("WRITE", "READ"):
            document = self.folder / f"{op}.json"
            text = tool.weft("bench", "transfer", "--backend", "SHM", "--op_type", op, "--max_block_size", 4096,
                             "--num_iter", 48, "--warmup_iter", 16, "--quiet", "--json", document).stdout
            saved[op] = self.save(f"{op}.txt", text), document
        found = self.compared(*saved["WRITE"])
        self.assertEqual([one["keys"]["bytes"] for one in found["rows"] if one["figure"] == "bandwidth"], [4096])
        self.assertEqual(set(found["keys_not_matched"]), {"transport", "workers"})
        with tempfile.TemporaryDirectory() as files:
            document = self.folder / "file.json"
            ran = tool.weft("bench", "transfer", "--backend", "POSIX", "--filepath", files, "--max_block_size", 4096,
                            "--num_iter", 48, "--warmup_iter", 16, "--quiet", "--json", document)
            if ran.returncode == 0:  # else the page cache served the file, and its figures are not to be believed
                found = self.compared(self.save("file.txt", ran.stdout), document)
                self.assertEqual(set(found["keys_not_matched"]), {"transport", "workers"})
        for read in saved["READ"]:
            self.refused(2, 'they differ in "op": --ignore op compares', "compare", saved["WRITE"][0], read)
        others = self.save("theirs.txt", (FORMATS / "nixlbench10.out").read_text().replace(": UCX", ": SHM"))
        self.refused(2, 'differ in "target_memory": --ignore', "compare", others, saved["WRITE"][1])
        self.assertEqual({one["keys"]["bytes"] for one in
                          self.compared(others, saved["WRITE"][1], "--ignore", "target_memory")["rows"]}, {4096})
        self.refused(2, 'differ in "target_memory" and "op": --ignore target_memory --ignore op compare them even',
                     "compare", others, saved["READ"][1])

    def test_standard_input_and_directories(self):
        result = subprocess.run([tool.WEFT, "compare", "--json", "--limit", "5", self.before, "-"],
                                input=self.after.read_bytes(), capture_output=True, env=tool.environment(), timeout=60)
        self.assertEqual((result.returncode, result.stderr), (1, b""))
        self.assertEqual(json.loads(result.stdout)["runs"][1]["label"], "stdin")
        result = subprocess.run([tool.WEFT, "compare", "-", "-"], input=self.after.read_bytes(), capture_output=True,
                                env=tool.environment(), timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard input (-) is named twice", result.stderr)
        self.refused(2, "has no results.json", "compare", self.before, self.folder)

    def test_choosing_rows_and_figures(self):
        two = [self.save(f"{name}.json", document([row(keys(size, transport=name), 10) for size in (8, 64)]))
               for name in ("shm", "ucx")]
        self.refused(2, 'they differ in "transport": --ignore transport compares them even so', "compare", *two)
        self.assertEqual(len(self.verdicts(*two, "--ignore", "transport")), 2)
        self.assertEqual(list(self.verdicts(self.before, self.after, "--only", "bytes=64")), [64])
        self.refused(2, "before has no row with bytes=65: its values are 8, 64, 4096", "compare", self.before,
                     self.after, "--only", "bytes=65")
        self.refused(2, "before has no key size: its keys are op, bytes, transport", "compare", self.before,
                     self.after, "--only", "size=64")
        self.refused(2, "no figure named latenci that all runs have: before has latency, latency_p50", "compare",
                     self.before, self.after, "--figure", "latenci")
        shown = {one["figure"] for one in self.compared(self.before, self.after, "--percentiles")["rows"]}
        self.assertIn("latency_p99", shown)
        both = self.save("both.json", document([row(keys(8), 10), row({**keys(8), "op": "READ"}, 10)]))
        text = self.save("text.txt", (FORMATS / "nixlbench6.out").read_text().replace("4096 ", "8    "))
        self.refused(2, "they differ only in op=WRITE and in op=READ: choose one of these with --only", "compare",
                     text, both)

    def test_rows_that_one_run_has(self):
        fewer = self.save("fewer.json", document([row(keys(8), 10), row(keys(1 << 20), 10)]))
        found = self.compared(self.before, fewer)
        self.assertEqual([(one["run"], one["keys"]["bytes"]) for one in found["only_in"]],
                         [("before", 64), ("before", 4096), ("fewer", 1 << 20)])
        self.assertIn("only in fewer: op=WRITE bytes=1048576 transport=shm", self.passes("compare", self.before, fewer))

    def test_figures_that_one_run_has(self):
        rows = [row(keys(size), 10) for size in (8, 64)]
        rows[1]["figures"].pop()  # the bandwidth
        found = self.compared(self.before, self.save("fewer.json", document(rows)))
        self.assertEqual(found["figures_not_compared"], ["bandwidth"])
        self.assertEqual([(one["keys"]["bytes"], one["figure"]) for one in found["rows"]],
                         [(8, "latency"), (8, "bandwidth"), (64, "latency")])
        self.assertEqual(self.compared(self.before, self.after)["figures_not_compared"], [])
        for runs in ((self.before, self.folder / "fewer.json"), (self.folder / "fewer.json", self.before)):
            self.assertIn("Not compared, since only one run has it in the same row: bandwidth.",
                          self.passes("compare", *runs, COLUMNS="160"))

    def test_a_rate_that_p2p_refused_is_named(self):
        head = "operation,bytes,iterations,latency_avg_us,at_once,gb_per_second,transport,refused\n"
        before = self.save("p.csv", head + "read,64,100,1.5,16,2,shm,\n")
        after = self.save("q.csv", head + "read,64,100,1.5,16,,shm,9 GB/s is above the bound\n")
        self.assertIn("q: the rates of 1 row are left out, because the benchmark itself refused them: 9 GB/s is",
                      self.passes("compare", before, after, COLUMNS="160"))

    def test_a_latency_is_none_of_nixlbench(self):
        """Its column is a window divided by blocks: of eight at once an eighth of what each of them takes."""
        head = "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (GB/Sec)\n"
        theirs = self.save("theirs.txt", head + "4096 1 1.25 3.2768\n")
        ours = self.save("ours.json", document([row({"bytes": 4096, "batch": 1, "depth": 8}, 10)]))
        found = self.compared(theirs, ours)
        self.assertEqual([one["figure"] for one in found["rows"]], ["bandwidth"])
        self.assertEqual(set(found["figures_not_compared"]), {"latency", "time_per_block"})

    def test_three_runs(self):
        found = self.compared(self.before, self.after, f"third={self.after}", "--figure", "latency")
        self.assertEqual([one["run"] for one in found["rows"]], 3 * ["after"] + 3 * ["third"])
        fewer = self.save("fewer.json", document([row({**keys(8), "depth": 1}, 10)]))
        found = self.compared(self.before, fewer, f"again={fewer}")
        self.assertEqual(([one["keys"]["bytes"] for one in found["only_in"]], found["keys_not_matched"]),
                         ([64, 4096], ["depth"]))
        self.assertIn("third", self.passes("compare", self.before, self.after, f"third={self.after}"))

    def test_text_fits_and_is_coloured_where_asked(self):
        for width in (60, 80, 160):
            text = self.passes("compare", self.before, self.after, "--percentiles", COLUMNS=str(width))
            own = text.replace(str(self.folder), "")
            self.assertLessEqual(max(map(len, own.splitlines())), width, width)
        self.assertIn("▼ worse", text)
        self.assertIn("6 figures compared: 1 worse, 1 better, 2 same, 2 without an interval",
                      self.passes("compare", self.before, self.after))
        self.assertIn(METHOD, text)
        self.assertNotIn("\033[", text)
        self.assertIn("\033[", self.passes("compare", self.before, self.after, "--color", "always"))
        self.assertTrue(self.passes("compare", self.before, self.after, LC_ALL="C").isascii())

    def test_names_that_are_no_utf8(self):
        path = os.fsencode(self.folder) + b"/b\xff\x1b[31m.json"
        pathlib.Path(os.fsdecode(path)).write_bytes(self.after.read_bytes())
        result = subprocess.run([tool.WEFT, "compare", "--json", self.before, path], capture_output=True,
                                env=tool.environment(), timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(json.loads(result.stdout)["runs"][1]["label"], "b??[31m")
        table = (FORMATS / "nccl.out").read_bytes().replace(b"float", b"fl\xfft")
        text = self.folder / "table.out"
        text.write_bytes(table)
        self.assertEqual(self.compared(text, f"b={text}")["rows"][0]["keys"]["type"], "fl?t")

    def test_csv_and_markdown(self):
        rows = list(csv.DictReader(io.StringIO(self.passes("compare", "--csv", self.before, self.after))))
        self.assertEqual((rows[0]["bytes"], rows[0]["figure"], rows[0]["verdict"]), ("8", "latency", "worse"))
        self.assertEqual((rows[1]["figure"], rows[1]["low_percent"]), ("bandwidth", ""))
        text = self.passes("compare", "--markdown", self.before, f"a|b<script>={self.after}")
        self.assertIn("**worse**", text)
        self.assertIn("a\\|b&#60;script>", text)
        self.assertIn("<details><summary>2 unchanged</summary>", text)
        self.refused(2, "want one of --json, --csv and --markdown", "compare", "--json", "--csv", self.before,
                     self.after)

    def test_what_is_no_result_is_refused(self):
        self.refused(2, "hello.txt: it holds no result: want weft figures,", "compare", self.before,
                     self.save("hello.txt", "hello\n"))
        self.refused(2, "format 9, but this version reads format 1", "compare", self.before,
                     self.save("new.json", {"weft_figures": 9}))
        self.refused(2, "No such file", "compare", self.before, self.folder / "nowhere.json")
        self.refused(2, "have no row in common", "compare", self.before, FORMATS / "deepep_tuning.out")
        self.refused(2, "there is only one run", "compare", self.before)
        self.refused(2, "no run is given", "compare")
        broken = document([row(keys(8), 10)])
        broken["rows"][0]["figures"][0]["samples"][3] = -1
        self.refused(2, "sample 3 of latency is -1: want a finite number", "compare", self.before,
                     self.save("negative.json", broken))
        broken["rows"][0]["figures"][0]["samples"][3] = "x"
        self.refused(2, "rows[0]: samples[3] of latency is not a number", "compare", self.before,
                     self.save("text.json", broken))
        broken["rows"][0]["figures"][0] = {**broken["rows"][0]["figures"][0], "samples": [], "value": None}
        self.refused(2, "latency is nan: want a finite number", "compare", self.before, self.save("nan.json", broken))
        broken["rows"][0]["figures"][0]["value"] = 1e300
        self.refused(2, "latency is 1e+300: want a finite number from 0 to 1e15", "compare", self.before,
                     self.save("huge.json", broken))
        for option, value, says in (("--limit", "five", "want a number of percent"), ("--limit", "-1", "want a number"),
                                    ("--floor", "nan", "want a number"), ("--limit", "inf", "want a number"),
                                    ("--only", "bytes", '"bytes" is not KEY=VALUE'),
                                    ("--resamples", "1", "out of range"),
                                    ("--paired", "maybe", "none of auto, yes, no")):
            self.refused(2, says, "compare", self.before, self.after, option, value)
        os.mkfifo(self.folder / "pipe")
        self.refused(2, "not a regular file", "compare", self.before, self.folder / "pipe")

    def test_runs_that_ended_early_are_named(self):
        short = {**document([row(keys(8), 10)]), "complete": False, "cut_short": "SIGINT", "passed": False}
        path = self.save("short.json", short)
        self.assertIn("short: not all was measured: the benchmark was cut short by SIGINT",
                      " ".join(self.passes("compare", self.before, path).split()))
        failed = self.save("failed.json", {**document([row(keys(8), 10)]), "passed": False, "error": "rank 1 died"})
        self.assertEqual(self.compared(self.before, failed)["runs"][1]["remark"], "the run did not pass: rank 1 died")

    def test_other_hosts_and_versions_are_named(self):
        self.assertNotIn(" ran on ", self.passes("compare", self.before, self.after))
        other = self.save("other.json", {**document([row(keys(8), 10)]), "hosts": ["c", "b"], "version": "0.2.0"})
        base = self.folder / "base.json"
        self.passes("compare", self.before, "--save-baseline", base)
        for arguments in ((self.before, other), ("--baseline", base, other)):
            said = " ".join(self.passes("compare", *arguments).split())
            label = pathlib.Path(arguments[-2]).stem
            self.assertIn(f"{label} ran on a, and other on c, b.", said)
            self.assertIn(f"{label} was made by weft 0.1.0, and other by 0.2.0.", said)
        self.assertEqual([(one["hosts"], one["versions"]) for one in self.compared(self.before, other)["runs"]],
                         [(["a"], ["0.1.0"]), (["c", "b"], ["0.2.0"])])

    def test_refused_rows_are_left_out_and_named(self):
        doubtful = document([row(keys(8), 10), row(keys(64), 10)])
        doubtful["rows"][1]["refused"] = "1800 GB/s is above the bound of 450"
        text = self.passes("compare", self.before, self.save("doubtful.json", doubtful))
        self.assertIn("doubtful: 1 row left out, because the benchmark itself refused it: 1800 GB/s is above",
                      " ".join(text.split()))


if __name__ == "__main__":
    unittest.main()
