"""Groups of torch.distributed and of mpi4py: the number of this rank, and how to gather objects of all ranks."""

from __future__ import annotations

from typing import Any, Callable

import torch.distributed as dist


def gatherer(group: Any, comm: Any = None) -> tuple[int, int, Callable[[Any], list[Any]]]:
    """(rank, size, a function that gathers one object of each rank)."""
    if group is None and comm is None:
        raise ValueError("group: a group of torch.distributed is wanted, or comm= of mpi4py")
    if group is None:
        return comm.Get_rank(), comm.Get_size(), comm.allgather

    def gather(mine: Any) -> list[Any]:
        every: list[Any] = [None] * group.size()
        dist.all_gather_object(every, mine, group)
        return every

    return group.rank(), group.size(), gather
