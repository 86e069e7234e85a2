"""Helpers for tests of the whole tool: they run `weft elastic`, and check what remains after it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import left_behind  # noqa: E402, the script that finds what tests leave behind
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import machine  # noqa: E402
from ports import free_port, free_ports  # noqa: E402, F401, which tests import from here

WEFT = os.environ["WEFT"]
SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
DEADLINE = 180.0  # seconds: far longer than anything here takes, even under load and with sanitizers
SKIPPED = 77     # exit status of a test that cannot run here
SMALL = ["--hidden-dim", "256", "--num-tokens", "8", "--iterations", "2", "--warmup", "1", "--startup-timeout", "120",
         "--timeout-ms", "20000"]


def wait_for(what, condition, seconds=DEADLINE):
    """Returns the first true value of condition(). After `seconds` it fails, and the message names `what`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.02)  # between two checks of the condition


def processes_of(job):
    """The running processes that have the job's name in their environment or arguments."""
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
    """The rank processes of the job. Under an emulator, the emulator's arguments precede the rank's."""
    found = []
    for pid in processes_of(job):
        try:
            if b"\0weft\0rank" in b"\0" + pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


def shared_files():
    return {str(path) for path in left_behind.our_shared_files()}


def expect_no_files_left(before):
    """Waits until /dev/shm has no new files, except open ones: tests of UCX and libfabric may run at the same time."""
    wait_for("the end of new files in /dev/shm that nobody has open",
             lambda: not shared_files() - before - left_behind.open_files())


def need_terminal():
    """Skips the test if there are no pseudo-terminals."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:  # a root file system without devpts
        print(f"skipped: no pseudo-terminal here: {error}")
        sys.exit(SKIPPED)


def need_own_arguments():
    """Skips the test if the tool cannot overwrite what /proc shows of it: under an emulator it has only copies of its
    arguments and its environment."""
    if machine.is_emulated(WEFT):
        print("skipped: an emulator shows the arguments and the environment that it gave the tool a copy of")
        sys.exit(SKIPPED)


def environment_of(job, arguments, more):
    """The environment of an agent. It has the job's name; ranks inherit it, and tests find them by it. Agents that meet
    at an embedded store share a token. Variables for tests only are removed, since the tool would report them as
    unknown."""
    shares = {"--rank-server", "--tcp-server", "--num-agents"}.intersection(arguments) and "--store" not in arguments
    token = {"WEFT_TOKEN": "token-of-" + job} if shares else {}
    own = {name for name in os.environ if name.startswith(("WEFT_SOURCE", "WEFT_TEST_", "WEFT_FAKE_", "WEFT_CLOCK_"))}
    env = {name: value for name, value in os.environ.items() if name not in own}
    env.update({"TEST_JOB": job, **token})
    env.pop("WEFT_STORE", None)
    return {**env, **(more or {})}


def sizes_of(arguments, plan):
    """The options for the sizes of a run. An agent that follows gets the sizes from its lead."""
    follows = {"--rank-server", "--tcp-server"}.intersection(arguments) or (plan is None and "--store" in arguments)
    return SMALL[-4:-2] if follows else SMALL


class Run:
    """One agent. By default each agent has a new job name and a new directory. `terminal`: its standard error is a
    terminal."""

    def __init__(self, *arguments, plan=None, job=None, directory=None, small=True, environment=None, inside=(),
                 terminal=False):
        if terminal:
            need_terminal()
        self.job = job or "t-" + uuid.uuid4().hex
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="weft-test-"))
        self.path = self.directory / ("run-" + uuid.uuid4().hex[:8])
        command = [*inside, WEFT, "elastic", "--job", self.job, "--run-dir", str(self.path)]
        if plan is not None:
            file = self.directory / "plan.json"
            file.write_text(plan if isinstance(plan, str) else json.dumps(plan))
            command += ["--plan", str(file)]
        command += (sizes_of(arguments, plan) if small else []) + [str(a) for a in arguments]
        self.output = open(self.directory / (self.path.name + ".out"), "w+")
        self.errors = open(self.directory / (self.path.name + ".err"), "w+")
        env = environment_of(self.job, arguments, environment)
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(self.open_terminal()) if terminal else self.errors
            self.process = subprocess.Popen(command, stdout=self.output, stderr=errors, env=env,
                                            stdin=subprocess.DEVNULL, cwd=self.directory)

    def open_terminal(self):
        """Opens a terminal, and copies its output to the file of errors; returns the end for the agent."""
        outer, inner = os.openpty()

        def copy():
            with open(outer, "rb", buffering=0) as source, contextlib.suppress(OSError):  # EIO at the end
                while True:
                    self.errors.write(source.read(4096).decode(errors="replace"))
                    self.errors.flush()
        threading.Thread(target=copy, daemon=True).start()
        return open(inner, "wb", buffering=0)

    def wait(self, seconds=DEADLINE):
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.process.args} did not end within {seconds} s:\n{self.text()}") from None
        return status

    def pause(self):
        """Sends SIGSTOP to the agent only."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def text(self):
        """Standard output and standard error so far."""
        self.output.flush()
        return pathlib.Path(self.output.name).read_text() + pathlib.Path(self.errors.name).read_text()

    def printed(self):
        """Standard output so far."""
        return pathlib.Path(self.output.name).read_text()

    def expect_status(self, status):
        got = self.wait()
        assert got == status, f"exit status {got}, not {status}:\n{self.text()}"

    def expect(self, status):
        self.expect_status(status)
        self.expect_nothing_left()
        return self

    def expect_nothing_left(self):
        wait_for(f"the end of the processes of {self.job}", lambda: not processes_of(self.job))

    def show(self, count=60):
        """Prints the output and the last events of a run whose test failed."""
        file = self.path / "events.jsonl"
        events = file.read_text().splitlines()[-count:] if file.exists() else ["no events"]
        print(f"--- {self.path.name} of job {self.job}", self.text(), *events, sep="\n")

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

    def __exit__(self, kind, *unused):
        if kind:
            self.show()
        self.close()


def plan_file(name):
    return (SOURCE / "plans" / (name + ".json")).read_text()


def run_at_once(names, count):
    """Runs tests in separate processes, up to `count` at a time: for tests that mostly wait."""
    waiting, running, failed, skipped = list(names), {}, {}, []
    while waiting or running:
        while waiting and len(running) < count:
            name = waiting.pop(0)
            running[name] = subprocess.Popen([sys.executable, sys.argv[0], name], stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True)
        name = next(iter(running))
        output = running[name].communicate()[0]
        print(output, end="", flush=True)
        status = running.pop(name).returncode
        if status == SKIPPED:
            skipped.append(name)
        elif status != 0:
            failed[name] = "\n".join(output.splitlines()[-15:])  # the reason, repeated at the end of the output
    assert not failed, "\n".join(f"failed: {name}\n{end}" for name, end in failed.items())
    if len(skipped) == len(names):
        sys.exit(SKIPPED)


def main(tests, at_once=1):
    """Runs the named test; without a name, all of them."""
    names = sys.argv[1:] or list(tests)
    before = shared_files()
    if at_once > 1 and len(names) > 1:
        run_at_once(names, at_once)
        names = []
    for name in names:
        tests[name]()
        print(f"passed: {name}")
    expect_no_files_left(before)
