#!/usr/bin/env python3
"""/metrics of a live run and store: a strict reader accepts it, callers without the bearer token get nothing, and it is
off by default."""
import http.client
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from openmetrics import read, value  # noqa: E402

WEFT = os.environ["WEFT"]
SMALL = ["--hidden-dim", "128", "--num-tokens", "8"]
PLAN = "[[0, 1], [0, 1, 2], [0, 1, -2], [0, 1, 2]]"  # one joins, dies and comes again
TOKEN = "0123456789abcdef0123456789abcdef"


def fetch(url, bearer=None):
    request = urllib.request.Request(url)
    if bearer is not None:
        request.add_header("Authorization", f"Bearer {bearer}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def url_of(stream):
    for line in stream:
        found = re.search(r"http://\S+/metrics", line)
        if found:
            return found[0]
    raise AssertionError("no URL of metrics")


class Metrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *options, **more):
        process = subprocess.Popen([WEFT, *options], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                   stdout=subprocess.DEVNULL, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def scrape(self, run, url, bearer=None):
        """All that could be read until the run ended."""
        seen = []
        while run.poll() is None:
            try:
                status, text = fetch(url, bearer)
            except (OSError, http.client.HTTPException):
                break  # it has just ended
            self.assertEqual(status, 200)
            seen.append(read(text))
        return seen

    def test_of_a_run(self):
        (self.folder / "plan.json").write_text(PLAN)
        run = self.start("elastic", "plan.json", "--metrics", "127.0.0.1:0", "--iterations", "1000", *SMALL)
        seen = self.scrape(run, url_of(run.stderr))
        self.assertEqual(run.wait(), 0, run.stderr.read())
        self.assertGreater(len(seen), 10)
        last = seen[-1]
        self.assertEqual(value(last, "weft_elastic_phases"), 4)
        self.assertEqual([dict(labels)["job"] for _, labels in last["weft_elastic"]["values"]], ["elastic"])
        self.assertEqual(value(last, "weft_elastic_rank_exits", "_total", how="planned_kill"), 1)
        for rank in ("0", "1", "2"):
            self.assertGreater(value(last, "weft_ep_operations", "_total", rank=rank), 1000)
            self.assertGreater(value(last, "weft_ep_dispatch_wire_bytes", "_total", rank=rank), 0)
            self.assertEqual(value(last, "weft_elastic_dispatch_seconds", "_count", rank=rank),
                             value(last, "weft_elastic_combine_seconds", "_count", rank=rank))
        self.assertGreaterEqual(value(last, "weft_ep_lost_peers", "_total", rank="0"), 1)
        self.assertGreaterEqual(value(last, "weft_ep_views", "_total", rank="0"), 3)
        self.assertGreater(value(last, "weft_elastic_stall_seconds", rank="0"), 0)
        self.assertEqual(sorted({value(one, "weft_elastic_phase") for one in seen})[:4], [0, 1, 2, 3])
        for rank in ("0", "2"):  # also where the process is another one
            counts = [value(one, "weft_ep_operations", "_total", rank=rank) or 0 for one in seen]
            self.assertEqual(counts, sorted(counts))

    def test_of_a_run_with_a_bearer(self):
        run = self.start("elastic", "--metrics", "127.0.0.1:0", "--metrics-bearer-file", "bearer", *SMALL,
                         "--iterations", "300", env={**os.environ, "WEFT_TOKEN": TOKEN})
        url = url_of(run.stderr)
        self.assertEqual(fetch(url)[0], 401)
        self.assertEqual(fetch(url, "0" * 64)[0], 401)
        path = self.folder / "bearer"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        bearer = path.read_text().strip()
        self.assertNotIn(TOKEN, bearer)
        self.assertGreater(len(self.scrape(run, url, bearer)), 0)
        self.assertEqual(run.wait(), 0, run.stderr.read())
        self.assertFalse(path.exists())

    def refused(self, *options, env=None):
        done = subprocess.run([WEFT, *options], cwd=self.folder, capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_refusals(self):
        bare = {name: text for name, text in os.environ.items() if not name.startswith("WEFT_")}
        self.assertIn("HOST:PORT", self.refused("elastic", "--metrics", "9100"))
        self.assertIn("without --metrics", self.refused("elastic", "--metrics-bearer-file", "b"))
        self.assertIn("without --metrics", self.refused("serve", "--port", "0", "--metrics-bearer-file", "b"))
        self.assertIn("give the store a token",
                      self.refused("serve", "--port", "0", "--insecure", "--metrics", "0.0.0.0:0", env=bare))
        (self.folder / "b").write_text("there already")
        said = self.refused("elastic", "--metrics", "127.0.0.1:0", "--metrics-bearer-file", "b",
                            env={**bare, "WEFT_TOKEN": TOKEN})
        said = self.refused("elastic", "--metrics", "127.0.0.1:0", "--metrics-bearer-file", "b",
                            env={**bare, "WEFT_TOKEN": TOKEN})
        self.assertIn("exists already", said)
        self.assertEqual((self.folder / "b").read_text(), "there already")

    def test_of_a_store(self):
        store = self.start("serve", "--port", "0", "--insecure", "--metrics", "127.0.0.1:0",
                           env={name: text for name, text in os.environ.items() if name != "WEFT_TOKEN"})
        url = url_of(store.stderr)
        before = read(fetch(url)[1])
        self.assertEqual(value(before, "weft_store_requests", "_total", call="txn"), 0)
        self.assertEqual(value(before, "weft_store_keys"), 0)
        self.assertEqual(value(before, "weft_store_revision"), 1)

    def test_of_a_store_with_a_token(self):
        store = subprocess.Popen([WEFT, "serve", "--port", "0", "--metrics", "127.0.0.1:0", "--metrics-bearer-file",
                                  "bearer"], cwd=self.folder, env={**os.environ, "WEFT_TOKEN": TOKEN}, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(store.stderr.close)
        self.addCleanup(store.stdout.close)
        self.addCleanup(store.wait)
        self.addCleanup(store.terminate)
        url = url_of(store.stderr)
        endpoint = store.stdout.readline().strip()
        bearer = (self.folder / "bearer").read_text().strip()
        self.assertEqual(fetch(url)[0], 401)
        (self.folder / "plan.json").write_text("[[0, 1]]")
        run = subprocess.run([WEFT, "elastic", "plan.json", "--store", endpoint, "--quiet", *SMALL], cwd=self.folder,
                             capture_output=True, text=True, timeout=120, env={**os.environ, "WEFT_TOKEN": TOKEN})
        self.assertEqual(run.returncode, 0, run.stderr)
        after = read(fetch(url, bearer)[1])
        for call in ("txn", "grant", "watch", "put"):
            self.assertGreater(value(after, "weft_store_requests", "_total", call=call), 0, call)
        self.assertGreater(value(after, "weft_store_requests", "_total", call="other"), 0)  # /version
        self.assertGreater(value(after, "weft_store_request_seconds", "_count"), 10)
        self.assertEqual(value(after, "weft_store_refused_requests", "_total"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
