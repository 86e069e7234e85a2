"""Memory of the host that kernels write into, so that the host reads it without asking the GPU."""

from __future__ import annotations

import platform
from typing import Any

import torch

READS_IN_ORDER = platform.machine() in ("x86_64", "AMD64")
"""whether what Python reads behind a number that has come is there too"""


class Pinned:
    """Page-locked memory of the host, which a rank on CUDA memory takes as memory of its GPU."""

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        self.tensor = torch.zeros(count, dtype=dtype, device="cpu", pin_memory=True)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": tuple(self.tensor.shape), "typestr": f"<i{self.tensor.element_size()}",
                "data": (self.tensor.data_ptr(), False), "version": 3}

    def view(self, letter: Any) -> memoryview[int]:
        """What is in it, as numbers of a format letter of the module struct. To look at one takes 50 ns."""
        array: Any = self.tensor.numpy()
        return memoryview(array).cast("B").cast(letter)


class Told:
    """What a dispatch brought (struct weft_ep_told), as soon as it has."""

    WORDS, NUM_ROWS, NUM_LOST, WRITTEN = 6, 7, 9, 5
    """its size in 8 bytes; places in it, in 4, 4 and 8 bytes"""
    LOOKS = 3000
    """in a row, in 0.2 to 0.3 ms"""

    def __init__(self) -> None:
        self.memory = Pinned(self.WORDS, torch.int64)
        self._halves, self._words = self.memory.view("I"), self.memory.view("Q")

    def spin(self, operation: int) -> bool:
        """Looks whether an operation has told, for longer than it takes where nobody is late."""
        words, at, wanted = self._words, self.WRITTEN, operation + 1
        return any(words[at] == wanted for _ in range(self.LOOKS))

    @property
    def num_rows(self) -> int:
        """Rows that came."""
        return int(self._halves[self.NUM_ROWS])

    @property
    def num_lost(self) -> int:
        """Ranks of the view whose rows did not come."""
        return int(self._halves[self.NUM_LOST])
