"""Steps of several operations, by the rules of the guide: ranks join between steps, or between any two operations, and
leave again."""

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

RULE, LOOP = containing(GUIDE, "class Changed"), containing(GUIDE, "operations_per_step=6")
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


def test_ranks_join_and_leave_between_steps(store: weft.Store) -> None:
    """No step is begun again or changes its view, and the first step of a joiner is a whole one."""
    operations = 3 * len(LAYERS)  # of a step of Model that learns
    loop = LOOP.replace("step=6", f"step={operations}").replace("// 6", f"// {operations}")
    done = threading.Event()

    def play(index: int, sizes: dict[str, Any], before: Callable[[ep.Rank, Model], None]) -> None:
        names: dict[str, Any] = {"weft": weft, "store": store, "r": index, "sizes": {**SIZES, **sizes},
                                 "steps": 1 << 40}
        models: list[Model] = []
        epochs = set[int]()

        def combine(operation: ep.Operation, y: np.ndarray, out: np.ndarray) -> None:
            operation.combine(y, out)
            assert operation.info is not None
            epochs.add(operation.info.epoch)

        def forward_and_backward(step: int) -> None:
            rank = names["rank"]
            assert rank.next_op == step * operations
            models[:] = models or [Model(rank, index, learns=True)]
            models[0].names["combine"] = combine
            epochs.clear()
            before(rank, models[0])
            models[0].forward_and_backward(step)
            assert len(epochs) == 1, f"step {step} ran in the views {epochs}"
            if not rank.active:
                names["steps"] = 0  # it has left

        names["forward_and_backward"] = forward_and_backward
        exec(loop, names)

    def found(index: int) -> None:
        with contextlib.suppress(Finished):
            play(index, {"founders": range(FOUNDERS)}, lambda rank, _: rank.set_mark(int(done.is_set())))

    def visit(rank: ep.Rank, model: Model) -> None:
        if model.steps == 2:
            rank.disconnect([rank.index])

    def join() -> None:
        try:
            for _ in range(JOINS):
                play(FOUNDERS, {"join_only": True}, visit)
        finally:
            done.set()

    in_threads(FOUNDERS + 1, lambda index: found(index) if index < FOUNDERS else join())
