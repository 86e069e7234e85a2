#!/usr/bin/env python3
"""--html and --prometheus: files are written completely or not at all, a strict reader accepts the series, and faults
are refused."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import browser
import openmetrics
import samples
import tool

HOSTILE = 'a"b\\c\nd</script>'


class Files(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.prom = self.folder / "weft.prom"

    def write(self, document, name="document.json"):
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def series(self, document):
        """What a node exporter would read: its format has no end mark, and all else here is that of OpenMetrics."""
        self.passes("report", self.write(document), "--prometheus", self.prom)
        families = openmetrics.read(self.prom.read_text(encoding="utf-8") + "# EOF\n")
        self.assertEqual({family["type"] for family in families.values()}, {"gauge"})
        for name, family in families.items():
            self.assertRegex(name, "^weft_(bench|elastic)_[a-zA-Z0-9_]+$")
            self.assertIn("HELP", family)
        return {(name, frozenset(labels)): value for name, family in families.items()
                for (_, labels), value in family["values"].items()}

    def pick(self, series, name, **labels):
        found = [value for (of, has), value in series.items() if of == name and set(labels.items()) <= set(has)]
        self.assertEqual(len(found), 1, (name, labels, found))
        return found[0]

    # --- for a node exporter ---

    def test_figures_for_a_node_exporter(self):
        document = samples.transfers(repeats=2)
        document["rows"][5]["refused"] = "too short a window"
        series = self.series(document)
        where = {"kind": "transfer", "op": "WRITE", "bytes": "4096", "transport": "shm", "repeat": "0"}
        latency, bandwidth, messages, cpu = document["rows"][0]["figures"]
        near = lambda got, want: self.assertAlmostEqual(got, want, delta=abs(want) * 1e-8)
        near(self.pick(series, "weft_bench_latency_seconds", **where), latency["value"] / 1e6)
        near(self.pick(series, "weft_bench_latency_quantile_seconds", quantile="0.99", **where), latency["p99"] / 1e6)
        near(self.pick(series, "weft_bench_bandwidth_bytes_per_second", **where), bandwidth["value"] * 1e9)
        near(self.pick(series, "weft_bench_bandwidth_bound_bytes_per_second", bound="host copy", **where), 12.5e9)
        near(self.pick(series, "weft_bench_messages_per_second", **where), messages["value"])
        near(self.pick(series, "weft_bench_cpu_ratio", **where), cpu["value"] / 100)
        self.assertEqual(self.pick(series, "weft_bench_passed", kind="transfer"), 1)
        rows = [1 for (name, _) in series if name == "weft_bench_latency_seconds"]
        self.assertEqual(len(rows), len(document["rows"]) - 1)

    def test_words_of_figures_stay_labels(self):
        keys = {"op": HOSTILE, "kind": "mine", "1st-key": True, "bytes": 8}
        one = samples.row(keys, [samples.distribution(3), samples.rate("odd name", 1, "furlongs")])
        series = self.series(samples.figures("transfer", [one, one, samples.row({}, [samples.rate("idle", 0)])]))
        labels = {"op": HOSTILE.replace("\n", "?"), "key_kind": "mine", "key_1st_key": "true", "bytes": "8"}
        self.assertEqual(len([1 for name, has in series if name == "weft_bench_odd_name"
                              and set(labels.items()) <= set(has)]), 2)
        self.assertEqual(self.pick(series, "weft_bench_odd_name", row="1", **labels), 1)

    def test_results_for_a_node_exporter(self):
        results = samples.results(3, 4, 1)
        results["job"] = HOSTILE
        series = self.series(results)
        job = HOSTILE.replace("\n", "?")
        self.assertEqual(self.pick(series, "weft_elastic_passed", job=job), 1)
        self.assertEqual(self.pick(series, "weft_elastic_phase_ranks", phase="1", state="killed"), 1)
        last = results["phases"][2]["ranks"]
        rank = next(rank for rank in last if rank["state"] == "passed")
        got = self.pick(series, "weft_elastic_rank_operation_quantile_seconds", rank=str(rank["rank"]), quantile="0.99",
                        operation="combine", host="node0")
        self.assertAlmostEqual(got, rank["combine"]["p99"] / 1e6, delta=got * 1e-8)
        stalls = [1 for name, _ in series if name == "weft_elastic_longest_stall_seconds"]
        self.assertEqual(len(stalls), len([1 for one in results["transitions"] if one["longest_stall_us"]]))

    def test_how_long_a_measurement_took(self):
        begun = time.monotonic()
        self.passes("p2p", "-s", "8", "-n", "20", "--quiet", "--prometheus", self.prom)
        families = openmetrics.read(self.prom.read_text(encoding="utf-8") + "# EOF\n")
        [took] = families["weft_bench_elapsed_seconds"]["values"].values()
        self.assertTrue(0 < took <= time.monotonic() - begun, took)

    # --- whole or not at all ---

    def left_in(self, folder):
        return sorted(path.name for path in folder.iterdir())

    def test_a_file_is_replaced_whole(self):
        out = self.folder / "out"
        out.mkdir()
        for option, name in (("--html", "page.html"), ("--prometheus", "weft.prom")):
            path = out / name
            path.write_text("before", encoding="utf-8")
            self.passes("report", self.write(samples.ep()), option, path)
            self.assertGreater(len(path.read_text(encoding="utf-8")), 1000)
            self.assertEqual(path.stat().st_mode & 0o777, 0o666 & ~os.umask(os.umask(0o022)))
        self.assertEqual(self.left_in(out), ["page.html", "weft.prom"])

    def test_what_was_there_stays_when_there_is_no_room(self):
        out = self.folder / "out"
        out.mkdir()
        source = self.write(samples.ep())
        for option, name in (("--html", "page.html"), ("--prometheus", "weft.prom")):
            path = out / name
            path.write_text("before", encoding="utf-8")
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            ended = subprocess.run([tool.WEFT, "report", str(source), option, str(path)], capture_output=True,
                                   text=True, env=tool.environment(), stdin=subprocess.DEVNULL, preexec_fn=limit,
                                   timeout=tool.TIMEOUT_S)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(name, ended.stderr)
            self.assertEqual(path.read_text(encoding="utf-8"), "before")
        self.assertEqual(self.left_in(out), ["page.html", "weft.prom"])

    # --- refused, before anything is run ---

    def test_places_that_are_none(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        link = self.folder / "link"  # as /dev/stdout is one, which root could replace
        link.symlink_to(self.folder / "target")
        (self.folder / "target").touch()
        source = self.write(samples.results(2, 2, 0))
        for path, says in ((self.folder, "it is a directory"), (fifo, "not a regular file"), (link, "it is a link"),
                           (self.folder / "no" / "page.html", "cannot create it")):
            for option in ("--html", "--prometheus"):
                self.refused(3, says, "report", source, option, path)
                self.refused(3, says, "elastic", "--run-dir", self.folder / "run", option, path)
                self.refused(3, says, "p2p", option, path)
            self.refused(3, says, "bench", "ep", "--tokens", 1, "--ranks", 2, "--json", path)
        self.assertFalse((self.folder / "run").exists())
        self.assertTrue(link.is_symlink() and fifo.is_fifo())

    def test_who_has_no_results(self):
        for option in ("--html", "--prometheus"):
            path = self.folder / "page"
            self.refused(2, "the initiator has the results", "p2p", "--mode", "target", option, path)
            self.refused(2, "without a plan", "elastic", "--store", "http://127.0.0.1:1", option, path)
            self.assertFalse(path.exists())

    def test_documents_that_are_none(self):
        page = self.folder / "page.html"
        bench, comparison = self.write(samples.ep(), "bench.json"), self.write(samples.comparison(), "comparison.json")
        run = self.write(samples.results(2, 2, 0), "results.json")
        self.refused(2, "want --html FILE", "report", bench)
        self.refused(2, "one file too many", "report", run, run, "--html", page)
        self.refused(3, "none.json: No such file", "report", "none.json", run, "--html", page)
        self.refused(2, "want no other file", "report", comparison, bench, "--html", page)
        self.refused(2, "and also written by --html", "report", run, bench, "--html", bench)
        self.refused(2, "a file for each", "report", bench, "--html", page, "--prometheus", page)
        later = self.write({**samples.ep(), "weft_figures": 2}, "later.json")
        self.assertIn("format 2", self.fails("report", later, "--html", page))
        self.assertIn("weft_figures: is missing", self.fails("report", bench, run, "--html", page))
        broken = samples.ep()
        broken["rows"][2]["figures"][0]["p50"] = "fast"
        self.assertIn("rows[2].figures[0].p50", self.fails("report", self.write(broken), "--html", page))
        for member in ("keys", "figure", "change_percent"):
            broken = samples.comparison()
            del broken["rows"][1][member]
            self.assertIn(f"rows[1].{member}", self.fails("report", self.write(broken), "--html", page))
        self.assertFalse(page.exists())

    def test_what_is_read_stays(self):
        """However it is named: nothing is written over it."""
        run = self.folder / "run"
        run.mkdir()
        results = self.write(samples.results(2, 2, 0), "run/results.json")
        figures = self.write(samples.ep())
        plan = self.write([[0], [0, 1]], "plan.json")
        matrix = self.folder / "matrix.txt"
        matrix.write_text("0 1K\n1K 0\n", encoding="utf-8")
        settings = self.folder / "settings.toml"
        settings.write_text("num_iter = 16\n", encoding="utf-8")
        before = {path: path.read_bytes() for path in (results, figures, plan, matrix, settings)}
        has_toml = "no tomlplusplus" not in tool.weft("bench", "transfer", "--config_file", settings, "--json", "-",
                                                      "--csv", "-").stderr
        again = lambda path: f"{path.parent}/../{path.parent.name}/{path.name}"  # another name of it
        for option in ("--html", "--prometheus"):
            for read in (run, results):
                self.refused(2, f"and also written by {option}", "report", read, option, again(results))
            self.refused(2, "and also written by", "elastic", plan, "--run-dir", self.folder / "new", option,
                         again(plan))
        for option in ("--html", "--prometheus", "--json", "--csv"):
            for read, name in ((matrix, "traffic"), (settings, "transfer"))[:2 if has_toml else 1]:
                how = "--matrix" if read == matrix else "--config_file"
                self.refused(2, f"and also written by {option}", "bench", name, how, read, option, again(read))
        for operand in (figures, f"A={results},{figures}"):
            self.refused(2, "and also written by --html", "compare", operand, figures, "--html", again(figures))
        self.refused(2, "and also written by --html", "compare", run, run, "--html", results)
        page = self.folder / "page"
        self.refused(2, "a file for each", "compare", figures, figures, "--html", page, "--save-baseline", again(page))
        self.refused(2, "a file for each", "bench", "ep", "--json", page, "--csv", again(page))
        self.refused(2, "a file for each", "report", figures, "--html", page, "--prometheus", again(page))
        self.assertEqual(before, {path: path.read_bytes() for path in before})
        self.assertFalse(page.exists())

    def fails(self, *arguments):
        ended = tool.weft(*arguments)
        self.assertNotEqual(ended.returncode, 0, arguments)
        self.assertEqual(ended.stdout, "")
        return ended.stderr


if __name__ == "__main__":
    if browser.no_pages(tool.weft):
        print("skipped: " + browser.no_pages(tool.weft))
        sys.exit(77)
    unittest.main()
