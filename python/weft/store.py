"""The store: a small, strongly consistent key-value store on which ranks and agents agree.

The model is etcd v3: keys, transactions, leases, watches. A `Store` is a client of an etcd cluster, of ``weft serve``
or of a `Server` in this process, or a store inside this process only (`Store.local`)::

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
    """the key; bytes that are not UTF-8 become surrogates (``surrogateescape``)"""
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
    """revision of the store to which the items belong"""
    total: int
    """keys in the range, whatever the limit"""
    more: bool
    """whether keys are missing because of the limit"""


class Lease(NamedTuple):
    """A time limit that its owner renews; its keys are deleted when it ends."""

    id: int
    """never 0"""
    ttl: int
    """seconds granted, which may be more than requested"""


class EventKind(enum.IntEnum):
    """Kind of an event of a watch."""

    PUT = 0
    """a key was put"""
    DELETE = 1
    """a key was deleted"""
    LOST = 2
    """the connection is lost; the watch reconnects by itself and loses no event"""
    RESUMED = 3
    """the watch is established: once after it was opened, and after each LOST"""
    RESET = 4
    """the watch is established, but events may be missing: read everything again"""


class WatchEvent(NamedTuple):
    """One event of a watch."""

    kind: EventKind
    """what happened"""
    revision: int
    """PUT and DELETE: revision of the change; else a revision that the store has reached"""
    item: KeyValue | None
    """PUT and DELETE: the key; for a deleted key only key and mod_revision are set"""


class Compare(NamedTuple):
    """A condition of a transaction: ``Compare("/k", "version", "==", 0)``."""

    key: Text
    """the key"""
    target: str
    """``create``, ``mod``, ``version`` (0 if the key is absent) or ``value``"""
    relation: str
    """``==``, ``>``, ``<`` or ``!=``: the relation of the store's value to `operand` that has to hold"""
    operand: int | Text
    """a number; for ``value`` bytes"""


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
        """Deletes a key, or all keys with a prefix."""
        return cls(1, key, prefix=prefix)

    @classmethod
    def range(cls, key: Text, prefix: bool = False, limit: int = 0) -> Op:
        """Reads a key, or all keys with a prefix."""
        return cls(2, key, prefix=prefix, limit=limit)


class TxnResult(NamedTuple):
    """What a transaction did."""

    succeeded: bool
    """whether all conditions held"""
    revision: int
    """revision of the store after the transaction"""
    responses: list[Range | int | None]
    """one for each operation of the branch that ran: a `Range`, the number of deleted keys, or None for a put"""


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
    """Changes of all keys with one prefix. Use ``for``, ``async for`` or `next` to get its events.

    Events are kept, without a limit, until they are taken. Close the watch, or use it as a context manager; it
    continues if its store is closed.
    """

    def __init__(self, handle: _weft.Watch) -> None:
        self._handle = handle

    def next(self, timeout: float | None = None) -> WatchEvent | None:
        """The oldest event that has not been taken. If there is none, waits at most `timeout` seconds (None: no
        deadline), and then returns None."""
        taken = self._handle.next(milliseconds(timeout))
        if taken is None:
            return None
        return WatchEvent(EventKind(taken[0]), taken[1], None if taken[2] is None else KeyValue(*taken[2]))

    def fileno(self) -> int:
        """A descriptor that is readable while there are events. Use it for select and poll, but never read from it."""
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
        """Ends the watch. A second call is no error."""
        self._handle.close()
        _asyncio.wake(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Store:
    """A client of a store.

    endpoints: 1 to 16 of ``http[s]://host:port``, comma-separated or a sequence; weft/store.h describes the other
    arguments. The constructor sends no request: the first call reports an unreachable server. Times are in seconds.
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
        """The constructor with its most frequent arguments."""
        return cls(endpoints, token=token)

    @classmethod
    def local(cls) -> Store:
        """An empty store inside this process, for tests and for groups of one process. `close` ends it."""
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
        """The state of a key, or None if the key does not exist."""
        found = self.range(key)
        return found.items[0] if found.items else None

    def range(self, key: Text, *, prefix: bool = False, limit: int = 0) -> Range:
        """Reads a key, or with `prefix` all keys that start with it ("": all keys), at most `limit` of them (0:
        all)."""
        return _range(self._handle.range(key, bool(prefix), whole("limit", limit)))

    def put(self, key: Text, value: Text, *, lease: int | Lease = 0) -> int:
        """Puts a value of at most 1.5 MiB, attached to a lease (0: none). Returns the revision of the store after the
        put."""
        return self._handle.put(key, value, _lease(lease))

    def delete(self, key: Text, *, prefix: bool = False) -> int:
        """Deletes a key, or with `prefix` all keys that start with it, and returns the number of deleted keys."""
        return self._handle.delete(key, bool(prefix))

    def txn(self, compares: Sequence[Compare] = (), success: Sequence[Op] = (),
            failure: Sequence[Op] = ()) -> TxnResult:
        """Runs `success` if all of `compares` hold, else `failure`: as a whole or not at all, at one revision."""
        done, revision, responses = self._handle.commit(
            [_compare(c) for c in listed("compares", "weft.Compare", compares)],
            listed("success", "weft.Op", success), listed("failure", "weft.Op", failure))
        return TxnResult(done, revision, [_range(r) if isinstance(r, tuple) else r for r in responses])

    def lease_grant(self, ttl: int) -> Lease:
        """Grants a lease of `ttl` seconds. Its owner renews it with `lease_keepalive`; the library does not."""
        return Lease(*self._handle.lease_grant(whole("ttl", ttl, I64)))

    def lease_keepalive(self, lease: int | Lease) -> int:
        """Renews a lease once, to its full time, and returns that time in seconds. `NotFoundError`: the lease has
        ended."""
        return self._handle.lease_keepalive(_lease(lease))

    def lease_ttl(self, lease: int | Lease) -> int:
        """The remaining seconds of a lease. `NotFoundError`: the lease has ended."""
        return self._handle.lease_ttl(_lease(lease))

    def lease_revoke(self, lease: int | Lease) -> None:
        """Ends a lease and deletes the keys attached to it."""
        self._handle.lease_revoke(_lease(lease))

    def watch(self, prefix: Text, *, start: int = 0) -> Watch:
        """Watches all keys that start with `prefix` from revision `start` on; 0: only changes from now on."""
        return Watch(_weft.watch_open(self._handle, prefix, whole("start", start, I64)))

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Closes the store for new calls. Agents, ranks and watches that use it continue; the connection ends with the
        last of them. A second call is no error."""
        self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.Store closed>" if self.closed else f"<weft.Store {self.name}>"


def handle_of(store: object) -> _weft.Store:
    """The handle of a store that is passed to agents and ranks. `TypeError`: `store` is something else, such as a
    URL."""
    if not isinstance(store, Store):
        raise TypeError(f"store: a weft.Store is wanted, not {store!r:.60}")
    return store._handle


class Server:
    """A server of a store, on threads of this process. It keeps its keys in memory.

    By default it uses HTTPS at 127.0.0.1, at any free port, with a random `token`: clients need `url` and `token`.
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
        """Its token, which gives all rights; "" if the server is insecure."""
        return self._handle.token

    def client(self) -> Store:
        """A `Store` that uses this server."""
        return Store(self.url, token=self.token or None)

    @property
    def closed(self) -> bool:
        """Whether it was stopped."""
        return self._handle.closed

    def close(self) -> None:
        """Stops the server, and deletes all keys. A second call is no error."""
        self._handle.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
