"""The two sides of weft p2p for the tests: a running target, and whether it serves an initiator."""
import contextlib
import re

import tool

TOKEN = {"WEFT_TOKEN": "of these tests"}


end = tool.end


def start(*arguments, **more):
    """Starts a side; the test reads its output."""
    return tool.start("p2p", *arguments, **{**TOKEN, **more})


def running(*arguments, **more):
    return tool.running(start(*arguments, **more))


@contextlib.contextmanager
def target(*arguments, at=("--listen", "127.0.0.1"), **more):
    """A running target and its port."""
    with running("--mode", "target", "--port", 0, *at, *arguments, **more) as process:
        yield process, re.search(r"port (\d+)", process.stdout.readline())[1]


def initiator(port, *arguments):
    return ("p2p", "--mode", "initiator", "--port", port, *arguments)


def is_at_work(pid):
    """Whether the target has made the buffer of 16 MB that the initiator asked for."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            begin, end_ = (int(part, 16) for part in line.split()[0].split("-"))
            if "/memfd:weft (" in line and end_ - begin >= 16 << 20:
                return True
    return False


@contextlib.contextmanager
def busy(process, port):
    """Runs an initiator that keeps the target at work until the block is left."""
    with running(*initiator(port, "-s", "1MB", "-n", 100000000)[1:]) as first:
        while not is_at_work(process.pid):
            if first.poll() is not None:
                raise AssertionError(first.stderr.read())
        yield first
