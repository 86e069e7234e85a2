#!/usr/bin/env python3
"""Prints processes and files that tests have left behind: left_behind.py DIRECTORY BEGAN

DIRECTORY was TMPDIR in the tests' environment; BEGAN is a file that was made before they began. The script looks for
processes with this TMPDIR (after it has given them some seconds to end), files in DIRECTORY, and new files in /dev/shm
that belong to this user, have a name as Weft or a library that it uses makes it, and are not open in any process. It
ends these processes and removes these files, so that each is reported once. Exit status 1 if there was anything.
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
END_S = 10  # time for a killed process to end
SHARED = pathlib.Path("/dev/shm")
# Names in /dev/shm of Weft, of UCX and of libfabric (user:process:number). Other names belong to other programs.
OUR_NAMES = re.compile(r"weft|ucx_|fi_|\d+:\d+:\d+$")


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return b""


def processes(mark):
    """Returns pid -> command line of the processes whose environment has the mark; that of a zombie is empty."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in read(entry / "environ").split(b"\0"):
            found[int(entry.name)] = read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def wait_for_the_end(mark, patience_s):
    end = time.monotonic() + patience_s
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.1)  # between two checks
    return processes(mark)


def end_processes(mark):
    """Kills processes that went on for too long, waits for their end, which takes a moment, and returns them."""
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
    """Returns new files in /dev/shm. A file that a process has open may belong to other tests that run now."""
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
