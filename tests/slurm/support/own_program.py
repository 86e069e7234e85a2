"""The program of a test for `weft slurm --as-written`, which prints what the program of NIXL's elastic tests prints.

The lead goes through the plan, and waits in each phase until as many processes have started as the plan needs by then.
Each step appends the lead's phase, its node and its number of processes to the file `started`.
"""

import json
import os
import pathlib
import socket
import sys
import time

FOLDER = pathlib.Path(os.environ["NOTES"])
OPTIONS = dict(zip(sys.argv[1::2], sys.argv[2::2]))
NODE = os.environ["SLURMD_NODENAME"]
PHASE, STARTED = FOLDER / "phase", FOLDER / "started"


def note():
    with STARTED.open("a") as file:
        file.write(f"{PHASE.read_text()} {NODE} {OPTIONS['--num-processes']}\n")


def count_started():
    return sum(int(line.split()[2]) for line in STARTED.read_text().splitlines())


def follow():
    note()
    print(os.environ.get(f"SAYS_{NODE}", ""))
    return int(os.environ.get(f"ENDS_{NODE}", "0"))


def lead():
    with socket.create_server(("127.0.0.1", int(OPTIONS["--port"]))) as server:
        PHASE.write_text("0")
        server.accept()  # the script looks whether the port is open
        note()
        before, needed = set(), 0
        for number, ranks in enumerate(json.loads(pathlib.Path(OPTIONS["--plan"]).read_text())):
            live = {rank for rank in ranks if rank >= 0}
            needed += len(live - before)
            before = live
            while count_started() < needed:
                time.sleep(0.01)
            for rank in (0, 1):
                print(f"[rank {rank}] Dispatch + combine bandwidth: {10 * number + rank}.00 GB/s, avg_t=5.0 us")
            PHASE.write_text(str(number + 1))
            print(f"global_rank=0, local_rank=0 -> end phase {number}", flush=True)
            if os.environ.get("ENDS_AFTER") == str(number):
                break
    return 0


sys.exit(follow() if "--tcp-server" in OPTIONS else lead())
