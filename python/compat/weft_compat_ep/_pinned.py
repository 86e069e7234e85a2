"""Host memory that kernels write into, so that the host reads results without a call of CUDA."""

from __future__ import annotations

import platform
from typing import Any

import torch

READS_IN_ORDER = platform.machine() in ("x86_64", "AMD64")
"""whether this processor reads in order: if Python has read a number, values that were written before it are there"""


class Pinned:
    """Page-locked host memory, which a rank on CUDA memory accepts as memory of its GPU."""

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        self.tensor = torch.zeros(count, dtype=dtype, device="cpu", pin_memory=True)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": tuple(self.tensor.shape), "typestr": f"<i{self.tensor.element_size()}",
                "data": (self.tensor.data_ptr(), False), "version": 3}

    def view(self, letter: Any) -> memoryview[int]:
        """The memory as numbers of a format letter of the module struct. Reading one number takes 50 ns."""
        array: Any = self.tensor.numpy()
        return memoryview(array).cast("B").cast(letter)


class PinnedStatus:
    """The status of a received dispatch (struct weft_ep_recv_status), which its kernel writes."""

    WORDS, NUM_ROWS, NUM_LOST, WRITTEN = 6, 7, 9, 5
    """the size of the struct in units of 8 bytes; the indices of members, in units of 4, 4 and 8 bytes"""
    LOOKS = 3000
    """reads in a row, which take 0.2 to 0.3 ms"""

    def __init__(self) -> None:
        self.memory = Pinned(self.WORDS, torch.int64)
        self._halves, self._words = self.memory.view("I"), self.memory.view("Q")

    def spin(self, operation: int) -> bool:
        """Polls until the result of an operation is there; False: it did not come in time. The time is longer than an
        operation takes if no rank is late."""
        words, at, wanted = self._words, self.WRITTEN, operation + 1
        return any(words[at] == wanted for _ in range(self.LOOKS))

    @property
    def num_rows(self) -> int:
        """The number of received rows."""
        return int(self._halves[self.NUM_ROWS])

    @property
    def num_lost(self) -> int:
        """The number of ranks of the view whose rows were not received."""
        return int(self._halves[self.NUM_LOST])
