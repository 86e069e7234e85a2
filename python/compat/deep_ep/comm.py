"""Calls about the communicators of groups, under the module name of version 2.5 of the original."""

from .utils.envs import get_logical_domain_size, get_physical_domain_size

__all__ = ["destroy_all_managed_nccl_comm", "get_logical_domain_size", "get_physical_domain_size"]


def destroy_all_managed_nccl_comm() -> None:
    """Does nothing: Weft makes no communicators of NCCL."""
