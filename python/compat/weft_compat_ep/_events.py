"""Events of streams, and the configuration of high-throughput calls, as both originals have them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch


class EventHandle:
    """A point in the current stream. Without a GPU there is nothing to wait for."""

    def __init__(self) -> None:
        self.event = None
        if torch.cuda.is_available():
            self.event = torch.cuda.Event()
            self.event.record()

    def current_stream_wait(self) -> None:
        """Makes the current stream wait for that point."""
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """The event that a call returned, with the tensors that have to live until the event. As a context manager it makes
    the current stream wait when the context ends."""

    def __init__(self, event: EventHandle | None = None, extra_tensors: tuple[Any, ...] | None = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors
        self.hook_after_wait: Callable[[], Any] | None = None
        """called once, by the next wait"""
        self._release = False

    def current_stream_wait(self, release_handle: bool = False) -> Any:
        """Makes the current stream wait for the event. Without an event (no async_finish) the work is in that stream
        already. Returns the result of the hook, if there is one. release_handle: releases the event and its tensors."""
        if self.event is not None:
            self.event.current_stream_wait()
        hook, self.hook_after_wait = self.hook_after_wait, None
        answer = hook() if hook is not None else None
        if release_handle:
            self.event = self.extra_tensors = None
        return answer

    def wait(self) -> Any:
        """Does the same as `current_stream_wait`, without release_handle."""
        return self.current_stream_wait()

    def register_hook_after_wait(self, hook_after_wait: Callable[[], Any]) -> None:
        """Makes the next wait call the hook."""
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
    """The event of calls whose work is in the current stream already. All such calls share it."""

    def current_stream_wait(self, release_handle: bool = False) -> None:
        """Does nothing."""

    def register_hook_after_wait(self, hook_after_wait: Callable[[], Any]) -> None:
        """Always raises an error: nothing has to wait for this call."""
        raise RuntimeError("register_hook_after_wait: this call has no event: async_finish=True gives one")


NO_EVENT = _NoEvent()
"""of a call whose work is in the current stream already"""


class Config(NamedTuple):
    """The tuning of the original's high-throughput kernels. Weft reads only num_sms: it chooses the size of its windows
    itself."""

    num_sms: int = 24
    num_max_nvl_chunked_send_tokens: int = 6
    num_max_nvl_chunked_recv_tokens: int = 256
    num_max_rdma_chunked_send_tokens: int = 6
    num_max_rdma_chunked_recv_tokens: int = 256

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """The largest number of bytes of windows that a group for throughput has for each of its other ranks."""
        return WINDOW_BYTES * max(0, num_ranks - 1) if hidden_bytes > 0 else 0

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: the same windows serve ranks of other hosts."""
        del hidden_bytes, num_ranks
        return 0


WINDOW_BYTES = 64 << 20
"""weft_ep_options.window_bytes where nobody says another number"""
