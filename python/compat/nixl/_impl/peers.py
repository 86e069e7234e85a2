"""The other agents that an agent knows, which of their metadata it has, and whether they know this agent."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import weft
from weft import errors

from ..logging import get_logger
from .inbox import Inbox
from .lists import nixlXferDList
from .memory import DRAM, FILE, OBJ, VRAM
from .status import (
    failure_of,
    nixl_mem_t,
    nixlNotFoundError,
    nixlNotSupportedError,
    nixlRemoteDisconnectError,
    translated,
)

_MEET_S = 5.0
_REMEMBERED = 4096
"""the largest number of forgotten agents whose incarnation is remembered"""
_KINDS = {DRAM: weft.Kind.HOST, VRAM: weft.Kind.CUDA, FILE: weft.Kind.FILE, OBJ: weft.Kind.OBJECT}
logger = get_logger("agent")


@dataclass
class Peer:
    """Another agent."""

    id: int
    name: str
    everything: bool = False
    """whether it sent metadata of all of its regions: then its later regions are usable, too, once they are known"""
    regions: set[int] = field(default_factory=set)
    """the regions whose metadata it sent one by one"""
    addresses: list[str] = field(default_factory=list)
    introduced: bool = False
    """whether it knows this agent, so that it accepts notifications"""
    incarnation: int = 0
    """the incarnation of the agent of that name"""
    returns: bool = False
    """whether it was known before: it may believe that this agent has left, and then refuses its writes"""


class Peers:
    """The other agents of one agent. Any thread may call it."""

    def __init__(self, agent: weft.Agent, inbox: Inbox) -> None:
        self._agent = agent
        self._inbox = inbox
        self._lock = threading.RLock()
        self._by_name: dict[str, Peer] = {}
        self._forgotten: dict[str, int] = {}
        """incarnations of forgotten agents, by name"""
        self.notified: set[int] = set()
        """the peers to which a notification was sent"""

    def learn(self, id: int, everything: bool, regions: Iterable[int], addresses: Iterable[str] = ()) -> Peer:
        """Notes the regions and addresses that another agent has sent."""
        known = self._agent.peer(id)
        name = known.name
        with self._lock:
            peer = self._by_name.get(name)
            if peer is None or peer.id != id:
                before = self._forgotten.pop(name, 0) if peer is None else peer.incarnation
                peer = self._by_name[name] = Peer(id, name, incarnation=known.incarnation,
                                                  returns=before == known.incarnation)
            peer.everything = peer.everything or everything
            peer.regions.update(regions)
            peer.addresses = list(addresses) or peer.addresses
            return peer

    def find(self, name: str) -> Peer:
        """The agent of that name. `nixlNotFoundError`: its metadata was not loaded, or was withdrawn.
        `nixlRemoteDisconnectError`: it has closed, or was found dead or silent. `nixlBackendError`: this agent is
        closed."""
        self._inbox.pump()
        with self._lock:
            peer = self._by_name.get(name)
        if peer is None:
            raise nixlNotFoundError(f"no metadata of an agent {name!r} was loaded")
        try:
            self._agent.check(peer.id)
        except errors.ClosedError as error:  # this agent itself
            raise failure_of(error) from error
        except errors.Error as error:
            if self._taken_back(peer):
                raise nixlNotFoundError(f"{name} has taken its metadata out of the store") from error
            raise nixlRemoteDisconnectError(f"{name}: {error}") from error
        return peer

    def _taken_back(self, peer: Peer) -> bool:
        try:
            return self._agent.peer(peer.id).reason == "its key has gone from the store"
        except errors.Error:
            return False  # it left long ago

    def forget(self, name: str) -> bool:
        """Ends a peer on this side. False: there is no such peer."""
        with self._lock:
            peer = self._by_name.pop(name, None)
            if peer is None:
                return False
            self._forgotten[name] = peer.incarnation
            if len(self._forgotten) > _REMEMBERED:
                del self._forgotten[next(iter(self._forgotten))]
        self.notified.discard(peer.id)
        try:
            self._agent.invalidate(peer.id)
        except errors.Error:
            pass  # it has ended already
        return True

    def forget_id(self, id: int) -> None:
        """Does the same for a peer that withdraws its metadata."""
        with self._lock:
            name = next((one.name for one in self._by_name.values() if one.id == id), None)
        if name is not None:
            self.forget(name)

    def rows(self, peer: Peer, descs: nixlXferDList) -> memoryview:
        """Descriptors of a peer in Weft's form. `nixlNotFoundError`: a descriptor is in no region whose metadata it
        sent."""
        mem = descs.getType()
        if mem not in (DRAM, VRAM):
            raise nixlNotSupportedError(f"{mem.name} of another agent: files and objects belong to the agent that "
                                        f"moves them: name {self._agent.name!r} as the remote agent")
        if peer.everything:  # region 0: Weft finds the region that contains the range
            return descs.rows(itertools.repeat(0, descs.descCount()))
        return descs.rows(self._given(peer, mem, descs))

    def _given(self, peer: Peer, mem: nixl_mem_t, descs: nixlXferDList) -> list[int]:
        with translated():
            known = sorted((one.address, one.length, one.id) for one in self._agent.regions(peer.id)
                           if one.kind == _KINDS[mem] and one.id in peer.regions)
        found = []
        for address, length, _device in descs:
            before = bisect.bisect_right(known, (address, 1 << 64, 0))
            fitting = next((number for first, size, number in reversed(known[:before])
                            if first <= address and address + length <= first + size), None)
            if fitting is None:
                raise nixlNotFoundError(f"{peer.name} has given no metadata of {mem.name} {length} bytes at "
                                        f"{address:#x}")
            found.append(fitting)
        return found

    def has(self, peer: Peer, descs: nixlXferDList) -> bool:
        """Whether all descriptors are within regions whose metadata the peer has sent."""
        if descs.isEmpty():
            return True
        try:
            with translated():
                self._agent.descriptors(self.rows(peer, descs), peer.id)
        except (nixlNotFoundError, nixlNotSupportedError):
            return False
        return True

    def meet_again(self, name: str, addresses: Iterable[str]) -> None:
        """Meets an agent that was forgotten here again, before its metadata is loaded, so that it knows that this agent
        has not left. When it sees this agent leave, it closes all connections to its memory that this agent has made
        until then."""
        with self._lock:
            if name not in self._forgotten:
                return
        for address in addresses:
            try:
                self._agent.meet(address, timeout=_MEET_S)
                return
            except errors.Error:
                continue  # if a transfer needs it, come_back() reports the reason

    def come_back(self, peer: Peer) -> None:
        """Introduces this agent again to a peer that was known before, so that it knows that this agent has not
        left."""
        if peer.returns:
            peer.returns = False
            self.introduce(peer)

    def introduce(self, peer: Peer) -> None:
        """Introduces this agent to a peer, once, so that the peer accepts notifications. If the peer cannot be reached,
        logs a warning: the peer accepts them only if its program has loaded this agent's metadata."""
        if peer.introduced or peer.id == weft.SELF:
            return
        if peer.id in self._inbox.heard:
            peer.introduced = True
            return
        why = "its metadata names no address"
        for address in peer.addresses:
            try:
                met = self._agent.meet(address, timeout=_MEET_S)
            except errors.Error as error:
                why = f"{address}: {error}"
                continue
            if met == peer.id:
                peer.introduced = True
                return
            why = f"{address}: another agent listens there"
        peer.introduced = True  # the warning is logged once
        logger.warning("%s could not be told of %s (%s): unless its program loads the metadata of %s, notifications to "
                       "it are lost. Between hosts WEFT_TOKEN has to be set, see the README of weft-compat", peer.name,
                       self._agent.name, why, self._agent.name)
