"""How programs set torch.distributed up from the environment."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist


def init_dist(local_rank: int, num_local_ranks: int) -> tuple[int, int, Any]:
    """Joins the processes of all nodes into one group: (rank, number of ranks, group). WORLD_SIZE and RANK are of nodes
    here, as the original's programs say them; MASTER_ADDR and MASTER_PORT name where they meet."""
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "8361"))
    nodes, node = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(local_rank)
        torch.set_default_device("cuda")
    dist.init_process_group(backend, init_method=f"tcp://{address}:{port}", world_size=nodes * num_local_ranks,
                            rank=node * num_local_ranks + local_rank)
    return dist.get_rank(), dist.get_world_size(), dist.new_group(list(range(dist.get_world_size())))


def dist_print(text: str = "", once_in_node: bool = False) -> None:
    """Prints in the order of ranks, or on one rank of a node alone."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", torch.cuda.device_count() or dist.get_world_size()))
    for rank in range(dist.get_world_size()):
        if rank == dist.get_rank() and not (once_in_node and rank % ranks):
            print(text, flush=True)
        dist.barrier()
