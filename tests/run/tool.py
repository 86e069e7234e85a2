"""Helpers for tests of the whole tool: runs of `weft elastic`, what they leave, and a real etcd."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import base64
import uuid

WEFT = os.environ["WEFT"]
SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
DEADLINE = 90.0  # seconds: far more than anything here takes, also under load and sanitizers
SMALL = ["--hidden-dim", "256", "--num-tokens", "8", "--iterations", "2", "--warmup", "1", "--startup-timeout", "60",
         "--timeout-ms", "20000"]


def wait_for(what, condition, seconds=DEADLINE):
    """Returns the first true value of condition(); fails, saying `what`, after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.02)  # between two looks at a condition


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def processes_of(job):
    """Live processes that carry the job's name in their environment or arguments."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if b"\nState:\tZ" in (entry / "status").read_bytes():
                continue
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if job.encode() in text:
            found.append(int(entry.name))
    return found


def ranks_of(job):
    """The rank processes among them."""
    found = []
    for pid in processes_of(job):
        try:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"weft\0rank"):
                found.append(pid)
        except OSError:
            pass
    return found


def files_left():
    return {str(p) for p in pathlib.Path("/dev/shm").iterdir()}


class Run:
    """One agent. Each has a job name and a directory of its own, unless told otherwise."""

    def __init__(self, *arguments, plan=None, job=None, directory=None, small=True, environment=None):
        self.job = job or "t-" + uuid.uuid4().hex
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="weft-test-"))
        self.path = self.directory / ("run-" + uuid.uuid4().hex[:8])
        command = [WEFT, "elastic", "--job", self.job, "--run-dir", str(self.path)]
        if plan is not None:
            file = self.directory / "plan.json"
            file.write_text(plan if isinstance(plan, str) else json.dumps(plan))
            command += ["--plan", str(file)]
        command += (SMALL if small else []) + [str(a) for a in arguments]
        self.output = open(self.directory / (self.path.name + ".out"), "w+")
        self.errors = open(self.directory / (self.path.name + ".err"), "w+")
        env = dict(os.environ, **(environment or {}))
        env.pop("WEFT_STORE", None)
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.errors, env=env,
                                        stdin=subprocess.DEVNULL, cwd=self.directory)

    def wait(self, seconds=DEADLINE):
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.process.args} did not end within {seconds} s:\n{self.text()}") from None
        return status

    def text(self):
        """Standard output and standard error so far."""
        self.output.flush()
        return pathlib.Path(self.output.name).read_text() + pathlib.Path(self.errors.name).read_text()

    def expect(self, status):
        got = self.wait()
        assert got == status, f"exit status {got}, not {status}:\n{self.text()}"
        self.expect_nothing_left()
        return self

    def expect_nothing_left(self):
        wait_for(f"the end of the processes of {self.job}", lambda: not processes_of(self.job))

    def results(self):
        return json.loads((self.path / "results.json").read_text())

    def events(self):
        return [json.loads(line) for line in (self.path / "events.jsonl").read_text().splitlines()]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.errors.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Etcd:
    """A real etcd on free ports, with an empty store."""

    def __enter__(self):
        if not shutil.which("etcd"):
            if os.environ.get("WEFT_TEST_SKIP_ETCD") == "1":
                sys.exit(77)
            raise AssertionError("etcd is not installed (WEFT_TEST_SKIP_ETCD=1 skips what needs it)")
        self.directory = tempfile.mkdtemp(prefix="weft-test-etcd-")
        self.url = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self.log = open(os.path.join(self.directory, "log"), "w")
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", os.path.join(self.directory, "data"), "--listen-client-urls", self.url,
             "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}"], stdout=self.log, stderr=self.log)
        wait_for("etcd", self.healthy)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def healthy(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=1) as answer:
                return json.load(answer).get("health") == "true"
        except OSError:
            return False

    def keys(self, prefix="/weft/"):
        """Every key with the prefix."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": base64.b64encode(prefix.encode()).decode(), "range_end": base64.b64encode(end.encode()).decode(),
                "keys_only": True}
        request = urllib.request.Request(self.url + "/v3/kv/range", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return [base64.b64decode(kv["key"]).decode() for kv in json.load(answer).get("kvs", [])]


def plan_file(name):
    return (SOURCE / "plans" / (name + ".json")).read_text()


def states(results, phase):
    """rank -> state in that phase."""
    return {row["rank"]: row["state"] for row in results["phases"][phase]["ranks"]}


def main(tests):
    """Runs the named test; without a name, all of them."""
    names = sys.argv[1:] or list(tests)
    before = files_left()
    for name in names:
        tests[name]()
        print(f"passed: {name}")
    assert files_left() <= before, f"left in /dev/shm: {files_left() - before}"
