#!/usr/bin/env python3
"""weft bench ep of two leads on one store, which may be on two hosts."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import tool
from serving import Server

SMALL = ("--hidden", 256, "--tokens", 16, "--topk", 2, "--experts-per-rank", 2, "--op", "both", "--local-ranks", 2)
ENDLESS = (*SMALL, "--ranks", 4, "--iterations", 10000)
PATIENT = ("--timeout-ms", 600000)  # no test waits as long: what ends a run is that a death is seen
TOKEN = {"WEFT_TOKEN": "a-token-of-these-tests-not-short"}


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class Hosts(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.server = None

    def serve(self):
        self.server = Server()
        self.addCleanup(self.server.kill)
        return ("--store", self.server.url), {"WEFT_TOKEN": self.server.token}

    def file(self, name):
        return os.path.join(self.directory, name + ".json")

    def start(self, name, *arguments, **more):
        process = subprocess.Popen([tool.WEFT, "bench", "ep", "--json", self.file(name), "--quiet",
                                    *map(str, arguments)], env=tool.environment(WEFT_HOST_ID=name, **more), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def document(self, name):
        with open(self.file(name), encoding="utf-8") as file:
            return json.load(file)

    def end(self, process, status):
        _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, status, errors)
        return errors

    def pair(self, *arguments, second=()):
        store, token = self.serve()
        return (self.start("one", *store, *arguments, **token),
                self.start("two", *store, *arguments, *second, **token))

    def at_work(self, *processes):
        for process, name in zip(processes, ("one", "two")):
            while not os.path.exists(self.file(name)):
                self.assertIsNone(process.poll(), "it has ended")
                time.sleep(0.01)

    def test_both_find_the_same_rows(self):
        both = self.pair(*SMALL, "--ranks", "2,4", "--iterations", 20, "--check", "--repeat", 2)
        for process in both:
            self.assertEqual(self.end(process, 0), "")
        one, two = self.document("one"), self.document("two")
        self.assertEqual([row["keys"]["ranks"] for row in one["rows"]], [2, 4] * 2)
        for mine, other in zip(one["rows"], two["rows"]):
            figures = [{figure["name"]: figure for figure in row["figures"]} for row in (mine, other)]
            for name in ("latency", "rank_latency", "wire_bytes", "busiest_expert"):
                self.assertEqual(figures[0][name], figures[1][name])
        self.assertEqual(len(one["hosts"]), 2)
        keys = self.server.ask("/v3/kv/range", {"key": "AA==", "range_end": "AA=="})
        self.assertNotIn("kvs", keys, "something is left in the store")

    def test_a_store_in_the_first(self):
        port = tool.free_port()
        arguments = (*SMALL, "--ranks", 4, "--iterations", 5)
        first = self.start("one", *arguments, "--listen", "127.0.0.1", "--store-port", port, **TOKEN)
        second = self.start("two", *arguments, "--rank-server", f"127.0.0.1:{port}", **TOKEN)
        self.end(first, 0)
        self.end(second, 0)

    def test_other_settings_are_refused(self):
        for process in self.pair(*SMALL, "--ranks", 4, second=("--tokens", 8)):
            self.assertRegex(self.end(process, 2), r'tokens is "(16|8)" here.*"(16|8)" at rank')

    def test_a_rank_that_is_killed_is_named_by_all(self):
        both = self.pair(*ENDLESS, *PATIENT)
        self.at_work(*both)
        os.kill(children(both[1].pid)[0], signal.SIGKILL)
        for process in both:
            self.assertRegex(self.end(process, 5), r"rank \d died: its process \d+ was ended by signal 9")

    def test_a_host_that_is_killed_is_named(self):
        both = self.pair(*ENDLESS, *PATIENT)
        self.at_work(*both)
        both[1].kill()
        errors = self.end(both[0], 5)
        self.assertRegex(errors, "its process has ended|is lost")
        self.assertNotIn("its lease was not renewed", errors)  # which would tell only seconds later

    def test_an_interrupt_ends_both_with_what_was_measured(self):
        both = self.pair(*ENDLESS)
        self.at_work(*both)
        both[0].send_signal(signal.SIGINT)
        self.assertIn("interrupted by SIGINT", self.end(both[0], 130))
        both[1].communicate(timeout=tool.TIMEOUT_S)
        for name in ("one", "two"):
            self.assertFalse(self.document(name)["complete"])
        self.assertEqual(self.document("one")["cut_short"], "SIGINT")


if __name__ == "__main__":
    unittest.main(verbosity=2)
