"""Events of streams, and the configuration of high-throughput calls, as both originals have them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class EventHandle:
    """A moment in the current stream. Without a GPU there is nothing to wait for."""

    def __init__(self) -> None:
        self.event = None
        if torch.cuda.is_available():
            self.event = torch.cuda.Event()
            self.event.record()

    def current_stream_wait(self) -> None:
        """The current stream waits for that moment."""
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """An event that a call has left, with the tensors that have to live until then. As a context manager it has the
    current stream wait at its end."""

    def __init__(self, event: EventHandle | None = None, extra_tensors: tuple[Any, ...] | None = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self) -> None:
        """The current stream waits for the event; without one (no async_finish) the work is in that stream already."""
        if self.event is not None:
            self.event.current_stream_wait()

    def __enter__(self) -> EventOverlap:
        return self

    def __exit__(self, *_: object) -> None:
        self.current_stream_wait()


NO_EVENT = EventOverlap()
"""of a call whose work is in the current stream already"""


class Config(NamedTuple):
    """How the original's high-throughput kernels are tuned. Weft reads num_sms alone: its windows are as large as they
    have to be."""

    num_sms: int = 24
    num_max_nvl_chunked_send_tokens: int = 6
    num_max_nvl_chunked_recv_tokens: int = 256
    num_max_rdma_chunked_send_tokens: int = 6
    num_max_rdma_chunked_recv_tokens: int = 256

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Bytes of windows that a group for throughput has for each of its other ranks, at most."""
        return WINDOW_BYTES * max(0, num_ranks - 1) if hidden_bytes > 0 else 0

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: the same windows serve ranks of other hosts."""
        del hidden_bytes, num_ranks
        return 0


WINDOW_BYTES = 64 << 20
"""weft_ep_options.window_bytes where nobody says another number"""
