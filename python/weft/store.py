"""The store: a small, strongly consistent key-value store on which ranks and agents agree.

The model is that of etcd v3: keys, transactions, leases, watches. A `Store` is a client of an etcd cluster, of
``weft serve`` or of a `Server` in this process, or a store inside this process alone (`Store.local`)::

    with weft.Server() as server, weft.Store(server.url, token=server.token) as store:
        store.put("/demo/key", b"value")
        print(store.get("/demo/key").value)

Any thread may use a store at any time.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Union

from . import _asyncio, _weft
from ._common import I64, STORES, U16, listed, milliseconds, note_open, option_ms, whole

Text = Union[str, bytes]


class KeyValue(NamedTuple):
    """One key and its state."""

    key: str
    """the key; bytes that are no UTF-8 are surrogates (``surrogateescape``)"""
    value: bytes
    """its value"""
    create_revision: int
    """revision of the put that created the key"""
    mod_revision: int
    """revision of its last put, or of its deletion"""
    version: int
    """puts since its creation, counted from 1"""
    lease: int
    """the lease that it is attached to, 0: none"""


class Range(NamedTuple):
    """What `Store.range` found."""

    items: list[KeyValue]
    """sorted by key"""
    revision: int
    """revision of the store at which it holds"""
    total: int
    """keys in the range, whatever the limit"""
    more: bool
    """whether the limit left some out"""


class Lease(NamedTuple):
    """A time limit that its owner renews; its keys are deleted when it ends."""

    id: int
    """never 0"""
    ttl: int
    """seconds granted, which may be more than asked for"""


class EventKind(enum.IntEnum):
    """What an event of a watch tells."""

    PUT = 0
    """a key was put"""
    DELETE = 1
    """a key was deleted"""
    LOST = 2
    """the connection is cut; the watch reconnects by itself and loses no event"""
    RESUMED = 3
    """the watch is established: once at its start, and after each LOST"""
    RESET = 4
    """the watch is established, but events may be missing: read everything again"""


class WatchEvent(NamedTuple):
    """One event of a watch."""

    kind: EventKind
    """what happened"""
    revision: int
    """PUT and DELETE: revision of the change; else one that the store has reached"""
    item: KeyValue | None
    """PUT and DELETE: the key; a deleted one has its key and mod_revision only"""


class Compare(NamedTuple):
    """A condition of a transaction: ``Compare("/k", "version", "==", 0)``."""

    key: Text
    """the key"""
    target: str
    """``create``, ``mod``, ``version`` (0 where the key is absent) or ``value``"""
    relation: str
    """``==``, ``>``, ``<`` or ``!=``: how what the store holds has to relate to `operand`"""
    operand: int | Text
    """a number, or with ``value`` bytes"""


class Op(NamedTuple):
    """An operation of a transaction; made by `put`, `delete` and `range`."""

    kind: int
    key: Text
    value: Text = b""
    lease: int = 0
    prefix: bool = False
    limit: int = 0

    @classmethod
    def put(cls, key: Text, value: Text, lease: int = 0) -> Op:
        """Creates or overwrites a key."""
        return cls(0, key, value, lease)

    @classmethod
    def delete(cls, key: Text, prefix: bool = False) -> Op:
        """Deletes a key, or all with a prefix."""
        return cls(1, key, prefix=prefix)

    @classmethod
    def range(cls, key: Text, prefix: bool = False, limit: int = 0) -> Op:
        """Reads a key, or all with a prefix."""
        return cls(2, key, prefix=prefix, limit=limit)


class TxnResult(NamedTuple):
    """What a transaction did."""

    succeeded: bool
    """whether all conditions held"""
    revision: int
    """revision of the store after it"""
    responses: list[Range | int | None]
    """of each operation of the branch that ran: a `Range`, how many keys were deleted, or None for a put"""


_TARGETS = {"create": 0, "mod": 1, "version": 2, "value": 3}
_RELATIONS = {"==": 0, ">": 1, "<": 2, "!=": 3}


def _range(found: tuple[list[tuple[str, bytes, int, int, int, int]], int, int, bool]) -> Range:
    return Range([KeyValue(*item) for item in found[0]], *found[1:])


def _joined(endpoints: object) -> str:
    if isinstance(endpoints, str):
        return endpoints
    words: list[Any] = list(endpoints) if isinstance(endpoints, Iterable) else [None]
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"endpoints: a str such as 'http://10.0.0.1:2379', or a sequence of them, is wanted, not "
                        f"{endpoints!r:.60}")
    return ",".join(words)


def _compare(condition: Compare) -> tuple[Text, int, int, int | Text]:
    if not isinstance(condition, Compare):
        raise TypeError(f"txn: compares: a weft.Compare is wanted, not {condition!r:.60}")
    if condition.target not in list(_TARGETS) or condition.relation not in list(_RELATIONS):
        raise ValueError(
            f"Compare: {condition.target!r:.60} {condition.relation!r:.60}: the targets are {', '.join(_TARGETS)}, the "
            f"relations {' '.join(_RELATIONS)}"
        )
    return condition.key, _TARGETS[condition.target], _RELATIONS[condition.relation], condition.operand


def _lease(lease: int | Lease) -> int:
    number = lease.id if isinstance(lease, Lease) else lease
    if not isinstance(number, int):
        raise TypeError(f"lease: a Lease or its id is wanted, not {lease!r:.60}")
    return whole("lease", number, I64)


class Watch:
    """Changes of all keys with one prefix. Iterate over it, or ``async for`` it, or ask `next`.

    Events wait, without a limit, until they are taken. Close it, or use it as a context manager; it goes on where its
    store is closed.
    """

    def __init__(self, handle: _weft.Watch) -> None:
        self._handle = handle

    def next(self, timeout: float | None = None) -> WatchEvent | None:
        """The oldest event that was not taken; waits for one at most `timeout` seconds (None: for ever), then None."""
        taken = self._handle.next(milliseconds(timeout))
        if taken is None:
            return None
        return WatchEvent(EventKind(taken[0]), taken[1], None if taken[2] is None else KeyValue(*taken[2]))

    def fileno(self) -> int:
        """A descriptor that is readable while events wait: for select and poll, never to read from."""
        return self._handle.fileno()

    def __iter__(self) -> Iterator[WatchEvent]:
        while (event := self.next()) is not None:
            yield event

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        return _asyncio.each(self, lambda: self.next(0))

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Ends the watch. A second time is no error."""
        self._handle.close()
        _asyncio.wake(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Store:
    """A client of a store.

    endpoints: 1 to 16 of ``http[s]://host:port``, comma-separated or a sequence; see weft/store.h for the rest. It
    sends no request: an unreachable server shows at the first call. Times are in seconds.
    """

    def __init__(self, endpoints: str | Sequence[str], *, token: str | None = None, ca_file: str | None = None,
                 cert_file: str | None = None, key_file: str | None = None, user: str | None = None,
                 password: str | None = None, connect_timeout: float | None = None,
                 request_timeout: float | None = None) -> None:
        self._handle = _weft.store_open(_joined(endpoints), ca_file, cert_file, key_file, user, password, token,
                                        option_ms(connect_timeout), option_ms(request_timeout))
        note_open(STORES, self)

    @classmethod
    def open(cls, endpoints: str | Sequence[str], *, token: str | None = None) -> Store:
        """The same as the constructor, for its shortest use."""
        return cls(endpoints, token=token)

    @classmethod
    def local(cls) -> Store:
        """An empty store inside this process, for tests and for groups of one process. It ends with `close`."""
        made = cls.__new__(cls)
        made._handle = _weft.store_open_local()
        note_open(STORES, made)
        return made

    @staticmethod
    def server(*, address: str | None = None, port: int = 0, token: str | None = None) -> Server:
        """A server of a store in this process: see `Server`."""
        return Server(address=address, port=port, token=token)

    @property
    def name(self) -> str:
        """The endpoint in use; ``local`` inside this process."""
        return self._handle.name

    def version(self) -> str:
        """The server's version, such as ``3.4.23`` or ``weft 0.1.0``."""
        return self._handle.version()

    def get(self, key: Text) -> KeyValue | None:
        """The state of a key, or None where there is none."""
        found = self.range(key)
        return found.items[0] if found.items else None

    def range(self, key: Text, *, prefix: bool = False, limit: int = 0) -> Range:
        """A key, or with `prefix` all that start with it ("": all keys), at most `limit` of them (0: all)."""
        return _range(self._handle.range(key, bool(prefix), whole("limit", limit)))

    def put(self, key: Text, value: Text, *, lease: int | Lease = 0) -> int:
        """Puts a value of at most 1.5 MiB, attached to a lease (0: to none); the revision of the store after it."""
        return self._handle.put(key, value, _lease(lease))

    def delete(self, key: Text, *, prefix: bool = False) -> int:
        """Deletes a key, or with `prefix` all that start with it; how many there were."""
        return self._handle.delete(key, bool(prefix))

    def txn(self, compares: Sequence[Compare] = (), success: Sequence[Op] = (),
            failure: Sequence[Op] = ()) -> TxnResult:
        """Runs `success` if all of `compares` hold, else `failure`: all of it or nothing, at one revision."""
        done, revision, responses = self._handle.commit(
            [_compare(c) for c in listed("compares", "weft.Compare", compares)],
            listed("success", "weft.Op", success), listed("failure", "weft.Op", failure))
        return TxnResult(done, revision, [_range(r) if isinstance(r, tuple) else r for r in responses])

    def lease_grant(self, ttl: int) -> Lease:
        """A lease of `ttl` seconds, which its owner renews with `lease_keepalive`; the library does not."""
        return Lease(*self._handle.lease_grant(whole("ttl", ttl, I64)))

    def lease_keepalive(self, lease: int | Lease) -> int:
        """Renews a lease once; the seconds that it has again. `NotFoundError`: it has ended."""
        return self._handle.lease_keepalive(_lease(lease))

    def lease_ttl(self, lease: int | Lease) -> int:
        """The seconds that a lease has left. `NotFoundError`: it has ended."""
        return self._handle.lease_ttl(_lease(lease))

    def lease_revoke(self, lease: int | Lease) -> None:
        """Ends a lease and deletes the keys attached to it."""
        self._handle.lease_revoke(_lease(lease))

    def watch(self, prefix: Text, *, start: int = 0) -> Watch:
        """Watches all keys that start with `prefix` from revision `start` on; 0: what changes from now on."""
        return Watch(_weft.watch_open(self._handle, prefix, whole("start", start, I64)))

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Closes it for new calls. Agents, ranks and watches that were opened with it go on, and it ends with them.
        A second time is no error."""
        self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.Store closed>" if self.closed else f"<weft.Store {self.name}>"


def handle_of(store: object) -> _weft.Store:
    """The handle of a store that agents and ranks are given. `TypeError`: it is something else, such as its URL."""
    if not isinstance(store, Store):
        raise TypeError(f"store: a weft.Store is wanted, not {store!r:.60}")
    return store._handle


class Server:
    """A server of a store, on threads of this process. It keeps its keys in memory.

    By default it speaks HTTPS at 127.0.0.1, at any free port, with a random `token`: clients need `url` and `token`.
    """

    def __init__(self, *, address: str | None = None, port: int = 0, token: str | None = None,
                 cert_file: str | None = None, key_file: str | None = None, insecure: bool = False) -> None:
        self._handle = _weft.server_start(address, whole("port", port, U16), token, cert_file, key_file, bool(insecure))
        note_open(STORES, self)

    @property
    def url(self) -> str:
        """Its URL, such as ``https://127.0.0.1:40123``."""
        return self._handle.url

    @property
    def token(self) -> str:
        """Its token, which gives all rights; "" when it is insecure."""
        return self._handle.token

    def client(self) -> Store:
        """A `Store` that uses this server."""
        return Store(self.url, token=self.token or None)

    @property
    def closed(self) -> bool:
        """Whether it was stopped."""
        return self._handle.closed

    def close(self) -> None:
        """Stops it, and drops all keys. A second time is no error."""
        self._handle.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
