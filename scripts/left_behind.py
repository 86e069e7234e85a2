#!/usr/bin/env python3
"""Prints what tests have left behind: left_behind.py DIRECTORY BEGAN

DIRECTORY was TMPDIR in their environment, BEGAN is a file that was made before they began. Left behind are processes
that have TMPDIR so (once they have had some seconds to end), files in it, and new files in /dev/shm that are this
user's, have a name that Weft or a library below it gives, and that nobody has open. Removes and ends what it found, so
that each thing is told once. Exit status 1 if there was anything.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import time

PATIENCE_S = 10
END_S = 10  # for one that was killed
SHARED = pathlib.Path("/dev/shm")
# In /dev/shm: those of Weft, of UCX, and of libfabric (user:process:number). Others are other programs'.
OUR_NAMES = re.compile(r"weft|ucx_|fi_|\d+:\d+:\d+$")


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


def processes(mark):
    """pid -> command line of those whose environment has the mark; a zombie's is empty."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in read(entry / "environ").split(b"\0"):
            found[int(entry.name)] = read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def wait_for_the_end(mark, patience_s):
    end = time.monotonic() + patience_s
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.1)  # between two looks
    return processes(mark)


def end_processes(mark):
    """Returns those that went on for too long, once they have ended: a killed one is there for a moment more."""
    found = wait_for_the_end(mark, PATIENCE_S)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if found:
        wait_for_the_end(mark, END_S)
    return found


def open_files():
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found.update(os.readlink(link) for link in (entry / "fd").iterdir())
        except OSError:
            pass
        found.update(line.split(maxsplit=5)[-1].decode(errors="replace") for line in read(entry / "maps").splitlines())
    return found


def our_shared_files():
    return [path for path in (SHARED.iterdir() if SHARED.is_dir() else ()) if OUR_NAMES.match(path.name)]


def shared_memory(since):
    """New files in /dev/shm. One that somebody has open may be of tests that run beside these."""
    new = []
    for path in our_shared_files():
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.getuid() and status.st_ctime >= since:
            new.append(path)
    used = open_files() if new else set()
    return [path for path in new if str(path) not in used]


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def main():
    directory = pathlib.Path(sys.argv[1])
    left = []
    for pid, command in end_processes(b"TMPDIR=" + os.fsencode(directory)).items():
        left.append(f"process {pid}: {command}")
    for path in [*directory.iterdir(), *shared_memory(pathlib.Path(sys.argv[2]).stat().st_mtime)]:
        left.append(f"file {path}")
        remove(path)
    print(*left, sep="\n", end="\n" if left else "")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
