"""Stores that several runs use: `weft serve` and a real etcd, each in a process that can be killed and restarted."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

from tool import WEFT, free_port, wait_for


class Store:
    """A store in a separate process. It can be killed and restarted at the same port."""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def __exit__(self, *unused):
        self.kill()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def keys(self, prefix="/weft/"):
        """Every key with the prefix."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": base64.b64encode(prefix.encode()).decode(), "range_end": base64.b64encode(end.encode()).decode(),
                "keys_only": True}
        request = urllib.request.Request(self.url + "/v3/kv/range", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return [base64.b64decode(kv["key"]).decode() for kv in json.load(answer).get("kvs", [])]


class Serve(Store):
    """`weft serve`, which is empty after a restart."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="weft-test-serve-")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(os.path.join(self.directory, "log"), "w+")
        self.start()
        return self

    def start(self):
        def begun():
            text = pathlib.Path(self.log.name).read_text()
            assert self.process.poll() is None, f"weft serve ended: {text}"
            return re.search("^https?://", text, re.MULTILINE)  # its URL, which it prints when it listens
        self.log.truncate(0)
        self.process = subprocess.Popen(self.command(), stdout=self.log, stderr=self.log, env=self.environment())
        wait_for("weft serve", begun)

    def command(self):
        return [WEFT, "serve", "--insecure", "--port", str(self.port)]

    @staticmethod
    def environment():
        return None


class Etcd(Store):
    """A real etcd on free ports, at first with an empty store."""

    def __enter__(self):
        if not shutil.which("etcd"):
            if os.environ.get("WEFT_TEST_SKIP_ETCD") == "1":
                print("skipped: etcd is not installed")
                sys.exit(77)
            raise AssertionError("etcd is not installed (WEFT_TEST_SKIP_ETCD=1 skips what needs it)")
        version = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout
        if "etcd Version: 3.3." in version:  # from Ubuntu 22.04; its requests have other paths
            print("skipped: etcd here is 3.3, and Weft wants 3.4 or newer")
            sys.exit(77)
        self.directory = tempfile.mkdtemp(prefix="weft-test-etcd-")
        self.data = os.path.join(self.directory, "data")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.port = int(self.url.rsplit(":", 1)[1])
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.log = open(os.path.join(self.directory, "log"), "a")
        self.start()
        return self

    def start(self):
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.data, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
             "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
             "--initial-cluster", f"default={self.peer}"], stdout=self.log, stderr=self.log)
        wait_for("etcd", self.healthy)

    def lose_all(self):
        """Deletes everything that etcd has stored; etcd must not run."""
        shutil.rmtree(self.data)

    def grow(self, revisions):
        """Puts a key `revisions` times, and deletes it."""
        key = base64.b64encode(b"/other").decode()
        for request in [("put", {"key": key, "value": ""})] * revisions + [("deleterange", {"key": key})]:
            url = f"{self.url}/v3/kv/{request[0]}"
            urllib.request.urlopen(urllib.request.Request(url, json.dumps(request[1]).encode()), timeout=5).close()

    def healthy(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=1) as answer:
                return json.load(answer).get("health") == "true"
        except OSError:
            return False
