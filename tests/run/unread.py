"""A reader of standard output that stops reading stops neither the run nor its end."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile

from tool import DEADLINE, SMALL, WEFT, environment_of, main, processes_of, wait_for

PIPE_BYTES = 4096  # the lines of some phases and the report are far more
PLAN = 20 * [[0, 1]]


class Unread:
    """A run whose standard output is a small pipe, which nobody reads yet."""

    def __init__(self, *arguments, stderr=subprocess.PIPE):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.job = os.path.basename(self.folder.name)
        with open(f"{self.folder.name}/plan.json", "w", encoding="utf-8") as file:
            json.dump(PLAN, file)
        self.process = subprocess.Popen(
            [WEFT, "elastic", "plan.json", "--job", self.job, "--run-dir", "run", *SMALL, *arguments],
            cwd=self.folder.name, env=environment_of(self.job, arguments, None), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=stderr, pipesize=PIPE_BYTES)

    def results(self):
        with contextlib.suppress(FileNotFoundError), open(f"{self.folder.name}/run/results.json",
                                                          encoding="utf-8") as file:
            return json.load(file)
        return None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE)
        wait_for("the end of the ranks", lambda: not processes_of(self.job))
        self.folder.cleanup()


def a_late_reader_gets_everything():
    with Unread() as run:
        results = wait_for("the results", run.results)
        assert results["passed"], results
        assert run.process.poll() is None  # it waits for its reader
        out, err = run.process.communicate(timeout=DEADLINE)
        assert run.process.returncode == 0, err
        for phase in range(len(PLAN)):
            assert out.count(b"-> end phase %d\n" % phase) == 2, (phase, out)
        assert b"passed 20 phases" in out.splitlines()[-1], out


def a_signal_ends_the_wait_for_a_reader():
    with Unread() as run:
        wait_for("the results", run.results)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(DEADLINE) == 128 + signal.SIGTERM
        said = run.process.stderr.read()
        assert b"cannot write the report: nobody reads it" in said, said
        assert run.results()["passed"]


def a_signal_ends_a_run_without_a_reader():
    with Unread("--iterations", "100000") as run:
        wait_for("the ranks", lambda: len(processes_of(run.job)) == 3)
        # Fills the pipe, so that no line has room.
        full = os.open(f"/proc/self/fd/{run.process.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, b"x")
        os.close(full)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(DEADLINE) == 128 + signal.SIGINT
        said = run.process.stderr.read()
        assert b"interrupted by SIGINT" in said and b"nobody reads it" in said, said
        assert run.results()["exit_status"] == 128 + signal.SIGINT


main({test.__name__: test for test in (
    a_late_reader_gets_everything,
    a_signal_ends_the_wait_for_a_reader,
    a_signal_ends_a_run_without_a_reader,
)})
