"""Ranks as processes, for the tests of nixl_ep and deep_ep: each runs a function of a module, and leaves by its status.

python ep_world.py MODULE FUNCTION RANK RANKS PORT DEVICE [ARGUMENT...]: with a torch TCPStore of the test's at PORT. On
the device "cuda" each rank has a GPU, on which all tensors are made that say nothing else. The environment variable
WEFT_TEST_RANKS_OF_GPU (default 1) is the number of ranks that share a GPU.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

HERE = pathlib.Path(__file__).parent
DEADLINE_S = 120


class World:
    """The ranks of one test, and the TCPStore that they meet in."""

    def __init__(self, module: str, ranks: int, device: str = "cpu") -> None:
        import torch.distributed as dist

        self.module, self.ranks, self.device = module, ranks, device
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                   timeout=timedelta(seconds=DEADLINE_S))
        self.running: dict[int, subprocess.Popen[str]] = {}

    def start(self, function: str, rank: int, *arguments: object) -> None:
        """Starts a rank."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1",
                       "GLOO_SOCKET_IFNAME": "lo", "PYTHONDONTWRITEBYTECODE": "1"}
        self.running[rank] = subprocess.Popen(
            [sys.executable, str(HERE / "ep_world.py"), self.module, function, str(rank), str(self.ranks),
             str(self.store.port), self.device, *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=environment)

    def end(self, rank: int, want: int = 0) -> str:
        """Waits for a rank; what it has printed."""
        process = self.running.pop(rank)
        try:
            out, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            raise AssertionError(f"rank {rank} did not end\n{out}") from None
        assert process.returncode == want, f"rank {rank} ended with {process.returncode}\n{out}"
        return out

    def end_all(self) -> list[str]:
        """Waits for all ranks; of those that failed, what each has printed."""
        outs, failures = [], []
        for rank in sorted(self.running):
            try:
                outs.append(self.end(rank))
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, "\n".join(failures)
        return outs

    def close(self) -> None:
        """Ends what still runs."""
        for process in self.running.values():
            process.kill()
            process.communicate()


def ranks_on_gpus() -> int:
    """The number of ranks that the GPUs of this host are enough for."""
    import torch

    return torch.cuda.device_count() * int(os.environ.get("WEFT_TEST_RANKS_OF_GPU", "1"))


def run(module: str, function: str, ranks: int, *arguments: object, device: str = "cpu") -> list[str]:
    """Runs a function on all ranks, on GPUs on as many as there are; what each has printed."""
    if device == "cuda":
        ranks = min(ranks, ranks_on_gpus())
    world = World(module, ranks, device)
    try:
        for rank in range(ranks):
            world.start(function, rank, *arguments)
        return world.end_all()
    finally:
        world.close()


def wait_for(tcp_store: Any, key: str) -> None:
    """Waits until another rank, or the test, has set a key."""
    until = time.monotonic() + DEADLINE_S
    while not tcp_store.check([key]):
        assert time.monotonic() < until, f"nobody has set {key}"
        time.sleep(0.005)


def main() -> None:
    """One rank."""
    import torch
    import torch.distributed as dist

    module, function, rank, ranks, port, device, *arguments = sys.argv[1:]
    if device == "cuda":
        gpu = int(rank) % torch.cuda.device_count()
        torch.cuda.set_device(gpu)
        torch.set_default_device(f"cuda:{gpu}")
    store = dist.TCPStore("127.0.0.1", int(port), is_master=False, wait_for_workers=False,
                          timeout=timedelta(seconds=DEADLINE_S))
    getattr(importlib.import_module(module), function)(int(rank), int(ranks), store, *arguments)


if __name__ == "__main__":
    main()
