"""The store of Weft through which the ranks of a group meet, and the exchange of its address. Without torch."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
import time
from collections.abc import Iterable
from typing import Any, Callable

import weft

from weft_compat import addresses

from ._arguments import Sizes, differences

TCP_KEY = "weft/ep/store"
"""the key of a TCPStore under which the address of Weft's store stands"""

LOOK_S = 0.1
"""a rank that waits in `pair` looks this often whether the group has begun without it"""

_servers: list[weft.Server] = []
"""stores that this process serves: until it ends, since other ranks may outlive the buffer that began them"""


def deadline(seconds: float) -> float:
    """The time that many seconds from now."""
    return time.monotonic() + seconds


def left(until: float) -> float:
    """Seconds until a deadline, at least 0."""
    return max(0.0, until - time.monotonic())


def _of_name() -> list[str]:
    """The address to which the host's name resolves, if other hosts reach this host by it: not 127.0.1.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            named = socket.gethostbyname(socket.gethostname())
            probe.bind((named, 0))
        except OSError:
            return []
    return [] if ipaddress.ip_address(named).is_loopback else [named]


def host_address() -> str:
    """An address of this host that others reach: the first that WEFT_ADDRESS or WEFT_INTERFACE names, since the ranks
    listen there; else the address of the route to other hosts, else that of the host's name, else that of an interface,
    else loopback."""
    named = os.environ.get("WEFT_ADDRESS") or os.environ.get("WEFT_INTERFACE")
    if not named:
        return next(iter(addresses.of_route() or _of_name() or addresses.of_host()), "127.0.0.1")
    first = named.split(",")[0]
    try:
        return str(ipaddress.ip_address(first))
    except ValueError:
        found = addresses.of_interface(first)
    if not found:
        raise OSError(f"{first!r} is neither an address nor an interface of this host with one: see WEFT_ADDRESS and "
                      "WEFT_INTERFACE")
    return found[0]


def network() -> str:
    """A name of this host and its network namespace: it is equal in processes that reach each other by loopback."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return f"{boot.read().strip()} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return socket.gethostname()


def serve(one_host: bool) -> dict[str, str]:
    """Serves a store in this process, and returns what the other ranks need to use it."""
    address = "127.0.0.1" if one_host else host_address()
    server = weft.Server(address=address)
    _servers.append(server)
    return {"url": server.url, "token": server.token, "prefix": f"/weft-compat/{secrets.token_hex(8)}/"}


def named_store() -> dict[str, str] | None:
    """The store that the environment names: WEFT_STORE with WEFT_TOKEN, or NIXL_ETCD_ENDPOINTS with WEFT_STORE_TOKEN;
    None if it names none. With NIXL_ETCD_ENDPOINTS, WEFT_TOKEN is the secret of the agents of `nixl`, which must not be
    sent to a store."""
    pairs = (("WEFT_STORE", "WEFT_TOKEN"), ("NIXL_ETCD_ENDPOINTS", "WEFT_STORE_TOKEN"))
    named = next((pair for pair in pairs if os.environ.get(pair[0])), None)
    if named is None:
        return None
    url, token = os.environ[named[0]], os.environ.get(named[1], "")
    names = ("WEFT_JOB", "NIXL_ETCD_NAMESPACE", "SLURM_JOB_ID")
    name = next((os.environ[name].strip("/") for name in names if os.environ.get(name, "").strip("/")), "ep")
    return {"url": url, "token": token, "prefix": f"/weft-compat/{name}/"}


