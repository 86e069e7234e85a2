"""The part that the buffers of `deep_ep` and `nixl_ep` share besides operations: events, configurations, `destroy`."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import torch

from ._events import Config, EventHandle, EventOverlap

AnyBuffer = TypeVar("AnyBuffer", bound="LegacyBuffer")


class CommonBuffer:
    """A buffer that is destroyed once. A constructor sets `explicitly_destroy`, and `_destroyed` to False."""

    explicitly_destroy: bool
    _destroyed: bool

    def get_comm_stream(self) -> torch.cuda.Stream:
        """The stream in which calls launch: the current stream."""
        return torch.cuda.current_stream()

    def _check_alive(self) -> None:
        if self._destroyed:
            raise RuntimeError("the buffer was destroyed")

    def _close(self) -> None:
        """Closes everything that the buffer has opened."""
        raise NotImplementedError

    def destroy(self) -> None:
        """Leaves the group. A second time is no error."""
        if not self._destroyed:
            self._destroyed = True
            self._close()

    def __del__(self) -> None:
        # If the constructor failed, this attribute may be missing.
        if not self.__dict__.get("_destroyed", True) and not self.explicitly_destroy:
            self.destroy()


class LegacyBuffer(CommonBuffer):
    """The base of `Buffer` in both modules."""

    num_sms: ClassVar[int] = 20
    group_size: int
    num_nvl_bytes = 0
    num_rdma_bytes = 0
    """of memory that the program asks for"""
    _local: dict[int, torch.Tensor]

    @property
    def runtime(self: AnyBuffer) -> AnyBuffer:
        """The original's inner object: here the buffer itself."""
        return self

    def get_num_rdma_ranks(self) -> int:
        """The number of groups between which the original's high-throughput kernels use RDMA: always 1, since Weft's
        operations are the same between hosts."""
        return 1

    def get_num_nvl_ranks(self) -> int:
        """The number of ranks in such a group: all ranks."""
        return self.group_size

    def get_local_buffer_tensor(self, dtype: torch.dtype, size: torch.Size | None = None, offset: int = 0,
                                use_rdma_buffer: bool = False) -> torch.Tensor:
        """Memory of this buffer, which programs use as scratch. It has num_rdma_bytes with use_rdma_buffer or if
        num_nvl_bytes is 0, else num_nvl_bytes. The tensor begins at the element `offset`, and has one dimension or the
        given size. The memory is allocated at the first call, and no operation uses it: Weft has separate windows."""
        self._check_alive()
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype: a torch.dtype is wanted, not {dtype!r:.60}")
        room = self.num_rdma_bytes if use_rdma_buffer or not self.num_nvl_bytes else self.num_nvl_bytes
        wanted = None if size is None else torch.Size(size).numel()
        count = room // dtype.itemsize - offset
        if offset < 0 or count <= 0 or (wanted is not None and wanted > count):
            raise ValueError(f"get_local_buffer_tensor: {'elements' if wanted is None else wanted} of {dtype} from "
                             f"{offset} on are not within the {room} bytes that num_rdma_bytes and num_nvl_bytes name")
        memory = self.__dict__.setdefault("_local", {})
        if room not in memory:
            memory[room] = torch.empty(room, dtype=torch.uint8, device="cuda" if torch.cuda.is_available() else "cpu")
        flat: torch.Tensor = memory[room][:room // dtype.itemsize * dtype.itemsize].view(dtype)[offset:]
        return flat if size is None else flat[:wanted].view(size)

    def destroy(self) -> None:
        """Leaves the group. A second time is no error."""
        super().destroy()
        self.__dict__.pop("_local", None)

    @staticmethod
    def capture() -> EventOverlap:
        """An event of the current stream."""
        return EventOverlap(EventHandle())

    @staticmethod
    def is_sm90_compiled() -> bool:
        """Whether fp8 and low latency are there: always."""
        return True

    @classmethod
    def set_num_sms(cls, new_num_sms: int) -> None:
        """Sets the number of processors that high-throughput calls may take."""
        if new_num_sms % 2 or new_num_sms <= 0:
            raise ValueError(f"new_num_sms: {new_num_sms} is no positive even number")
        cls.num_sms = new_num_sms

    @classmethod
    def get_dispatch_config(cls, num_ranks: int) -> Config:
        """A configuration of high-throughput calls with the num_sms of this class."""
        del num_ranks
        return Config(cls.num_sms)

    get_combine_config = get_dispatch_config
