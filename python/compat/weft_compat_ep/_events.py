"""Events of streams, and the configuration of high-throughput calls, as both originals have them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

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
        self.hook_after_wait: Callable[[], Any] | None = None
        """called once, by the next wait"""
        self._release = False

    def current_stream_wait(self, release_handle: bool = False) -> Any:
        """The current stream waits for the event; without one (no async_finish) the work is in that stream already.
        What the hook answers, if there is one. release_handle: the event is given up, and its tensors with it."""
        if self.event is not None:
            self.event.current_stream_wait()
        hook, self.hook_after_wait = self.hook_after_wait, None
        answer = hook() if hook is not None else None
        if release_handle:
            self.event = self.extra_tensors = None
        return answer

    def wait(self) -> Any:
        """The same, without release_handle."""
        return self.current_stream_wait()

    def register_hook_after_wait(self, hook_after_wait: Callable[[], Any]) -> None:
        """Has the next wait call it."""
        if self.hook_after_wait is not None:
            raise RuntimeError("register_hook_after_wait: the event has a hook that was not called yet")
        self.hook_after_wait = hook_after_wait

    def __call__(self, release_handle: bool = False) -> EventOverlap:
        """For ``with event(release_handle=True)``."""
        self._release = release_handle
        return self

    def __enter__(self) -> EventOverlap:
        return self

    def __exit__(self, *_: object) -> None:
        release, self._release = self._release, False
        self.current_stream_wait(release)


class _NoEvent(EventOverlap):
    """Of calls whose work is in the current stream already. All of them share it."""

    def current_stream_wait(self, release_handle: bool = False) -> None:
        """Nothing."""

    def register_hook_after_wait(self, hook_after_wait: Callable[[], Any]) -> None:
        """Refused: nobody has to wait for this call."""
        raise RuntimeError("register_hook_after_wait: this call has no event: async_finish=True gives one")


NO_EVENT = _NoEvent()
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
