"""Runs `weft bench transfer` for the tests of this folder, with several workers and on several stores."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.request

import tool

SMALL = ("--backend", "SHM", "--start_block_size", 4096, "--max_block_size", 8192, "--num_iter", 48, "--warmup_iter",
         16)
HEADER = ["Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Avg Lat. (us)", "Avg Prep (us)", "P99 Prep (us)",
          "Avg Post (us)", "P99 Post (us)", "Avg Tx (us)", "P99 Tx (us)"]
TOKEN = {"WEFT_TOKEN": "of-these-tests"}
HELD_UP = 1  # exit status if rows are refused: with more workers than processors not all may move at the same time


end, free_port = tool.end, tool.free_port


def start(*arguments, command="transfer", **more):
    """Starts a worker; the test reads its output."""
    return tool.start("bench", command, *arguments, **more)


def running(*arguments, **more):
    return tool.running(start(*arguments, **more))


def together(*lines, command="transfer", **more):
    """Runs workers at the same time; returns (status, output, errors) of each."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(running(*line, command=command, **more)) for line in lines]
        said = [worker.communicate(timeout=tool.TIMEOUT_S) for worker in workers]
        return [(worker.returncode, *texts) for worker, texts in zip(workers, said)]


def table(text):
    """Reads the table as a scraper does, by the lines of 160 dashes around its heading; returns heading and rows."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Block Size (B)"))
    assert lines[at - 1] == lines[at + 1] == "-" * 160, lines[at - 1:at + 2]
    rows = []
    for line in lines[at + 2:]:
        if not line[:1].isdigit():
            break
        rows.append([float(word) for word in line.split()])
    return lines[at], rows


def settings(text):
    """Reads the block of settings: {name: value}."""
    lines = text.splitlines()
    assert lines[0] == lines[2] == "*" * 160
    return {line.split(" (--")[0]: line.split(": ", 1)[1] for line in lines[3:lines.index("-" * 160)]}


@contextlib.contextmanager
def etcd():
    """Runs an etcd for one test; its value is the URL."""
    if os.environ.get("WEFT_TEST_SKIP_ETCD") or not shutil.which("etcd"):
        raise unittest.SkipTest("there is no etcd")
    if "etcd Version: 3.3." in subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout:
        raise unittest.SkipTest("etcd here is 3.3, and Weft wants 3.4 or newer")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(["etcd", "--data-dir", folder, "--listen-client-urls", client,
                                    "--advertise-client-urls", client, "--listen-peer-urls", peer,
                                    "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + tool.TIMEOUT_S
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            while True:
                try:
                    with opener.open(client + "/health", timeout=1):
                        break
                except OSError:
                    assert time.monotonic() < deadline and process.poll() is None
                    time.sleep(0.05)
            yield client
        finally:
            process.kill()
            process.wait()


def keys(url):
    """The number of keys in an etcd."""
    asked = urllib.request.Request(url + "/v3/kv/range", json.dumps({"key": "AA==", "range_end": "AA=="}).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked, timeout=tool.TIMEOUT_S) as answer:
        return int(json.load(answer).get("count", 0))


class BenchTest(tool.ToolTest):
    def bench(self, *arguments, statuses=(0,), **more):
        """Runs `weft bench transfer`, which must exit with one of the statuses; returns its output."""
        result = tool.weft("bench", "transfer", *arguments, **more)
        self.assertIn(result.returncode, statuses, result.stderr + result.stdout)
        return result.stdout

    def figures(self, *arguments, statuses=(0,), **more):
        """The same; returns the JSON document."""
        return json.loads(self.bench(*arguments, "--json", "-", statuses=statuses, **more))

    def wrong(self, status, says, *arguments, **more):
        """Runs `weft bench transfer`, which must exit with `status` before it measures, with `says` in its errors."""
        result = tool.weft("bench", "transfer", *arguments, **more)
        self.assertIn(says, result.stderr, arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertNotIn("Block Size (B)", result.stdout)
        return result.stderr
