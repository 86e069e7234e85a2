"""Ranks as processes, for the tests of nixl_ep and deep_ep: each runs a function of a module, and leaves by its status.

The function gets its rank, the number of ranks, a torch TCPStore of the test's, and the arguments that were given. On
the device "cuda" each rank has a GPU, on which all tensors are made that say nothing else. The environment variable
WEFT_TEST_RANKS_OF_GPU (default 1) is the number of ranks that share a GPU.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import signal
import tempfile
import time
from datetime import timedelta
from typing import Any

from ep_nursery import nursery

DEADLINE_S = 120
# Debian's torch has no libuv, which torch takes for granted where nothing else is said.
TCP_STORE: dict[str, Any] = {"wait_for_workers": False, "timeout": timedelta(seconds=DEADLINE_S), "use_libuv": False}
GROUPS: list[Any] = []  # of this rank


class World:
    """The ranks of one test, and the TCPStore that they meet in."""

    def __init__(self, module: str, ranks: int, device: str = "cpu") -> None:
        import torch.distributed as dist

        self.module, self.ranks, self.device = module, ranks, device
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, **TCP_STORE)
        self.running: dict[int, int] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="weft-ranks-")

    def printed(self, rank: int) -> pathlib.Path:
        """Where a rank prints."""
        return pathlib.Path(self.folder.name, str(rank))

    def start(self, function: str, rank: int, *arguments: object) -> None:
        """Starts a rank."""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        self.running[rank] = nursery().ask(start=[
            self.module, function, rank, self.ranks, self.store.port, self.device, *map(str, arguments)],
            printed=str(self.printed(rank)), environment=environment)

    def end(self, rank: int, want: int = 0) -> str:
        """Waits for a rank; what it has printed."""
        process = self.running.pop(rank)
        ended = nursery().ask(wait=process, seconds=DEADLINE_S)
        if ended is None:
            os.kill(process, signal.SIGKILL)
            nursery().ask(wait=process, seconds=DEADLINE_S)
        out = self.printed(rank).read_text()
        assert ended is not None, f"rank {rank} did not end\n{out}"
        assert ended == want, f"rank {rank} ended with {ended}\n{out}"
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
            os.kill(process, signal.SIGKILL)
            nursery().ask(wait=process, seconds=DEADLINE_S)
        self.folder.cleanup()


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


def join(rank: int, ranks: int, store: Any) -> None:
    """Makes the rank's process group. It is kept to the end: where Python drops the last reference to a group, torch
    2.6 waits for a thread of the group that may wait for Python."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=rank, world_size=ranks)
    GROUPS.append(dist.group.WORLD)


def be(module: str, function: str, rank: int, ranks: int, port: int, device: str, *arguments: str) -> None:
    """One rank."""
    import torch
    import torch.distributed as dist

    if device == "cuda":
        gpu = rank % torch.cuda.device_count()
        torch.cuda.set_device(gpu)
        torch.set_default_device(f"cuda:{gpu}")
    store = dist.TCPStore("127.0.0.1", port, is_master=False, **TCP_STORE)
    getattr(importlib.import_module(module), function)(rank, ranks, store, *arguments)
