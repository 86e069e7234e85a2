"""Lists of descriptors: memory to register, and memory to move. They can be pickled; only such lists are unpickled."""

from __future__ import annotations

import array
import io
import operator
import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Union

from .status import nixl_mem_t, nixlNotFoundError

XferDesc = tuple[int, int, int]
"""address (file, object: offset), length in bytes, device (file: descriptor)"""
RegDesc = tuple[int, int, int, bytes]
"""the same, and a text: the path of a file, or the key of an object"""
Rows = Union[int, Sequence[Sequence[Any]], Any]


def flat_numbers(source: Any) -> array.array[int]:
    """An N x 3 array of 64-bit integers, of numpy or with the buffer protocol, as 3 N numbers in a row."""
    view = memoryview(source)
    if view.ndim != 2 or view.shape is None or view.shape[1] != 3:
        raise ValueError(f"descs: an array of shape [N][3] is wanted (address, length, device), not of {view.shape}")
    if view.itemsize != 8 or view.format not in ("q", "Q", "l", "L"):
        raise ValueError(f"descs: an array of 64-bit integers is wanted, not of {view.format!r}")
    if not view.c_contiguous:
        raise ValueError("descs: the rows of the array do not lie side by side in memory: numpy.ascontiguousarray()")
    numbers = array.array("Q")
    numbers.frombytes(view.tobytes())
    return numbers


def is_array(source: Any) -> bool:
    """Whether `source` is an array, and not a list of tuples."""
    if isinstance(source, (list, tuple, int, bytes, bytearray)):
        return False
    try:
        memoryview(source)
    except TypeError:
        return False
    return True


class nixlXferDList:
    """Descriptors for transfers: ``nixlXferDList(DRAM_SEG, [(address, length, device), ...])``, or an N x 3 array."""

    _WIDTH = 3

    def __init__(self, type: nixl_mem_t, descs: Rows = 0, init_size: int = 0) -> None:
        self._type = nixl_mem_t(type)
        self._numbers = array.array("Q")
        descs = init_size if init_size and isinstance(descs, int) else descs
        if isinstance(descs, int):
            self._numbers.frombytes(bytes(24 * descs))
        elif is_array(descs):
            self._numbers = flat_numbers(descs)
        elif isinstance(descs, list):
            for desc in descs:
                self._extend(desc)
        else:
            raise TypeError(f"descs: a list of tuples or an array of shape [N][3] is wanted, not {descs!r:.60}")

    def _extend(self, desc: Any) -> None:
        try:
            self._numbers.extend(self._checked(desc))
        except OverflowError:
            raise OverflowError(f"descs: {desc!r:.100}: numbers from 0 to 2**64 - 1 are wanted") from None

    def _checked(self, desc: Any) -> XferDesc:
        if not isinstance(desc, tuple):
            raise TypeError("Each descriptor must be a tuple when provided as a list")
        if len(desc) != self._WIDTH:
            raise ValueError(f"Each descriptor tuple must have exactly {self._WIDTH} elements, not {len(desc)}")
        try:
            return operator.index(desc[0]), operator.index(desc[1]), operator.index(desc[2])
        except TypeError:
            raise TypeError(f"descs: {desc!r:.100}: address, length and device are whole numbers") from None

    def getType(self) -> nixl_mem_t:
        """The kind of memory."""
        return self._type

    def descCount(self) -> int:
        """The number of descriptors."""
        return len(self._numbers) // 3

    def isEmpty(self) -> bool:
        """Whether the list has no descriptors."""
        return not self._numbers

    def rows(self, third: Iterable[int] | None = None) -> memoryview:
        """The list as an array [N][3] of 64-bit integers, with `third` instead of the devices if it is given."""
        numbers = self._numbers
        if third is not None:
            numbers = array.array("Q", numbers)
            numbers[2::3] = array.array("Q", third)
        return memoryview(numbers).cast("B").cast("Q", (self.descCount(), 3))

    def _place(self, index: int) -> int:
        if not 0 <= index < self.descCount():
            raise IndexError(f"descriptor {index} of {self.descCount()}")
        return 3 * index

    def __len__(self) -> int:
        return self.descCount()

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.descCount()))

    def __getitem__(self, index: int) -> Any:
        at = self._place(index)
        return tuple(self._numbers[at : at + 3])

    def __setitem__(self, index: int, desc: tuple[Any, ...]) -> None:
        at = self._place(index)
        self._numbers[at : at + 3] = array.array("Q", self._checked(desc))

    def addDesc(self, desc: tuple[Any, ...]) -> None:
        """Adds a descriptor at the end."""
        self._extend(desc)

    def extend(self, numbers: array.array[int]) -> None:
        """Adds descriptors at the end: three numbers each, in a row."""
        self._numbers.extend(numbers)

    def append(self, desc: tuple[Any, ...]) -> None:
        """Adds a descriptor at the end."""
        self.addDesc(desc)

    def index(self, desc: tuple[Any, ...]) -> int:
        """The index of a descriptor. `nixlNotFoundError`: it is not in the list."""
        wanted = self._normal(desc)
        for at, one in enumerate(self):
            if one == wanted:
                return at
        raise nixlNotFoundError(f"the list has no descriptor {desc}")

    def _normal(self, desc: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._checked(desc)

    def remDesc(self, index: int) -> None:
        """Removes the descriptor at an index."""
        at = self._place(index)
        del self._numbers[at : at + 3]

    def clear(self) -> None:
        """Removes all descriptors."""
        del self._numbers[:]

    def print(self) -> None:
        """Prints the list."""
        print(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._type == other._type and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (int(self._type), list(self))

    def __repr__(self) -> str:
        shown = ", ".join(str(self[index]) for index in range(min(self.descCount(), 8)))
        return (f"<{type(self).__name__} {self._type.name}, {self.descCount()} descriptors: {shown}"
                f"{', ...' if self.descCount() > 8 else ''}>")


class _WithText(nixlXferDList):
    """Descriptors, each with a text."""

    _WIDTH = 4

    def __init__(self, type: nixl_mem_t, descs: Rows = 0, init_size: int = 0) -> None:
        super().__init__(type, descs, init_size)
        self._texts: list[Any] = [self._text("")] * self.descCount()
        if isinstance(descs, list):
            self._texts = [self._text(desc[3]) for desc in descs]

    def _text(self, given: Any) -> Any:
        return given.encode() if isinstance(given, str) else bytes(memoryview(given))  # bytes(3) would be three zeros

    def _normal(self, desc: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*self._checked(desc), self._text(desc[3]))

    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), self._texts[index])

    def __setitem__(self, index: int, desc: tuple[Any, ...]) -> None:
        super().__setitem__(index, desc)
        self._texts[index] = self._text(desc[3])

    def addDesc(self, desc: tuple[Any, ...]) -> None:
        """Adds a descriptor at the end."""
        super().addDesc(desc)
        self._texts.append(self._text(desc[3]))

    def remDesc(self, index: int) -> None:
        """Removes the descriptor at an index."""
        super().remDesc(index)
        del self._texts[index]

    def clear(self) -> None:
        """Removes all descriptors."""
        super().clear()
        self._texts.clear()

    def trim(self) -> nixlXferDList:
        """The list without the texts, for transfers."""
        return nixlXferDList(self._type, [tuple(one[:3]) for one in self])


