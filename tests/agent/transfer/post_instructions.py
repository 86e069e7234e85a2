#!/usr/bin/env python3
"""Counts the instructions of a post above the transport's own call: instructions.py PROGRAM

Valgrind's callgrind counts inside weft_transfer_post, in a second run inside the transport's post, and in a third run
inside the transport's callback at the end of the transfer, which is again code of the agent. The count includes two
readings of the clock, which are system calls under valgrind, and some tens of instructions of the vDSO elsewhere.
"""
import re
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 1000
LIMIT = 300


def collected(program, how, function):
    with tempfile.NamedTemporaryFile(prefix="callgrind-") as out:
        command = ["valgrind", "--tool=callgrind", "--vgdb=no", f"--callgrind-out-file={out.name}",
                   "--collect-atstart=no", f"--toggle-collect={function}", program, str(ROUNDS), *how]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return int(re.search(r"Collected : (\d+)", result.stderr)[1])


def judge(program, how):
    """The transport's callback also counts as code of the agent."""
    whole, own, back = [collected(program, how, name) for name in ("weft_transfer_post", "loop_post", "post_done")]
    if min(own, back) < ROUNDS:
        sys.exit(f"in {ROUNDS} calls the transport's post took {own} instructions, what it calls back {back}")
    above = (whole - own + back) / ROUNDS
    print(f"{' '.join(how) or 'any thread'}: {above:.1f} instructions besides the transport's post, to the end")
    return above < LIMIT


def main():
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        sys.exit(77)
    if not all([judge(sys.argv[1], []), judge(sys.argv[1], ["turn"])]):
        sys.exit(f"{LIMIT} are too many")


main()
