"""Weft: elastic expert parallelism, and transfers of registered memory.

| | |
|---|---|
| `weft.store` | `Store`, `Server`: the key-value store on which ranks and agents agree |
| `weft.agent` | `Agent`: registered memory, peers, notifications |
| `weft.transfer` | `Transfer`: one-sided reads and writes |
| `weft.ep` | `weft.ep.Rank`: dispatch and combine among ranks that join, leave and die |
| `weft.errors` | an exception for each error code |

These rules hold everywhere. What is open is closed by ``close()``, at the end of a ``with``, and when the process ends.
A closed object raises `weft.errors.ClosedError`, and so does an object of the parent in a forked child. Waits let other
threads run, obey Ctrl-C, and have a deadline: ``timeout`` in seconds, None for none. Arrays are of any framework: see
`weft.memory`. The C headers (weft/store.h, weft/agent.h, weft/ep.h) say what every call does in all detail.
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