class nixlRegDList(_WithText):
    """Descriptors to register: (address, length, device, bytes). The bytes are a file's path or an object's key."""


class nixlRemoteDList(_WithText):
    """Descriptors of several agents: (address, length, device, name of the agent)."""

    def _text(self, given: Any) -> Any:
        return given.decode() if isinstance(given, bytes) else str(given)


for _kind in (nixlXferDList, nixlRegDList, nixlRemoteDList):
    _kind.__module__ = "nixl._bindings"


class _OnlyLists(pickle.Unpickler):
    """Reads only lists of descriptors, since the bytes may be from anybody."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"nixlXferDList": nixlXferDList, "nixlRegDList": nixlRegDList, "nixlRemoteDList": nixlRemoteDList}
        if module != "nixl._bindings" or name not in known:
            raise pickle.UnpicklingError(f"{module}.{name} is no list of descriptors")
        return partial(_rebuilt, known[name])


def _rebuilt(kind: type[nixlXferDList], type: int, descs: list[Any]) -> nixlXferDList:
    """Makes a list from the result of `nixlXferDList.__reduce__`. A number of descriptors is refused, since the bytes
    could demand any amount of memory by it."""
    if not isinstance(descs, list):
        raise pickle.UnpicklingError("descs: a list is wanted")
    return kind(nixl_mem_t(type), descs)


def read_list(serialized: bytes) -> Any:
    """Reads a list that ``pickle.dumps`` wrote. `pickle.UnpicklingError`: the bytes are something else."""
    try:
        found = _OnlyLists(io.BytesIO(serialized)).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # pickle does not document its errors for damaged bytes
        raise pickle.UnpicklingError(f"no list of descriptors: {error}") from error
    if not isinstance(found, nixlXferDList):
        raise pickle.UnpicklingError(f"no list of descriptors, but {found!r:.60}")
    return found
