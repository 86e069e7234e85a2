"""What nixl_ep and deep_ep share, as far as it needs no torch: arguments, hints, and where ranks meet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import weft

from weft_compat_ep import _meeting
from weft_compat_ep._arguments import (
    Sizes,
    differences,
    dispatch_type,
    experts_of_rank,
    scales_of_row,
    window_bytes,
)

SIZES = Sizes(16, 512, 4, 2, 8, "host")


class Board:
    """What TCPStore has of what is used here, for threads."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.host = "127.0.0.1"

    def set(self, key: str, value: Any) -> None:
        self.entries[key] = value

    def get(self, key: str) -> Any:
        return self.entries[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.entries for key in keys)


def in_threads(count: int, run: Any) -> list[Any]:
    """What `run(i)` answers in a thread each."""
    answers: list[Any] = [None] * count

    def one(i: int) -> None:
        answers[i] = run(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return answers


@pytest.mark.parametrize(("flags", "kind", "words"), [
    ((False, False, False), "bf16", 0), ((True, False, False), "fp8", 5), ((True, True, False), "fp8_pow2", 5),
    ((True, True, True), "fp8_ue8m0", 2), ((False, True, True), "bf16", 0)])
def test_types(flags: tuple[bool, bool, bool], kind: str, words: int) -> None:
    assert dispatch_type(*flags) == kind
    assert scales_of_row(kind, 640) == words


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="round_scale"):
        dispatch_type(True, False, True)
    for experts in (0, -4, 7):
        with pytest.raises(ValueError, match="num_experts"):
            experts_of_rank(experts, 4)
    assert experts_of_rank(12, 4) == 3
    assert differences(SIZES, SIZES._replace(hidden=128, memory="cuda")) == (
        "hidden 512 here and 128 there, memory host here and cuda there")


def test_hints_are_those_of_the_library() -> None:
    hint = window_bytes(128, 7168, 8, 288)
    rows = 2 * 128 * 7168 * 2 * 2  # two operations, a dispatch and a combine, of bf16
    assert 7 * rows <= hint <= 7 * rows * 1.05
    assert window_bytes(128, 7168, 1, 36) == hint // 7


def test_ranks_meet_through_a_board() -> None:
    board = Board()

    def begin(rank: int) -> _meeting.Meeting:
        return _meeting.Meeting.by_tcp_store(board, rank, rank == 0, 20)

    meetings = in_threads(3, begin)
    assert len({meeting.prefix for meeting in meetings}) == 1
    for _ in range(2):
        in_threads(3, lambda rank: meetings[rank].meet(range(3), "begin", 20))
    with pytest.raises(TimeoutError, match=r"ranks \[1, 2\]"):
        meetings[0].meet(range(3), "begin", 0.05)
    assert meetings[1].sizes() is None
    meetings[0].agree(SIZES)
    meetings[1].agree(SIZES)
    assert meetings[2].sizes() == SIZES
    with pytest.raises(ValueError, match="topk 9 here and 4 there"):
        meetings[2].agree(SIZES._replace(topk=9))
    for meeting in meetings:
        meeting.close()


def test_ranks_take_the_largest_number() -> None:
    """All get the same one. A rank that has not said its number is named, also if an earlier life of it has."""
    board = Board()
    meetings = in_threads(3, lambda rank: _meeting.Meeting.by_tcp_store(board, rank, rank == 0, 20))
    assert in_threads(3, lambda rank: meetings[rank].largest("room", (5, 9, 7)[rank], range(3), 20)) == [9] * 3
    assert in_threads(2, lambda rank: meetings[rank].largest("part", rank, range(2), 20)) == [1] * 2
    with pytest.raises(TimeoutError, match=r"room of two: ranks \[2\] did not come"):
        meetings[0].largest("room of two", 1, [0, 2], 0.05)
    again = _meeting.Meeting.by_tcp_store(board, 1, False, 20)
    in_threads(2, lambda rank: (meetings[0], again)[rank].pair([0, 1], 20))
    with pytest.raises(TimeoutError, match=r"room: ranks \[1\] did not come"):
        meetings[0].largest("room", 5, [0, 1], 0.05)
    for meeting in (*meetings, again):
        meeting.close()


def test_a_board_that_nobody_writes_to() -> None:
    with pytest.raises(TimeoutError, match="lowest of the ranks"):
        _meeting.Meeting.by_tcp_store(Board(), 1, False, 0.05)


