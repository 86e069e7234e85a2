#!/usr/bin/env python3
"""Runs a command with a newer UCX than this machine's: newer_ucx.py COMMAND...

The newer UCX is the wheel libucx-cu13 of PyPI, which scripts/install-deps.sh --test installs into build/tools. Without
it this program exits with 77. The module libweft_ucx.so.0 was built with the headers of this machine's UCX.
"""
import ctypes
import os
import pathlib
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "build/tools"


def version(library):
    numbers = [ctypes.c_uint() for _ in range(3)]
    ctypes.CDLL(library).ucp_get_version(*map(ctypes.byref, numbers))
    return tuple(number.value for number in numbers)


def main():
    found = sorted(TOOLS.glob("lib/python3*/site-packages/libucx/lib/libucp.so.0"))
    if not found:
        print("skipped: no newer UCX: scripts/install-deps.sh --test installs one from PyPI")
        return 77
    folder = str(found[-1].parent)
    others = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{folder}:{others}" if others else folder
    print("UCX %d.%d.%d" % version(str(found[-1])), flush=True)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
