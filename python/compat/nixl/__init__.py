"""The module `nixl` on Weft: agents, registered memory, one-sided transfers, notifications, exchange of metadata.

It is a part of the distribution weft-compat, whose README has a table of all calls and of the differences. Programs use
the class `nixl_agent`; `nixl._bindings` is the layer below it.
"""

import weft_compat

weft_compat.take_name("nixl")

from . import _api, _bindings, _utils, logging  # noqa: E402
from ._api import (  # noqa: E402
    DEFAULT_COMM_PORT,
    NIXL_NULL_AGENT,
    nixl_agent,
    nixl_agent_config,
    nixl_backend_handle,
    nixl_prepped_dlist_handle,
    nixl_thread_sync_t,
    nixl_xfer_handle,
)
from ._bindings import *  # noqa: E402, F403
from .logging import get_logger  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_COMM_PORT",
    "NIXL_NULL_AGENT",
    "_api",
    "_bindings",
    "_utils",
    "get_logger",
    "logging",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]