def gathering(ranks: int) -> Callable[[Any], list[Any]]:
    """What gathers an object of each of so many threads."""
    gathered: list[Any] = []
    lock, turn = threading.Lock(), threading.Barrier(ranks)

    def gather(mine: Any) -> list[Any]:
        with lock:
            gathered.append(mine)
        turn.wait(20)
        every = list(gathered)
        turn.wait(20)
        gathered.clear()
        turn.wait(20)
        return every

    return gather


def test_all_ranks_know_that_the_first_serves_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_STORE", "NIXL_ETCD_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WEFT_ADDRESS", "192.0.2.9")
    monkeypatch.setattr(_meeting, "network", lambda: str(threading.get_ident()))  # each on a host of its own
    gather = gathering(2)

    def begin(rank: int) -> bool:
        with pytest.raises(RuntimeError, match=r"192\.0\.2\.9 is not an address of this host"):
            _meeting.Meeting.by_exchange(rank, gather)
        return True

    assert in_threads(2, begin) == [True, True]


def test_an_address_without_a_route_to_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Routeless(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError("Network is unreachable")

    monkeypatch.delenv("WEFT_ADDRESS", raising=False)
    monkeypatch.delenv("WEFT_INTERFACE", raising=False)
    monkeypatch.setattr(socket, "socket", Routeless)
    monkeypatch.setattr(_meeting.addresses, "of_host", lambda: ["10.77.0.1", "fd00:77::1"])
    for address in ("127.0.1.1", "192.0.2.9"):  # the first is what Debian gives to a host's name, the other not here
        monkeypatch.setattr(socket, "gethostbyname", lambda _name, address=address: address)
        assert _meeting.host_address() == "10.77.0.1"
    monkeypatch.setattr(_meeting.addresses, "of_host", lambda: [])
    assert _meeting.host_address() == "127.0.0.1"


def test_an_address_by_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the ranks themselves take either name, from either variable."""
    monkeypatch.delenv("WEFT_INTERFACE", raising=False)
    for name, found in (("lo", "127.0.0.1"), ("lo,eth7", "127.0.0.1"), ("192.0.2.9,lo", "192.0.2.9"), ("::1", "::1")):
        monkeypatch.setenv("WEFT_ADDRESS", name)
        assert _meeting.host_address() == found
    monkeypatch.setenv("WEFT_INTERFACE", "eth7")  # the other goes first
    assert _meeting.host_address() == "::1"
    monkeypatch.delenv("WEFT_ADDRESS")
    with pytest.raises(OSError, match="'eth7' is neither an address nor an interface of this host"):
        _meeting.host_address()
    monkeypatch.setenv("WEFT_INTERFACE", "lo")
    assert _meeting.host_address() == "127.0.0.1"


def test_store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_STORE", raising=False)
    monkeypatch.delenv("NIXL_ETCD_ENDPOINTS", raising=False)
    assert _meeting.named_store() is None
    monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", "http://127.0.0.1:1")
    for name, value in (("WEFT_JOB", ""), ("NIXL_ETCD_NAMESPACE", "/a/b/"), ("SLURM_JOB_ID", "7")):
        monkeypatch.setenv(name, value)
    named = _meeting.named_store()
    assert named is not None and named["prefix"] == "/weft-compat/a/b/"
    monkeypatch.setenv("WEFT_JOB", "night")
    monkeypatch.setenv("WEFT_TOKEN", "the secret of agents, which the store does not see")
    assert _meeting.named_store() == {"url": "http://127.0.0.1:1", "token": "", "prefix": "/weft-compat/night/"}
    monkeypatch.setenv("WEFT_STORE_TOKEN", "of-the-store")
    named = _meeting.named_store()
    assert named is not None and named["token"] == "of-the-store"
    with weft.Server() as server:
        monkeypatch.setenv("WEFT_STORE", server.url)
        monkeypatch.setenv("WEFT_TOKEN", server.token)
        gather = gathering(2)

        def begin(rank: int) -> _meeting.Meeting:
            return _meeting.Meeting.by_exchange(rank, gather)

        one, two = in_threads(2, begin)
        assert one.info == two.info and one.info["url"] == server.url
        assert one.prefix != "/weft-compat/night/"  # a group of its own: the next one may have the same job
        one.store.put(f"{one.prefix}x", "1")
        assert two.store.get(f"{two.prefix}x") is not None
