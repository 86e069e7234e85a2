"""Exchange of metadata by sockets and by a store. The calls return at once, as programs expect. A thread for each
destination does the work, and ends when there is no more. Failures are logged; `checkRemoteMD` says which metadata has
arrived."""

from __future__ import annotations

import collections
import struct
import threading
import time
from collections.abc import Callable, Hashable

import weft
from weft import errors

from ..logging import get_logger
from . import secret
from .inbox import FETCH, FORGET, TELL, Inbox
from .peers import Peers
from .status import nixlBackendError

_PATIENCE_S = 60.0
_EACH_S = 5.0
_IDS_EACH = 500
logger = get_logger("agent")

Errand = Callable[[], None]
Address = tuple[str, int]
"""host and port at which an agent listens"""


class Errands:
    """Work for destinations: in order for each destination, in parallel for different destinations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[Hashable, collections.deque[tuple[Hashable, Errand]]] = {}

    def add(self, destination: Hashable, what: Hashable, errand: Errand) -> None:
        """Adds work, unless the same work is already waiting."""
        with self._lock:
            queue = self._queues.get(destination)
            if queue is not None:
                if all(waiting != what for waiting, _ in queue):
                    queue.append((what, errand))
                return
            self._queues[destination] = collections.deque([(what, errand)])
        threading.Thread(target=self._run, args=(destination,), name="nixl-metadata", daemon=True).start()

    def _run(self, destination: Hashable) -> None:
        while True:
            with self._lock:
                queue = self._queues[destination]
                if not queue:
                    del self._queues[destination]
                    return
                _, errand = queue[0]  # it stays in the queue until it is done, so the same work is not added
            try:
                errand()
            except errors.ClosedError:
                logger.debug("the agent was closed before %s", destination)
            except Exception as error:
                logger.error("metadata, %s: %s", destination, error)
            with self._lock:
                queue.popleft()


class Exchange:
    """The exchange of one agent."""

    def __init__(self, agent: weft.Agent, peers: Peers, inbox: Inbox) -> None:
        self._agent = agent
        self._peers = peers
        self._inbox = inbox
        self._errands = Errands()
        self._met: dict[Address, int] = {}
        self._labels: set[str] = set()
        self._published = False

    # --- by sockets ---

    def _meet(self, address: Address) -> int:
        """Waits for the agent that listens at the address, and returns its id."""
        known = self._met.get(address)
        if known is not None:
            try:
                self._agent.check(known)
                return known
            except errors.Error:
                del self._met[address]
        host, port = secret.call_at(address[0]), address[1]
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._met[address] = self._agent.meet(where, timeout=_EACH_S)
                return self._met[address]
            except (errors.UnreachableError, errors.DeadlineError, errors.PeerLostError) as error:
                if time.monotonic() > deadline:
                    raise nixlBackendError(f"no agent listens at {where}: {error}") from error
            except errors.AuthError as error:
                raise nixlBackendError(f"the agent at {where} has another token: set WEFT_TOKEN to the same secret "
                                       f"for both ({error})") from error
            time.sleep(0.05)

    def tell(self, peer: int, everything: bool, regions: list[int]) -> None:
        """Sends this agent's regions to a peer that it has met."""
        for at in range(0, max(len(regions), 1), _IDS_EACH):
            some = regions[at : at + _IDS_EACH]
            self._inbox.send(peer, TELL, struct.pack(f"<B{len(some)}Q", everything, *some))

    def send_to(self, address: Address, everything: bool, regions: list[int]) -> None:
        """Sends this agent's metadata to the agent that listens at the address."""
        def errand() -> None:
            self.tell(self._meet(address), everything, regions)
        self._errands.add(address, ("send", everything, tuple(regions)), errand)

    def fetch_from(self, address: Address, name: str) -> None:
        """Requests the metadata of the agent that listens at the address."""
        def errand() -> None:
            peer = self._meet(address)
            found = self._agent.peer(peer).name
            if found != name:
                raise nixlBackendError(f"at {address[0]}:{address[1]} listens the agent {found!r}, not {name!r}")
            self._inbox.send(peer, FETCH)
        self._errands.add(address, ("fetch", name), errand)

    def withdraw_from(self, address: Address) -> None:
        """Withdraws the metadata that was sent to the agent that listens at the address."""
        def errand() -> None:
            peer = self._meet(address)
            self._inbox.send(peer, FORGET)
            self._inbox.settle({peer}, 2.0)
        self._errands.add(address, "withdraw", errand)

    def hear(self, peer: int, kind: bytes, rest: bytes) -> None:
        """Handles a message of another agent."""
        if kind == TELL and rest and len(rest) % 8 == 1:
            everything, *regions = struct.unpack(f"<B{len(rest) // 8}Q", rest)
            self._peers.learn(peer, bool(everything), regions)
        elif kind == FETCH:
            self.tell(peer, True, [])
        elif kind == FORGET:
            self._peers.forget_id(peer)
        else:
            logger.warning("a message %r of another version of this module was passed over", kind)

    # --- by a store ---

    def publish(self, label: str, everything: bool, regions: list[int], connects: bool) -> None:
        """Puts this agent's metadata into the store and keeps it there."""
        def errand() -> None:
            self._agent.publish(label or None, None if everything else regions, addresses=connects or everything,
                                timeout=_PATIENCE_S)
            if label:
                self._labels.add(label)
            else:
                self._published = True
        self._errands.add("store", ("publish", label, everything, tuple(regions)), errand)

    def fetch_by_name(self, name: str, label: str) -> None:
        """Loads the metadata of an agent as soon as it is in the store."""
        def errand() -> None:
            peer = self._agent.fetch(name, label or None, timeout=_PATIENCE_S)
            if peer != weft.SELF:
                known = [one.id for one in self._agent.regions(peer)] if label else []
                self._peers.learn(peer, not label, known)
        self._errands.add(f"store, {name} {label}".rstrip(), "fetch", errand)

    def unpublish(self) -> None:
        """Removes this agent's metadata from the store: agents that fetched it see this agent leave."""
        def errand() -> None:
            for label in sorted(self._labels):
                self._agent.unpublish(label)
            self._labels.clear()
            if self._published:
                self._published = False
                self._agent.unpublish()
        self._errands.add("store", "unpublish", errand)
