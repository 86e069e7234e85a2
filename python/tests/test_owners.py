"""Owners of objects: each way in which code may own one, and wrong arguments."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import numpy as np
import pytest

import weft


class Thing:
    """An object that may have attributes and weak references."""


WAYS: dict[str, Callable[[Any], Any]] = {
    "name": lambda thing: thing, "list": lambda thing: [thing], "closure": lambda thing: lambda: thing,
    "weak reference": weakref.ref, "generator": lambda thing: (one for one in [thing])}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", range(3))
def test_somebody_has_one(way: str, which: int) -> None:
    things = (Thing(), Thing(), Thing())
    owners = weft.Owners(things)
    assert not owners.same()  # nobody has said who may have them
    owners.note()
    assert owners.same()
    held = WAYS[way](things[which])
    assert not owners.same()
    if way == "generator":
        held.close()
    del held
    assert owners.same()


def test_attributes_and_counts() -> None:
    thing, users = Thing(), [3]
    owners = weft.Owners([thing], [(len, users), (lambda number: number + len(users), 5)])
    owners.note()
    assert owners.same()
    users.append(4)
    assert not owners.same()
    users.pop()
    assert owners.same()
    thing.mine = 1  # type: ignore[attr-defined]
    assert not owners.same()
    del thing.mine  # type: ignore[attr-defined]
    assert owners.same()


def test_arrays() -> None:
    """A view of an array of numpy has the array; types without attributes will do."""
    array = np.zeros(4)
    owners = weft.Owners([array])
    owners.note()
    view = array[1:]
    assert not owners.same()
    del view
    assert owners.same()


def test_wrong_arguments() -> None:
    for wrong in (5, None, object()):
        with pytest.raises(TypeError):
            weft.Owners(wrong)  # type: ignore[arg-type]
    for counts, kind in (([5], TypeError), ([(len,)], TypeError), (["x"], TypeError), (5, TypeError)):
        with pytest.raises(kind):
            weft.Owners([Thing()], counts)  # type: ignore[arg-type]
    for call, argument, kind in ((len, 5, TypeError), (str, 5, TypeError), (lambda _: 1 / 0, 0, ZeroDivisionError),
                                 (lambda _: 1 << 80, 0, OverflowError), (5, 5, TypeError)):
        owners = weft.Owners([Thing()], [(call, argument)])  # type: ignore[list-item]
        with pytest.raises(kind):
            owners.note()
    owners = weft.Owners([Thing()], [(str, 5)])  # type: ignore[list-item]
    assert not owners.same()  # it asks no count where somebody else has an object
    assert isinstance(owners, weft.Owners)
