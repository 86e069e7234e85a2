"""Steps of several operations, by the rule of the guide: ranks join between any two of them, and leave again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from typing import Any, Callable

import numpy as np
import pytest
from conftest import SIZES, bf16, in_threads, tokens_of
from test_documents import GUIDE, containing

import weft
from weft import ep

RULE = containing(GUIDE, "class Changed")
FOUNDERS, JOINS = 3, 12

# What the layers do with a row, in either direction. In another order they give another number.
LAYERS: list[Callable[[np.ndarray], np.ndarray]] = [lambda row: row * 2, lambda row: row + 1, lambda row: row * 3]


class Finished(Exception):
    """All ranks know that no more joiners come."""


class Model:
    """One rank's three layers and tokens."""

    def __init__(self, rank: ep.Rank, index: int, *, learns: bool) -> None:
        self.rank, self.learns, self.names = rank, learns, dict[str, Any]()
        self.x, self.idx, self.weights = tokens_of(index, FOUNDERS)
        self.layers = [(rank.receive(), rank.receive(), rank.route()) for _ in LAYERS]
        self.steps = 0

    def forward_and_backward(self, step: int) -> None:
        rows = self.x
        for number, (into, _, route) in enumerate(self.layers):
            operation = self.rank.dispatch(rows, self.idx, self.weights, into=into, route=route)
            assert operation.info is not None
            finished, rows = operation.info.mark == 1, np.zeros_like(self.x)
            self.names["combine"](operation, through([LAYERS[number]], into.x), rows)
            if finished:
                raise Finished
        assert (rows == through(LAYERS, self.x)).all()
        if self.learns:
            self.backward(rows)
        self.steps += 1

    def backward(self, rows: np.ndarray) -> None:
        for number, (_, back, route) in reversed(list(enumerate(self.layers))):
            self.rank.dispatch(rows, into=back, route=route).finish()
            rows = np.zeros_like(self.x)
            self.rank.combine_route(route, through([LAYERS[number]], back.x), rows)
        assert (rows == through([*LAYERS, *reversed(LAYERS)], self.x)).all()

    def run(self, steps: int) -> None:
        self.names.update(weft=weft, steps=steps, forward_and_backward=self.forward_and_backward)
        exec(RULE, self.names)


def through(layers: Iterable[Callable[[np.ndarray], np.ndarray]], rows: np.ndarray) -> np.ndarray:
    """Rows in bf16 through layers; all results here are exact in bf16."""
    values = (rows.astype(np.uint32) << 16).view(np.float32)
    for layer in layers:
        values = layer(values)
    return bf16(values)


@pytest.mark.parametrize("learns", [False, True])
def test_ranks_join_between_any_two_operations(store: weft.Store, learns: bool) -> None:
    done = threading.Event()

    def found(index: int) -> None:
        with ep.Rank(store, rank=index, founders=range(FOUNDERS), **SIZES) as rank:
            rank.activate()
            model = Model(rank, index, learns=learns)
            step = model.forward_and_backward

            def marked(number: int) -> None:
                rank.set_mark(int(done.is_set()))
                step(number)

            model.forward_and_backward = marked  # type: ignore[method-assign]
            try:
                model.run(1 << 30)
            except Finished:
                assert model.steps > JOINS
            with contextlib.suppress(weft.errors.PeerLostError):  # the last joiner, which may be leaving still
                rank.barrier()

    def join() -> None:
        try:
            for _ in range(JOINS):
                with ep.Rank(store, rank=FOUNDERS, join_only=True, **SIZES) as rank:
                    rank.activate(30)
                    model = Model(rank, FOUNDERS, learns=learns)
                    model.run(2)
                    assert model.steps == 2
        finally:
            done.set()

    in_threads(FOUNDERS + 1, lambda index: found(index) if index < FOUNDERS else join())
