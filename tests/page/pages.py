#!/usr/bin/env python3
"""Pages in a headless Chromium: they show what the results contain, and no text of results becomes markup."""
import json
import pathlib
import tempfile
import unittest

import browser
import samples
import tool

MAX_BYTES = 3_000_000  # of the page of a run of 200 phases and 64 ranks
HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\"'&amp;<!--@data@"
STARTED = None  # the browser of all tests


def setUpModule():
    global STARTED
    holder = tempfile.TemporaryDirectory(prefix="weft-test-", ignore_cleanup_errors=True)
    unittest.addModuleCleanup(holder.cleanup)
    STARTED = browser.Browser(PROGRAM, holder.name)
    unittest.addModuleCleanup(STARTED.close)


class Pages(tool.ToolTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def make(self, *documents):
        """The page of these documents, each a file."""
        files = []
        for i, document in enumerate(documents):
            files.append(self.folder / f"{i}.json")
            files[-1].write_text(json.dumps(document), encoding="utf-8")
        html = self.folder / "page.html"
        self.assertEqual(self.passes("report", *files, "--html", html), "")
        return html

    def open(self, html, width=1600, dark=False):
        page = browser.Page(STARTED, html, width, dark=dark)
        self.addCleanup(page.close)
        return page

    def look(self, page, width):
        """What holds of every page."""
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.empty_charts(), [])
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(page.evaluate("document.querySelectorAll('canvas:not([role=img][aria-label])').length"), 0)
        self.assertEqual(page.evaluate("""Array.from(document.querySelectorAll("section")).filter((section) =>
            section.querySelector("canvas") && !section.querySelector("details table tbody tr")).length"""), 0,
                         "a chart without its data as a table")
        self.assertEqual(page.evaluate("""(() => {
            const names = Array.from(document.querySelectorAll("[id]"), (one) => one.id);
            return names.length - new Set(names).size; })()"""), 0, "two elements of one name")

    def number(self, text):
        return None if text == "" else float(text)

    # --- runs ---

    def check_ranks(self, page, results, first=None):
        """Every figure of every rank in every phase, or of the `first` ones."""
        table = page.table("ranks")
        shown = {(int(cells["phase"]), int(cells["rank"])): cells
                 for cells in (dict(zip(table["heads"], row)) for row in table["rows"])}
        members = {(phase["index"], rank["rank"]): rank for phase in results["phases"] for rank in phase["ranks"]
                   if rank["state"] != "not_member"}
        self.assertEqual(list(shown), sorted(members)[:first])
        for place in shown:
            rank = members[place]
            cells = shown[place]
            self.assertEqual((cells["state"], cells["host"], cells["reason"]),
                             (rank["state"], rank["host"], rank["reason"]), place)
            self.assertEqual((int(cells["checked"]), int(cells["lost"])),
                             (rank["checked"], rank["num_lost_selections"]))
            if rank["both"]["count"] == 0:
                continue
            for operation in ("both", "dispatch", "combine"):
                for name in ("avg", "min", "p50", "p99", "max"):
                    self.assertEqual(float(cells[f"{operation}_{name}"]), rank[operation][name], place)
            total = (rank["dispatch_logical_bytes"] + rank["combine_logical_bytes"]) / rank["both"]["avg"] / 1e3
            self.assertAlmostEqual(float(cells["gbps"]), total, delta=total * 1e-5)
            wire = rank["combine_wire_bytes"] / rank["combine"]["avg"] / 1e3
            self.assertAlmostEqual(float(cells["combine_wire_gbps"]), wire, delta=wire * 1e-5)

    def check_changes(self, page, results):
        table = page.table("changes")
        self.assertEqual(table["heads"], list(results["transitions"][0]))
        for row, transition in zip(table["rows"], results["transitions"], strict=True):
            for text, value in zip(row, transition.values()):
                self.assertEqual(text if isinstance(value, str) else self.number(text), value)

    def check_traffic(self, page, results, phases=None):
        """The rows of every sender, in all phases or in those."""
        table = page.table("traffic")
        self.assertEqual(table["heads"][:3], ["phase", "from rank", "dispatches"])
        wanted = [[phase["index"], rank["rank"], rank["both"]["count"], *rank["dispatch_rows"]]
                  for phase in results["phases"] if phases is None or phase["index"] in phases
                  for rank in phase["ranks"] if rank["dispatch_rows"]]
        self.assertEqual([[int(text) for text in row] for row in table["rows"]], wanted)

    def check_times(self, page, results):
        table = page.table("times")
        self.assertEqual([[self.number(text) for text in row] for row in table["rows"]],
                         [[phase["index"], phase["begin_s"], phase["end_s"]] for phase in results["phases"]])

    def test_run_on_every_width_and_theme(self):
        run_dir, html = self.folder / "run", self.folder / "run.html"
        prometheus = self.folder / "run.prom"
        self.passes("elastic", tool.SOURCE / "plans/expansion_fault_rejoin.json", "--run-dir", run_dir, "--num-tokens",
                    "16", "--hidden-dim", "256", "--quiet", "--html", html, "--prometheus", prometheus)
        results = json.loads((run_dir / "results.json").read_text(encoding="utf-8"))
        page = self.open(html)
        self.look(page, 1600)
        self.check_ranks(page, results)
        self.check_changes(page, results)
        self.check_traffic(page, results)
        self.check_times(page, results)
        self.check_timeline(page, results)
        self.assertEqual(page.evaluate("document.getElementById('verdict').textContent"), "Passed")
        timeline = page.table("timeline")
        self.assertEqual([row[0] for row in timeline["rows"]], [str(rank) for rank in range(8)])
        self.assertEqual(timeline["rows"][6], ["6", "", "passed", "killed", "passed"])
        self.assertIn("weft_elastic_passed{job=\"elastic\"} 1\n", prometheus.read_text(encoding="utf-8"))
        again = self.folder / "again.html"
        self.passes("report", run_dir, "--html", again)
        self.assertEqual(again.read_bytes(), html.read_bytes())
        self.check_themes(page)
        self.look(self.open(html, 400), 400)

    def check_timeline(self, page, results):
        """What the chart of time paints: of rank 6, which joins, dies and comes back."""
        painted = page.evaluate("""(() => {
            const run = readRun(JSON.parse(document.getElementById("data").textContent));
            const chart = timelineInTime(run, timelineHeads(run), {});
            const row = run.data.ranks.indexOf(6) + TIME_HEADS.length;
            const of = (list) => list.filter((one) => one.row === row);
            return {end: chart.end, spans: of(chart.spans).map((span) => [span.from, span.to]),
                    moments: of(chart.moments).map((one) => [one.at, one.mark]),
                    tip: chart.tip(run.data.phases[1].begin_s, row)}; })()""")
        phases = results["phases"]
        joined, killed, back = [change["time_s"] for change in results["transitions"] if change["rank"] == 6]
        self.assertEqual(painted["spans"], [[phases[1]["begin_s"], joined], [joined, phases[1]["end_s"]],
                                            [phases[2]["begin_s"], killed], [phases[3]["begin_s"], back],
                                            [back, phases[3]["end_s"]]])
        self.assertEqual(painted["moments"], [[joined, "\u25b8"], [killed, "\u2715"], [back, "\u25b8"]])
        self.assertEqual(painted["end"], results["elapsed_s"])
        self.assertIn("rank 6, phase 1\n", painted["tip"])
        # And by phase, when that is chosen.
        page.evaluate("""(() => { const choice = document.querySelector("section select");
            choice.value = "phase"; choice.dispatchEvent(new Event("change")); })()""")
        self.assertEqual(page.evaluate("Chart.getChart(document.querySelector('canvas')).scales.x.max"), 3.5)

    def test_a_run_of_an_older_version(self):
        """Without times and without who sent to whom: the timeline is by phase, and there is no matrix."""
        results = samples.results(4, 6, 1)
        for phase in results["phases"]:
            del phase["begin_s"], phase["end_s"]
            for rank in phase["ranks"]:
                del rank["dispatch_rows"]
        for change in results["transitions"]:
            del change["time_s"]
        page = self.open(self.make(results))
        self.look(page, 1600)
        self.check_ranks(page, results)
        self.assertEqual(page.evaluate("document.querySelectorAll('#traffic, #times').length"), 0)
        self.assertEqual(page.evaluate("Chart.getChart(document.querySelector('canvas')).scales.x.max"), 3.5)
        labels = page.evaluate("Array.from(document.querySelectorAll('label'), (one) => one.textContent)")
        self.assertEqual([text for text in labels if text.startswith("Across")], [])

    def test_rows_of_every_size(self):
        """Few and many rows, and the numbers at which the page's short form of them takes one character more."""
        results = samples.results(2, 12, 1)
        sizes = [1, 2, 74, 75, 76, 1257, 1258, 1259, 1260, 20202, 10 ** 6, 2 ** 40]
        for shift, rank in enumerate(results["phases"][0]["ranks"]):
            rank["dispatch_rows"] = sizes[shift:] + sizes[:shift]
        ranks = results["phases"][1]["ranks"]
        for rank in ranks:
            if rank["dispatch_rows"]:
                rank["dispatch_rows"] = [0] * 12
        ranks[3]["dispatch_rows"] = [5] * 11 + [0] if ranks[3]["dispatch_rows"] else []
        page = self.open(self.make(results))
        self.look(page, 1600)
        self.check_traffic(page, results)

    def test_a_run_that_ended_early(self):
        results = samples.results(3, 4, 1)
        results.update(passed=False, error="rank 2 failed", exit_status=1, elapsed_s=1.25)
        results["phases"][1].update(end_s=None)
        results["phases"][2].update(begin_s=None, end_s=None)
        results["transitions"] = [change for change in results["transitions"] if change["phase"] < 2]
        results["transitions"][-1].update(time_s=None)
        page = self.open(self.make(results))
        self.look(page, 1600)
        self.check_times(page, results)
        self.assertEqual(page.evaluate("Chart.getChart(document.querySelector('canvas')).scales.x.max"), 1.25)

    def check_themes(self, page):
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        light = page.evaluate(ground)
        page.call("Page.bringToFront")
        page.prefer_dark(True)
        page.until("document.getElementById('theme').textContent === 'Light'")
        self.assertNotEqual(light, page.evaluate(ground))
        page.evaluate("document.getElementById('theme').click()")
        self.assertEqual(page.evaluate(ground), light)
        self.assertGreater(len(page.call("Page.printToPDF", printBackground=True)["data"]), 10000)
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.empty_charts(), [])

    def test_large_run(self):
        results = samples.results(200, 64, 4)
        html = self.make(results)
        size = html.stat().st_size
        page = self.open(html)
        print(f"200 phases, 64 ranks: {size} bytes, drawn in {page.evaluate('document.body.dataset.drawnMs')} ms, "
              f"{page.evaluate('document.querySelectorAll(`canvas`).length')} charts", flush=True)
        self.assertLess(size, MAX_BYTES)
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.empty_charts(), [])
        heat = page.table("heat")
        self.assertEqual((len(heat["rows"]), len(heat["heads"])), (64, 201))
        # Of the table of every rank, which has 400,000 cells, there is a part, and more at the press of a button.
        self.check_ranks(page, results, 500)
        page.evaluate("document.getElementById('ranks').closest('details').querySelector('button').click()")
        self.check_ranks(page, results, 1500)
        # Of the matrices there are as many as fit, the last one among them; their table, too, begins with 500 rows.
        shown = page.evaluate("""JSON.parse(document.getElementById('data').textContent).traffic.matrices.map(
            (matrix) => matrix.phase)""")
        self.assertEqual(shown, list(range(199 % (shown[1] - shown[0]), 200, shown[1] - shown[0])))
        self.assertGreaterEqual(len(shown), 40)
        self.assertIn(f"Of 200 phases this page has the matrices of {len(shown)};",
                      page.evaluate("document.body.textContent"))
        while page.evaluate("!document.getElementById('traffic').closest('details').querySelector('button').hidden"):
            page.evaluate("document.getElementById('traffic').closest('details').querySelector('button').click()")
        self.check_traffic(page, results, shown)
        self.check_cells(page.evaluate("JSON.parse(document.getElementById('data').textContent)"), results)

    def check_cells(self, data, results):
        """All of them, as they stand in the page's document."""
        at = {name: i for i, name in enumerate(data["columns"])}
        self.assertEqual(len(data["cells"]), 200 * 64)
        for cell in data["cells"]:
            rank = results["phases"][cell[at["phase"]]]["ranks"][cell[at["rank"]]]
            self.assertEqual(data["states"][cell[at["state"]]], rank["state"])
            self.assertEqual(cell[at["count"]], rank["both"]["count"])
            if cell[at["count"]]:
                self.assertEqual([cell[at[f"{operation}_p99"]] for operation in ("both", "dispatch", "combine")],
                                 [rank[operation]["p99"] for operation in ("both", "dispatch", "combine")])

    # --- figures ---

    def check_figures(self, page, kind, *documents):
        table = page.table("figures-" + kind)
        wanted = [(row, figure) for document in documents for row in document["rows"] for figure in row["figures"]]
        self.assertEqual(len(table["rows"]), len(wanted))
        for texts, (row, figure) in zip(table["rows"], wanted):
            cells = dict(zip(table["heads"], texts))
            for key, value in row["keys"].items():
                self.assertEqual(cells[key], ("no", "yes")[value] if isinstance(value, bool) else str(value))
            self.assertEqual((cells["figure"], cells["unit"], cells["refused"]),
                             (figure["name"], figure["unit"], row["refused"]))
            for name in ("value", "min", "p50", "p95", "p99", "p999", "max", "bound"):
                self.assertEqual(self.number(cells[name]), figure[name], cells)

    def test_transfers(self):
        document = samples.transfers()
        document["rows"][3]["refused"] = "above its bound: 15 GB/s of 12.5"
        page = self.open(self.make(document))
        self.look(page, 1600)
        self.check_figures(page, "transfer", document)
        self.assertIn("above its bound", page.evaluate("document.getElementById('refused').textContent"))
        drawn = page.table("chart-latency")
        series = [row for row in drawn["rows"] if row[0] == "WRITE \u00b7 shm"]
        self.assertEqual(len(series), 7)  # without the refused one
        first = document["rows"][0]["figures"][0]
        self.assertEqual([float(text) for text in series[0][1:5]], [4096, first["p50"], first["min"], first["p99"]])
        labels = page.evaluate("""Chart.getChart(document.querySelectorAll("canvas")[1]).data.datasets.map(
            (dataset) => dataset.label)""")
        self.assertIn("bound: host copy", labels)
        self.look(self.open(self.make(document), 400, dark=True), 400)

    def test_traffic(self):
        document = samples.traffic()
        page = self.open(self.make(document))
        self.look(page, 1600)
        self.check_figures(page, "traffic", document)
        matrix = page.table("matrix-0")
        self.assertEqual(matrix["heads"], ["from", "to", "bytes", "bandwidth"])
        self.assertEqual(matrix["rows"][0], ["0", "1", "1048576", "1.1"])
        self.assertEqual(len(matrix["rows"]), 12)

    def test_several_runs_and_repeats(self):
        before, after = samples.transfers(repeats=3), samples.transfers(1.5)
        page = self.open(self.make(before, after))
        self.look(page, 1600)
        self.check_figures(page, "transfer", before, after)
        drawn = page.table("chart-latency")["rows"]
        self.assertEqual(len(drawn), 2 * 4 * 8)  # repeats are one point
        self.assertEqual(len({row[0] for row in drawn}), 8)
        middle = before["rows"][1]["figures"][0]
        first = next(row for row in drawn if row[0].endswith("0.json \u00b7 WRITE \u00b7 shm"))
        self.assertEqual(float(first[2]), middle["p50"])

    def test_ep_and_cut_short(self):
        document = samples.ep()
        document.update(complete=False, cut_short="SIGINT")
        page = self.open(self.make(document))
        self.look(page, 1600)
        self.check_figures(page, "ep", document)
        self.assertEqual(page.evaluate("document.querySelector('.verdict').textContent"), "Cut short by SIGINT")
        self.look(self.open(self.make(document), 400), 400)

    def test_documents_of_several_kinds(self):
        transfers, ep = samples.transfers(), samples.ep()
        page = self.open(self.make(transfers, ep))
        self.look(page, 1600)
        self.check_figures(page, "transfer", transfers)
        self.check_figures(page, "ep", ep)

    def test_p2p(self):
        html = self.folder / "p2p.html"
        text = self.passes("p2p", "-s", "8,4KB,64KB", "-n", "20", "--json", "--quiet", "--html", html)
        page = self.open(html)
        self.look(page, 1600)
        table = page.table("figures-p2p")
        shown = {(cells["op"], cells["bytes"], cells["figure"]): float(cells["p50"] or cells["value"])
                 for cells in (dict(zip(table["heads"], row)) for row in table["rows"])}
        for result in json.loads(text)["results"]:
            place = (result["operation"].upper(), str(result["bytes"]))
            self.assertEqual(shown[place + ("latency",)], result["latency_p50_us"])
            self.assertEqual(shown.get(place + ("bandwidth",)), result.get("gb_per_second"))

    def test_comparison(self):
        document = samples.comparison()
        page = self.open(self.make(document))
        self.look(page, 1600)
        table = page.table("changes")
        for texts, row in zip(table["rows"], document["rows"], strict=True):
            cells = dict(zip(table["heads"], texts))
            self.assertEqual([float(cells[name]) for name in ("baseline", "value", "change %", "low %", "high %")],
                             [row[name] for name in ("baseline", "value", "change_percent", "low_percent",
                                                     "high_percent")])
            self.assertEqual((cells["verdict"], cells["figure"]), (row["verdict"], "latency"))
        self.assertEqual(page.evaluate("document.getElementById('verdict').textContent"),
                         "worse: 2 beyond the limit of 5 %")
        self.look(self.open(self.make(document), 400), 400)

    def test_a_verdict_has_the_colour_of_its_meaning(self):
        for limit, beyond, verdict, colour in ((None, 0, "worse", "bad"), (None, 0, "same", "good"),
                                               (50, 0, "worse", "good"), (0, 1, "worse", "bad"),
                                               (None, 0, "unknown", "")):
            document = samples.comparison()
            document.update(limit_percent=limit, beyond_limit=beyond, verdict=verdict)
            page = self.open(self.make(document))
            self.assertEqual(page.evaluate("document.getElementById('verdict').className"), colour, verdict)
        self.assertEqual(page.evaluate("""forestTips({verdict: "unknown", significant: false}, () => "")[3]"""),
                         "no interval")

    def test_the_median_of_an_even_number(self):
        page = self.open(self.make(samples.comparison()))
        self.assertEqual(page.evaluate("[median([4, 1, 2, 8]), median([2, 1, 9]), median([1, 1.000002])]"),
                         [3, 2, 1])
        self.assertIsNone(page.evaluate("median([])"))

    # --- strangers ---

    def check_harmless(self, html):
        text = html.read_text(encoding="utf-8")
        self.assertEqual(text.count("<script"), 3)
        self.assertEqual(text.count("</script"), 3)
        page = self.open(html, 400)
        self.look(page, 400)
        self.assertIsNone(page.evaluate("window.hit"))
        self.assertEqual(page.evaluate("document.querySelectorAll('img, iframe, link, object').length"), 0)
        self.assertIn(HOSTILE, page.evaluate("document.body.textContent"))
        return page

    def test_words_of_a_run_are_no_markup(self):
        results = samples.results(3, 4, 1)
        results.update(job=HOSTILE[:60], error=HOSTILE, store=HOSTILE, passed=False)
        results["config"][HOSTILE] = HOSTILE
        results["phases"][1]["ranks"][0].update(reason=HOSTILE, host="<b>" + 57 * "h")
        page = self.check_harmless(self.make(results))
        self.check_ranks(page, results)

    def test_words_of_figures_are_no_markup(self):
        keys = {"op": HOSTILE, HOSTILE: "__proto__", "bytes": 8}
        figure = rate = samples.rate(HOSTILE[:47], 5, unit="<b>us</b>", bound=7.0, bound_name=HOSTILE[:47])
        rows = [samples.row({**keys, "bytes": size}, [figure, samples.distribution(3)], refused=refused)
                for size, refused in ((8, ""), (16, ""), (32, HOSTILE))]
        document = samples.figures(HOSTILE[:47], rows, error=HOSTILE, passed=False, settings={HOSTILE: HOSTILE},
                                   hosts=[HOSTILE])
        self.assertEqual(rate["unit"], "<b>us</b>")
        self.check_harmless(self.make(document))

    def test_words_of_a_comparison_are_no_markup(self):
        document = samples.comparison()
        document["rows"][0].update(figure=HOSTILE, run=HOSTILE, unit=HOSTILE, verdict=HOSTILE)
        document["runs"][0].update(label=HOSTILE, path=HOSTILE)
        document["only_in"][0]["keys"] = {HOSTILE: HOSTILE}
        self.check_harmless(self.make(document))


if __name__ == "__main__":
    PROGRAM = browser.require(tool.weft)
    unittest.main()
