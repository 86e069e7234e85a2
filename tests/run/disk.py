"""A full disk under the run directory: before the start, during the run and at the report. Every loss is reported."""

import contextlib
import errno
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from judge import check_states
from tool import Run, main, ranks_of, wait_for

PLAN = [[0, 1, 2], [0, 1, 2, 3]]
FULL = os.strerror(errno.ENOSPC)


@contextlib.contextmanager
def small_disk(kilobytes=512):
    """A tmpfs of this size, mounted where only this test looks."""
    directory = tempfile.mkdtemp(prefix="weft-test-disk-")
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", directory]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        os.rmdir(directory)
        print("skipped: a small file system wants root and the right to mount")
        sys.exit(77)
    try:
        yield pathlib.Path(directory)
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        os.rmdir(directory)


def fill(disk):
    """Leaves no byte."""
    with open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def run_on(disk, *arguments):
    """A run whose directory is on that disk; its output is not."""
    run = Run("--run-dir", str(disk / "run"), *arguments, plan=PLAN)
    run.path = disk / "run"
    return run


def full_before_the_start():
    with small_disk() as disk:
        fill(disk)
        with run_on(disk) as run:
            run.expect(3)
            assert FULL in run.text() and str(disk / "run") in run.text(), run.text()
            assert not ranks_of(run.job)


def full_in_mid_run():
    """The run goes on, because no check depends on the disk. At its end it says which files are missing, and fails."""
    with small_disk() as disk:
        with run_on(disk, "--iterations", 500, "--json") as run:
            wait_for("phase 0", lambda: run.text().count("-> start phase 0") == 3)
            fill(disk)
            run.expect(3)
            assert FULL in run.text() and str(disk / "run") in run.text(), run.text()
            run.output.seek(0)
            results = json.load(run.output)
            check_states(results, PLAN, iterations=500)


def full_at_the_report():
    """Standard output has no room: the results are in the run directory, and the exit status says so."""
    with small_disk() as disk:
        fill(disk)
        with Run(plan=PLAN) as run:
            run.expect(0)
        with tempfile.TemporaryDirectory(prefix="weft-test-") as directory, open(disk / "filler", "a") as output:
            target = pathlib.Path(directory)
            (target / "plan.json").write_text(json.dumps(PLAN))
            command = [a if a != str(run.path) else str(target / "run") for a in run.process.args]
            command[command.index("--plan") + 1] = str(target / "plan.json")
            done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=90)
            assert done.returncode == 3 and f"cannot write the report: {FULL}" in done.stderr, done
            check_states(json.loads((target / "run" / "results.json").read_text()), PLAN)


main({test.__name__: test for test in (full_before_the_start, full_in_mid_run, full_at_the_report)})
