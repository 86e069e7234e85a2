"""The examples of README.md, of the guide and of the modules' own words, run as they stand there."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import in_threads

import weft
import weft.agent
import weft.store

SOURCE = Path(__file__).parents[2]


def written(name: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"^```python\n(.*?)^```", (SOURCE / name).read_text(encoding="utf-8"), flags=re.M | re.S)


def said(module: ModuleType) -> list[str]:
    """The indented blocks behind "::" in the words of a module."""
    blocks = re.findall(r"::\n\n((?: {4}.*\n|\n)+)", f"{inspect.getdoc(module)}\n")
    return [textwrap.dedent(block) for block in blocks]


README, GUIDE = written("README.md"), written("docs/guide/python.md")


def containing(blocks: Iterable[str], call: str) -> str:
    """The only block with that call."""
    (block,) = (one for one in blocks if call in one)
    return block


RANK = containing(GUIDE, "hidden=7168, topk=8")


def test_all_are_known() -> None:
    """A new example wants a test of its own."""
    assert [len(README), len(GUIDE)] == [1, 8]
    assert [len(said(module)) for module in (weft, weft.agent, weft.ep, weft.store)] == [0, 1, 1, 1]


@pytest.mark.parametrize("example", [containing(GUIDE, "transfer.run()"), *said(weft.agent)])
def test_transfer(example: str) -> None:
    names: dict[str, Any] = {"weft": weft, "numpy": np}
    exec(example, names)
    assert (names["there"] == np.arange(1000)).all()


def run_two(example: str, topk: int, experts: int, hidden: int) -> None:
    """Runs an example as both ranks. Experts give back what they get, so that the sums are the tokens again."""
    with weft.Server() as server, weft.Store.local() as store:

        def run(index: int) -> None:
            random = np.random.default_rng(index)
            x = np.full((8, hidden), 0x3F80 + index, np.uint16)  # 1.0 or a bit more, as bf16
            first = random.integers(0, 2 * experts, (8, 1))
            names: dict[str, Any] = {
                "weft": weft, "url": server.url, "token": server.token, "store": store, "r": index, "x": x,
                "topk_idx": (first + np.arange(topk)) % (2 * experts),
                "topk_weights": np.full((8, topk), 1 / topk, np.float32), "out": np.zeros_like(x),
                "experts": lambda rows, counts: rows, "experts_backward": lambda grads, rows: grads, "grad_out": x,
                "grad_x": np.zeros_like(x)}
            exec(example, names)
            assert (names["out"] == x).all() and ("route" not in example or (names["grad_x"] == x).all())

        in_threads(2, run)


@pytest.mark.parametrize("example", [*README, RANK])
def test_rank(example: str) -> None:
    run_two(example, topk=4, experts=32 if "experts_per_rank=32" in example else 2, hidden=7168)


def test_one_process() -> None:
    names: dict[str, Any] = {}
    exec(containing(GUIDE, "weft.Store.local()"), names)
    assert (names["out"] == names["x"]).all() and sum(names["into"].counts) == 16


def test_route() -> None:
    route = containing(GUIDE, "rank.route()")
    run_two(RANK + textwrap.indent(route, "    "), topk=4, experts=32, hidden=7168)


def test_one_rank_of_two() -> None:
    (example,) = said(weft.ep)
    assert "rank=0" in example
    run_two(example.replace("rank=0", "rank=r"), topk=2, experts=2, hidden=256)


def test_zero_copy(store: weft.Store) -> None:
    with weft.ep.Rank(store, rank=0, founders=[0], mode="throughput", zero_copy_bytes=2 * 7168 * 12) as rank:
        names: dict[str, Any] = {"rank": rank, "numpy": np}
        exec(containing(GUIDE, "zero_copy"), names)
        assert names["y"].shape == (12, 7168) and not names["y"].any()
        names.clear()


def test_store() -> None:
    (example,) = said(weft.store)
    exec(example, {"weft": weft})


def test_asyncio() -> None:
    example = containing(GUIDE, "await transfer")
    code = compile(example, "guide", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(code, CodeType) and code.co_flags & inspect.CO_COROUTINE

    async def first(messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for message in messages:
            yield message
            return

    with weft.Agent("a", transports="shm") as a:
        here, there = a.register(bytearray(b"here")), bytearray(4)
        with a.write(here, a.register(there).descriptor(), weft.SELF, notification="done") as transfer:
            answers: list[tuple[int, bytes]] = []
            once = SimpleNamespace(messages=lambda: first(a.messages()), notify=lambda *one: answers.append(one))
            asyncio.run(asyncio.wait_for(eval(code, {"transfer": transfer, "agent": once}), 30))
        assert there == b"here" and answers == [(weft.SELF, b"got done")]