class Meeting:
    """A store, and the part of it that belongs to one group."""

    def __init__(self, info: dict[str, str], rank: int) -> None:
        self.info = info
        self.rank = rank
        self.prefix = info["prefix"]
        self.store = weft.Store(info["url"], token=info["token"] or None)
        self._rounds: dict[str, int] = {}
        self._id = secrets.token_hex(8)  # a rank that begins again has another
        self._met: dict[int, tuple[str, int]] = {}  # of each rank that `pair` met: its id, and how often it was removed
        self._passed: dict[int, int] = {}  # calls of `pass_together` with each rank since this rank met it

    @classmethod
    def by_exchange(cls, rank: int, gather: Callable[[Any], list[Any]]) -> Meeting:
        """A meeting of ranks that can gather an object of each. Rank 0 serves the store, unless the environment names
        one."""
        networks = gather(network())
        mine = None
        if rank == 0:
            try:
                named = named_store()
                mine = {**named, "prefix": f"{named['prefix']}{secrets.token_hex(8)}/"} if named else serve(
                    len(set(networks)) == 1)
            except (weft.errors.Error, OSError) as error:  # the other ranks, which wait for it, get the error
                mine = {"failure": f"rank 0 serves no store: {error}"}
        info = next(info for info in gather(mine) if info)
        if "failure" in info:
            raise RuntimeError(info["failure"])
        return cls(info, rank)

    @classmethod
    def by_tcp_store(cls, tcp_store: Any, rank: int, first: bool, seconds: float) -> Meeting:
        """A meeting of ranks that share a torch TCPStore, or an object with the same `set`, `get` and `check`. The rank
        with `first` serves the store unless there is one already; the others wait for its address."""
        until = deadline(seconds)
        while not tcp_store.check([TCP_KEY]):
            if first:
                host = getattr(tcp_store, "host", "")
                publish(tcp_store, named_store() or serve(host in ("127.0.0.1", "localhost", "::1")))
                break
            if left(until) == 0:
                raise TimeoutError(f"no rank has put the address of Weft's store into the TCPStore within {seconds:g} "
                                   "s: the lowest of the ranks that connect to each other does so in connect_ranks")
            time.sleep(0.01)
        return cls(json.loads(tcp_store.get(TCP_KEY)), rank)

    def meet(self, ranks: Iterable[int], what: str, seconds: float) -> None:
        """Waits until all ranks have made this call as often as this rank. The error names the ranks that have not."""
        others = sorted(set(ranks) - {self.rank})
        number = self._rounds[what] = self._rounds.get(what, 0) + 1
        self.store.put(f"{self.prefix}{what}/{self.rank}", str(number))
        until = deadline(seconds)
        with self.store.watch(f"{self.prefix}{what}/") as news:
            while True:
                found = self.store.range(f"{self.prefix}{what}/", prefix=True).items
                there = {int(item.key.rsplit("/", 1)[1]) for item in found if int(item.value) >= number}
                missing = [rank for rank in others if rank not in there]
                if not missing:
                    return
                if left(until) == 0:
                    raise TimeoutError(f"{what}: ranks {missing} did not come within {seconds:g} s")
                news.next(left(until))

    def largest(self, what: str, number: int, ranks: Iterable[int], seconds: float) -> int:
        """The largest of the numbers that these ranks and this one give in this call, which each of them makes once."""
        others = set(ranks) - {self.rank}
        self.store.put(f"{self.prefix}{what}/{self.rank}", json.dumps([self._id, number]))
        until = deadline(seconds)
        with self.store.watch(f"{self.prefix}{what}/") as news:
            while True:
                said = self._records(what)
                # A rank that has begun again has another id than before; `by_exchange` meets ranks without one.
                there = {rank for rank in others & said.keys() if said[rank][0] == self._met.get(rank, said[rank])[0]}
                if there == others:
                    return max([number, *(int(said[rank][1]) for rank in others)])
                if left(until) == 0:
                    raise TimeoutError(f"{what}: ranks {sorted(others - there)} did not come within {seconds:g} s")
                news.next(left(until))

    def pair(self, ranks: Iterable[int], seconds: float) -> bool:
        """Waits until each of these ranks has made this call with this rank among its ranks: once, and again after both
        have removed each other, or after one of them has begun again. False: none of them has, and the group runs
        operations already, so that they will not; this rank has to join the group."""
        others = sorted(set(ranks) - {self.rank})
        tell = True
        until = deadline(seconds)
        with self.store.watch(f"{self.prefix}paired/") as news:
            while True:
                if tell:
                    self._tell()
                # Read before the records: ranks that have met this one say so before they begin.
                begun, named = self.sizes() is not None, False
                tell, missing, said = False, [], self._records("paired")
                for rank in others:
                    name, theirs = said.get(rank, (None, {}))
                    of, times = theirs.get(str(self.rank), ("", 0))
                    named |= of == self._id
                    known = self._met.get(rank, ("", 0))
                    seen = times if of == self._id else 0
                    if name is not None and (name != known[0] or seen > known[1]):
                        if name != known[0]:
                            self._passed[rank] = 0
                        self._met[rank] = (name, seen)
                        tell = True
                    if of != self._id or times < self._met[rank][1]:
                        missing.append(rank)
                if tell:
                    continue
                if not missing:
                    return True
                if begun and not named:
                    return False
                if left(until) == 0:
                    raise TimeoutError(f"connect_ranks: ranks {missing} did not come within {seconds:g} s")
                news.next(min(left(until), LOOK_S))

    def _tell(self) -> None:
        self.store.put(f"{self.prefix}paired/{self.rank}", json.dumps([self._id, self._met]))

    def _records(self, what: str) -> dict[int, Any]:
        found = self.store.range(f"{self.prefix}{what}/", prefix=True).items
        return {int(item.key.rsplit("/", 1)[1]): json.loads(item.value) for item in found}

    def unpair(self, ranks: Iterable[int]) -> None:
        """Removes ranks: `pair` waits for them again."""
        for rank in ranks:
            if rank in self._met:
                name, times = self._met[rank]
                self._met[rank] = (name, times + 1)
        self._tell()

    def pass_together(self, ranks: Iterable[int], seconds: float) -> None:
        """Waits until all of these ranks, which this rank has met by `pair`, have made this call as often since then as
        this rank."""
        others = sorted(set(ranks) - {self.rank})
        for rank in others:
            self._passed[rank] = self._passed.get(rank, 0) + 1
        ids = {rank: one[0] for rank, one in self._met.items()}
        mine = {rank: [ids.get(rank), number] for rank, number in self._passed.items()}
        self.store.put(f"{self.prefix}passed/{self.rank}", json.dumps([self._id, mine]))
        until = deadline(seconds)
        with self.store.watch(f"{self.prefix}passed/") as news:
            while True:
                there = set()
                for rank, (name, passed) in self._records("passed").items():
                    of, number = passed.get(str(self.rank), ("", 0))
                    if name == ids.get(rank) and of == self._id and number >= self._passed.get(rank, 0):
                        there.add(rank)
                missing = [rank for rank in others if rank not in there]
                if not missing:
                    return
                if left(until) == 0:
                    raise TimeoutError(f"barrier: ranks {missing} did not come within {seconds:g} s")
                news.next(left(until))

    def leave(self) -> None:
        """Lets ranks that call `pair` for this one wait until it is there again."""
        if self._records("paired").get(self.rank, [""])[0] == self._id:
            self.store.delete(f"{self.prefix}paired/{self.rank}")

    # --- invitations: a running rank has called connect_ranks for a rank that is to join ---

    def invite(self, ranks: Iterable[int], staged: bool) -> None:
        """Tells ranks that they may join; staged: only after this rank has invited them without it."""
        for rank in ranks:
            self.store.put(f"{self.prefix}invited/{rank}/{self.rank}", "staged" if staged else "now")

    def withdraw(self, ranks: Iterable[int]) -> None:
        """Removes this rank's invitations to ranks that have joined, or that shall not join any more."""
        for rank in ranks:
            self.store.delete(f"{self.prefix}invited/{rank}/{self.rank}")

    def joins_late(self, by: set[int], seconds: float) -> bool:
        """Whether one of these ranks has staged this rank, which then joins at its first operation. Waits for an
        invitation if a running rank has published where the group is for that. Otherwise it may join without one."""
        return b"staged" in self._await_invitations(by, seconds, lambda said: said or "invites" not in self.info)

    def await_admission(self, by: set[int], seconds: float) -> None:
        """Waits until all of these ranks that have staged this rank let it join."""
        self._await_invitations(by, seconds, lambda said: said and b"staged" not in said)

    def _await_invitations(self, by: set[int], seconds: float, enough: Callable[[list[bytes]], Any]) -> list[bytes]:
        own = f"{self.prefix}invited/{self.rank}/"
        until = deadline(seconds)
        with self.store.watch(own) as news:
            while True:
                found = self.store.range(own, prefix=True).items
                said = [item.value for item in found if int(item.key.rsplit("/", 1)[1]) in by]
                if enough(said):
                    return said
                if left(until) == 0:
                    raise TimeoutError(f"connect_ranks: within {seconds:g} s the ranks {sorted(by)} have not let rank "
                                       f"{self.rank} join: they call connect_ranks for it, and unmask it")
                news.next(left(until))

    def sizes(self, part: str = "") -> Sizes | None:
        """The sizes of the operations of the group, or of a part of it; None before the first operation."""
        found = self.store.get(f"{self.prefix}sizes{part}")
        return None if found is None else Sizes(*json.loads(found.value))

    def agree(self, mine: Sizes, part: str = "") -> None:
        """Sets the sizes of the group, or of a part of its operations. If other sizes are set already, raises
        ValueError."""
        key = f"{self.prefix}sizes{part}"
        self.store.txn([weft.Compare(key, "version", "==", 0)], [weft.Op.put(key, json.dumps(mine))])
        theirs = self.sizes(part)
        if theirs is not None and theirs != mine:
            raise ValueError(f"all ranks of a group have operations of the same sizes: {differences(mine, theirs)}")

    def close(self) -> None:
        """Closes the store."""
        self.store.close()


def publish(tcp_store: Any, info: dict[str, str]) -> None:
    """Publishes the address of the store through a TCPStore."""
    tcp_store.set(TCP_KEY, json.dumps(info))
