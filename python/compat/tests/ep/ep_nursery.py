"""The nursery: a process that has imported torch, which takes longer than most tests, and forks ranks.

It reads a request from each line of its input, and answers with a line; both are JSON.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from typing import Any


class Nursery:
    """The process, for its tests."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)

    def ask(self, **request: object) -> Any:
        """Its answer: to `start` a process id, to `wait` an exit status as Popen has it, or None after `seconds`."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


nursery = functools.cache(Nursery)


def start(request: dict[str, Any]) -> int:
    """Forks a rank: its process id, and 0 in the rank itself."""
    process = os.fork()
    if process == 0:
        for path, flags, number in (("/dev/null", os.O_RDONLY, 0), (request["printed"], os.O_WRONLY | os.O_CREAT, 1)):
            os.dup2(os.open(path, flags, 0o600), number)
        os.dup2(1, 2)
        os.environ.clear()
        os.environ.update(request["environment"])
    return process


def wait(process: int, seconds: float) -> int | None:
    """The exit status of a rank; None: it has not ended by then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def main() -> None:
    """Answers requests until its input ends."""
    import numpy
    import torch.distributed

    assert numpy and torch
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            answer: int | None = start(request)
            if answer == 0:
                from ep_world import be

                be(*request["start"])
                return  # it ends as a program of its own does
        else:
            answer = wait(request["wait"], request["seconds"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
