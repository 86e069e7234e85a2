#!/usr/bin/env python3
"""The results of weft p2p as a table, as CSV and as JSON."""
import csv
import io
import json
import re
import signal
import subprocess
import unittest

import tool
from p2p_sides import running

HEADER = ("operation,bytes,iterations,latency_min_us,latency_p50_us,latency_p99_us,latency_p999_us,latency_max_us,"
          "latency_avg_us,at_once,per_second,gb_per_second,peer_gb_per_second,checked,transport,initiator_memory,"
          "target_memory,same_gpu,bound,bound_gb_per_second,bound_percent,refused")
QUANTILES = [f"latency_{name}_us" for name in ("min", "p50", "p99", "p999", "max")]
WIDTH = 100


class Table(tool.ToolTest):
    def test_columns(self):
        lines = self.passes("p2p", "-s", "4KB,1MB", "-n", 10, "--depth", 7).splitlines()
        self.assertRegex(lines[0], r"^ +─+ latency \(us\) ─+  ─+ several under way ─+$")
        self.assertEqual(lines[1].split(), "op size p50 p99 p99.9 max depth 1/s GB/s bound data via".split())
        self.assertRegex(lines[2], r"^write +4 KiB( +[\d.]+){4} +7 +\d+ +[\d.]+ +ok    shm$")
        self.assertRegex(lines[-2], r"^notify +4 KiB( +[\d.]+){4} +1 +\d+ +-$")
        self.assertRegex(lines[-1], r"^bound: host copy, not known: .*'weft bench limits'")
        self.assertNotIn("\033", "".join(lines))

    def test_it_fits(self):
        for more in ((), ("--bidirectional",)):
            lines = self.passes("p2p", "-s", "8,100001,64KB", "-n", 10, *more).splitlines()
            self.assertEqual([line for line in lines if len(line) > WIDTH], [])
            self.assertIs("peer's" in lines[1].split(), more != ())

    def test_colours(self):
        self.assertIn("\033[1m", self.passes("p2p", "-s", 8, "-n", 5, "--color", "always"))


class Uses(tool.ToolTest):
    """What the network library has chosen."""
    def test_it_is_shown_once(self):
        for transport in ("ofi", "ucx"):
            result = tool.weft("p2p", "-s", "8,64", "-n", 5, "--transport", transport)
            if result.returncode == 3:
                continue  # the transport does not work on this host
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(len(re.findall(rf"(?m)^uses: {transport} \S+ \S+", result.stdout)), 1, result.stdout)
            said = json.loads(self.passes("p2p", "--json", "-s", 8, "-n", 5, "--transport", transport))
            self.assertRegex(said["uses"], rf"^{transport} \S+ \S+")

    def test_shared_memory_has_none(self):
        self.assertNotIn("uses:", self.passes("p2p", "-s", 8, "-n", 5, "--transport", "shm"))


class Csv(tool.ToolTest):
    def test_each_row_has_every_column(self):
        text = self.passes("p2p", "--csv", "-s", "8,1MB", "-n", 50, "--depth", 4, "--bidirectional")
        self.assertEqual(text.splitlines()[0], HEADER)
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([(row["operation"], row["bytes"]) for row in rows],
                         [(op, size) for op in ("write", "read") for size in ("8", "1048576")] + [("notify", "8")])
        for row in rows:
            self.assertNotIn(None, row)  # no more fields than columns
            values = [float(row[name]) for name in QUANTILES]
            self.assertEqual(values, sorted(values))
            self.assertEqual((row["initiator_memory"], row["target_memory"], row["same_gpu"]), ("host", "host", "no"))
            moves = row["operation"] != "notify"
            self.assertEqual((row["checked"], row["at_once"]), ("yes", "4") if moves else ("no", "1"))
            self.assertIs(row["gb_per_second"] != "", moves)
            self.assertIs(row["peer_gb_per_second"] != "", moves)

    def test_a_disk_that_is_full(self):
        for form in ((), ("--csv",), ("--json",)):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([tool.WEFT, "p2p", *form, "-n", "5"], stdout=full, stderr=subprocess.PIPE,
                                        env=tool.environment(), text=True, timeout=tool.TIMEOUT_S)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("No space left", result.stderr, form)

    def test_a_row_is_there_when_it_is_measured(self):
        with running("--csv", "--op", "write", "-s", "8,64MB", "-n", 20000, "--depth", 1, "--no-check") as process:
            self.assertEqual(process.stdout.readline(), HEADER + "\n")
            self.assertRegex(process.stdout.readline(), "^write,8,20000,")
            self.assertIsNone(process.poll())  # the second one takes longer
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=tool.TIMEOUT_S)[0], "")


class Json(tool.ToolTest):
    def test_members(self):
        said = json.loads(self.passes("p2p", "--json", "-s", "8", "-n", 50, "--memory", "user"))
        self.assertEqual({name: said[name] for name in said if name != "results"},
                         {"memory": "user", "initiator_memory": "user", "target_memory": "user", "same_gpu": False,
                          "bidirectional": False, "complete": True})
        for one in said["results"]:
            self.assertEqual([one[name] for name in QUANTILES], sorted(one[name] for name in QUANTILES))
            moves = one["operation"] != "notify"
            self.assertEqual(set(one) - {"gb_per_second", "bound"},
                             set(HEADER.split(",")) - {"gb_per_second", "peer_gb_per_second", "initiator_memory",
                                                       "target_memory", "same_gpu", "bound", "bound_gb_per_second",
                                                       "bound_percent", "refused"})
            self.assertIs("gb_per_second" in one, moves)
            self.assertIs("bound" in one, moves)

    def test_numbers_have_the_digits_that_were_measured(self):
        text = self.passes("p2p", "--json", "-s", "8,64KB,16MB", "-n", 20, "--op", "write")
        reals = []
        json.loads(text, parse_float=reals.append)
        self.assertEqual(len(reals), 3 * 8)  # six times and two rates
        for real in reals:  # six digits, or all before the point; nothing of a binary fraction's tail
            digits = real.split("e")[0].replace(".", "").strip("0")
            self.assertTrue(real.endswith(".0") or len(digits) <= 6, real)

    def test_what_was_measured_before_a_signal(self):
        with running("--json", "--op", "write", "-s", "8,64MB", "-n", 20000, "--depth", 1, "--no-check") as process:
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=tool.TIMEOUT_S)
            if process.returncode != -signal.SIGINT:  # else it came before the tool looked at signals
                self.assertEqual(process.returncode, 130, errors)
            self.assertTrue(out == "" or json.loads(out)["complete"] is False)

    def test_a_signal_while_libraries_are_loaded(self):
        """libpsm_infinipath, which Debian's libfabric brings, takes signals until its handlers are taken back."""
        for _ in range(10):
            with tool.running(tool.start("p2p")) as process:
                while process.poll() is None and not self.maps(process, "libpsm_infinipath"):
                    pass
                if process.poll() is not None:
                    self.skipTest("the tool loads no libpsm_infinipath here")
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=tool.TIMEOUT_S)
                self.assertEqual((process.returncode, errors), (130, "weft p2p: interrupted by SIGINT\n"), out)

    @staticmethod
    def maps(process, name):
        try:
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as file:
                return name in file.read()
        except OSError:  # it has ended
            return False


if __name__ == "__main__":
    unittest.main()
