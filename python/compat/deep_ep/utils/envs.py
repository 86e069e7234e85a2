"""Sets up torch.distributed from the environment."""

from __future__ import annotations

import os
import random
from typing import Any

import torch
import torch.distributed as dist

_seeds = {"global": 0, "local": 0}


def init_seed(global_seed: int) -> None:
    """Seeds the random numbers of torch and Python, with a different seed on each rank."""
    _seeds.update({"global": global_seed, "local": global_seed + dist.get_rank()})
    torch.manual_seed(_seeds["local"])
    random.seed(_seeds["local"])


def get_global_seed() -> int:
    """The argument of `init_seed`; 0 before that call."""
    return _seeds["global"]


def get_local_seed() -> int:
    """The seed of this rank; 0 before `init_seed`."""
    return _seeds["local"]


def get_physical_domain_size(group: Any) -> tuple[int, int]:
    """(1, ranks): Weft chooses the transport to each rank itself, and has no domains."""
    return 1, int(group.size())


def get_logical_domain_size(group: Any, allow_hybrid_mode: bool = True) -> tuple[int, int]:
    """As `get_physical_domain_size`."""
    del allow_hybrid_mode
    return get_physical_domain_size(group)


def init_dist(local_rank: int, num_local_ranks: int, seed: int = 0) -> tuple[int, int, Any]:
    """Joins the processes of all nodes into one group: returns (rank, number of ranks, group). WORLD_SIZE and RANK
    count nodes here, as in the original's programs; MASTER_ADDR and MASTER_PORT are the address at which they meet. The
    call seeds the random numbers (`init_seed`)."""
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "8361"))
    nodes, node = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(local_rank)
        torch.set_default_device("cuda")
    dist.init_process_group(backend, init_method=f"tcp://{address}:{port}", world_size=nodes * num_local_ranks,
                            rank=node * num_local_ranks + local_rank)
    init_seed(seed)
    return dist.get_rank(), dist.get_world_size(), dist.new_group(list(range(dist.get_world_size())))


def dist_print(s: str = "", once_in_node: bool = False) -> None:
    """Prints in the order of ranks, or only on one rank of a node."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", torch.cuda.device_count() or dist.get_world_size()))
    for rank in range(dist.get_world_size()):
        if rank == dist.get_rank() and not (once_in_node and rank % ranks):
            print(s, flush=True)
        dist.barrier()
