"""The store: keys, transactions, leases and watches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft
from weft import Compare, Op
from weft.store import EventKind


def test_keys(store: weft.Store) -> None:
    first = store.put("/a", b"one")
    assert store.put("/b", "zwei") == first + 1
    assert store.get("/a") == weft.KeyValue("/a", b"one", first, first, 1, 0)
    assert store.get("/none") is None
    found = store.range("/", prefix=True, limit=1)
    assert (found.total, found.more, [item.key for item in found.items]) == (2, True, ["/a"])
    assert store.delete("/", prefix=True) == 2


def test_bytes_that_are_no_utf8(store: weft.Store) -> None:
    store.put(b"/\xff", b"\x00\x01")
    item = store.get(b"/\xff")
    assert item is not None and item.value == b"\x00\x01"
    assert store.get(item.key) == item


def test_transaction(store: weft.Store) -> None:
    taken = store.txn([Compare("/k", "version", "==", 0)], [Op.put("/k", "x"), Op.range("/k")], [Op.delete("/k")])
    assert taken.succeeded and taken.responses[0] is None
    assert taken.responses[1].items[0].value == b"x"  # type: ignore[union-attr]
    again = store.txn([Compare("/k", "value", "!=", b"x")], [], [Op.delete("/k")])
    assert (again.succeeded, again.responses) == (False, [1])
    with pytest.raises(ValueError, match="targets"):
        store.txn([Compare("/k", "size", "==", 0)])


def test_lease(store: weft.Store) -> None:
    lease = store.lease_grant(60)
    store.put("/k", "x", lease=lease)
    assert 0 < store.lease_ttl(lease) <= lease.ttl == store.lease_keepalive(lease)
    store.lease_revoke(lease)
    assert store.get("/k") is None
    with pytest.raises(weft.errors.NotFoundError):
        store.lease_ttl(lease)


@pytest.mark.parametrize("wrong", [None, 5, [None], b"http://127.0.0.1:2379"])
def test_endpoints_that_are_none(wrong: Any) -> None:
    with pytest.raises(TypeError, match="endpoints: a str"):
        weft.Store(wrong)


@pytest.mark.parametrize("wrong", [None, "http://127.0.0.1:2379"])
def test_what_is_no_store(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"store: a weft\.Store is wanted"):
        weft.ep.Rank(wrong, rank=0)
    with pytest.raises(TypeError, match=r"store: a weft\.Store is wanted"):
        weft.Agent("a", store=wrong or 5)


def test_watch(store: weft.Store) -> None:
    with store.watch("/w/") as watch:
        store.put("/w/1", "x")
        store.put("/other", "x")
        store.delete("/w/1")
        kinds = []
        for event in watch:
            kinds.append((event.kind, event.item and event.item.key))
            if event.kind == EventKind.DELETE:
                break
        assert kinds == [(EventKind.RESUMED, None), (EventKind.PUT, "/w/1"), (EventKind.DELETE, "/w/1")]
        assert watch.next(0.01) is None


def test_watch_in_asyncio(store: weft.Store) -> None:
    async def first_put() -> str:
        with store.watch("/w/") as watch:
            asyncio.get_running_loop().call_later(0.01, store.put, "/w/late", "x")
            async for event in watch:
                if event.item:
                    return event.item.key
        raise AssertionError("the watch ended")

    assert asyncio.run(asyncio.wait_for(first_put(), 20)) == "/w/late"


def test_server() -> None:
    with weft.Server() as server, server.client() as client:
        assert client.name == server.url and client.version().startswith("weft ")
        client.put("/k", "x")
        with weft.Store(server.url, token="wrong") as stranger, pytest.raises(weft.errors.AuthError):
            stranger.get("/k")
    with pytest.raises(weft.errors.ClosedError):
        _ = server.url


def test_unreachable() -> None:
    with weft.Store("http://127.0.0.1:1", request_timeout=2) as store:
        with pytest.raises(ConnectionError) as failure:
            store.get("/k")
    assert failure.value.name == "UNREACHABLE" and failure.value.code == -13  # type: ignore[attr-defined]


def test_errors_are_those_of_the_library() -> None:
    from weft import _weft

    table = {name: (code, scope) for name, code, scope, _ in _weft.error_table()}
    ours = {kind.name: (code, int(kind.scope)) for code, kind in weft.errors.by_code.items()}
    assert ours == table
    import builtins

    assert not [name for name in vars(weft.errors) if hasattr(builtins, name) and not name.startswith("_")]


def test_closed_store_serves_who_has_it() -> None:
    store = weft.Store.local()
    rank = weft.ep.Rank(store, rank=0, founders=[0], hidden=128, capacity=2, max_tokens=2)
    store.close()
    with pytest.raises(weft.errors.ClosedError):
        store.get("/k")
    rank.activate()
    rank.close()
