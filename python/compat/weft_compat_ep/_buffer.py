"""What the buffers of `deep_ep` and `nixl_ep` have in common besides their calls: events, configurations, the end."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import torch

from ._events import Config, EventHandle, EventOverlap

AnyBuffer = TypeVar("AnyBuffer", bound="LegacyBuffer")


class CommonBuffer:
    """A buffer that ends once. A constructor sets `explicitly_destroy`, and `_destroyed` to False."""

    explicitly_destroy: bool
    _destroyed: bool

    @staticmethod
    def capture() -> EventOverlap:
        """An event of the current stream."""
        return EventOverlap(EventHandle())

    def get_comm_stream(self) -> torch.cuda.Stream:
        """The stream in which calls launch: the current one."""
        return torch.cuda.current_stream()

    def _check_alive(self) -> None:
        if self._destroyed:
            raise RuntimeError("the buffer was destroyed")

    def _close(self) -> None:
        """Closes what the buffer has opened."""
        raise NotImplementedError

    def destroy(self) -> None:
        """Leaves the group. A second time is no error."""
        if not self._destroyed:
            self._destroyed = True
            self._close()

    def __del__(self) -> None:
        # A constructor that failed has set nothing.
        if not self.__dict__.get("_destroyed", True) and not self.explicitly_destroy:
            self.destroy()


class LegacyBuffer(CommonBuffer):
    """A `Buffer`, as both modules have it."""

    num_sms: ClassVar[int] = 20

    @property
    def runtime(self: AnyBuffer) -> AnyBuffer:
        """The original's inner object; here the buffer itself."""
        return self

    @staticmethod
    def is_sm90_compiled() -> bool:
        """Whether fp8 and low latency are there: always."""
        return True

    @classmethod
    def set_num_sms(cls, new_num_sms: int) -> None:
        """Notes how many processors high-throughput calls may take."""
        if new_num_sms % 2 or new_num_sms <= 0:
            raise ValueError(f"new_num_sms: {new_num_sms} is no positive even number")
        cls.num_sms = new_num_sms

    @classmethod
    def get_dispatch_config(cls, num_ranks: int) -> Config:
        """A configuration of high-throughput calls with this class's num_sms."""
        del num_ranks
        return Config(cls.num_sms)

    get_combine_config = get_dispatch_config
