"""A process that ends, or is forked, while threads of it use agents and ranks: no crash, no wait, no words."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys

import pytest
from patience import SEED, Wrong

PROGRAM = """
import os, random, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from actor import Actor, Stage
from visitor import Gone, Party, Visitor
import weft
seed, way = int(sys.argv[2]), sys.argv[3]
draw = random.Random(seed)
store = weft.Store.local()
stage = Stage(3, store, 3600)
party = Party(3, store, 3600, draw.choice(["latency", "throughput"]))
host = Visitor(party, 0, seed)
host.open([0])
host.rank.activate()
def stay():
    while True:
        host.operate()
loops = [Actor(stage, i, seed + i).run for i in range(3)] + [stay] + [
    Visitor(party, i, seed + i).come_and_go for i in (1, 2)]
def run(loop):
    try:
        loop()
    except (weft.errors.ClosedError, Gone):  # the process ends
        pass
threads = [threading.Thread(target=run, args=(loop,), daemon=True) for loop in loops]
for thread in threads:
    thread.start()
time.sleep(draw.uniform(0.01, 0.4))
if way == "exit":
    sys.exit(3)
if way == "signal":
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
if way == "error":
    raise ZeroDivisionError
if way.startswith("fork"):
    child = os.fork()
    if child == 0:
        things = [stage.agents, stage.transfers, stage.lent, party.ranks, [host]]
        draw.shuffle(things)
        for thing in things:
            thing.clear()
        del thing, things, host
        import gc
        gc.collect()
        with weft.Agent("child", transports="shm") as one:
            memory = bytearray(b"12345678"), bytearray(8)
            one.write(*map(one.register, memory)).run()
            assert memory[0] == memory[1]
        with weft.ep.Rank(weft.Store.local(), rank=0, founders=[0], hidden=128) as one:
            one.activate()
            one.barrier()
        if way == "fork, _exit":
            os._exit(4)
        sys.exit(4)
    deadline = time.monotonic() + 50
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
            sys.exit("the child did not end")
        time.sleep(0.01)
    if ended[1] != 4 << 8:
        sys.exit(f"the child ended with {ended[1]}")
print("ends", flush=True)
"""

WAYS = {"return": (0, ""), "exit": (3, ""), "signal": (-2, "KeyboardInterrupt"), "error": (1, "ZeroDivisionError"),
        "fork": (0, ""), "fork, _exit": (0, "")}


@pytest.mark.parametrize("way", WAYS)
def test_the_end_in_the_middle(way: str) -> None:
    seed = random.Random(f"{SEED} {way}").randrange(2**32)
    here = pathlib.Path(__file__).parent
    process = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", PROGRAM, str(here), str(seed), way],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise Wrong(f"WEFT_SEED={SEED}: the process did not end: {err}") from None
    status, last = WAYS[way]
    words = err.strip().splitlines()
    fine = process.returncode == status and (words[-1:] == [last] if last else not words)
    assert fine, f"WEFT_SEED={SEED} (seed {seed}): status {process.returncode}\n{out}\n{err}"
