"""Weft: elastic expert parallelism, and transfers of registered memory.

| | |
|---|---|
| `weft.store` | `Store`, `Server`: the key-value store on which ranks and agents agree |
| `weft.agent` | `Agent`: registered memory, peers, notifications |
| `weft.transfer` | `Transfer`: one-sided reads and writes |
| `weft.ep` | `weft.ep.Rank`: dispatch and combine among ranks that join, leave and die |
| `weft.errors` | an exception for each error code |

These rules apply everywhere. An open object is closed by ``close()``, at the end of a ``with``, and when the process
ends. Calls of a closed object raise `weft.errors.ClosedError`, and so do calls of the parent's objects in a forked
child. Calls that wait let other threads run, can be interrupted by Ctrl-C, and have a deadline: ``timeout`` in seconds,
None for no deadline. Arrays may come from any framework: see `weft.memory`. The C headers (weft/store.h, weft/agent.h,
weft/ep.h) describe every call in all detail.
"""

from . import ep, errors
from ._weft import version as _version
from .agent import SELF, Agent, Event, EventKind, Notification, PeerInfo, PeerState, transports
from .errors import Error, Scope
from .memory import Buffer, Kind, Owners, Region, RegionInfo
from .store import Compare, KeyValue, Op, Server, Store, Watch
from .transfer import DescriptorList, Transfer, TransferInfo

__version__ = _version()

__all__ = [
    "SELF",
    "Agent",
    "Buffer",
    "Compare",
    "DescriptorList",
    "Error",
    "Event",
    "EventKind",
    "KeyValue",
    "Kind",
    "Notification",
    "Op",
    "Owners",
    "PeerInfo",
    "PeerState",
    "Region",
    "RegionInfo",
    "Scope",
    "Server",
    "Store",
    "Transfer",
    "TransferInfo",
    "Watch",
    "__version__",
    "ep",
    "errors",
    "transports",
]
