"""The high-throughput calls of `Buffer`, which it inherits."""

from __future__ import annotations

from typing import Any, NoReturn


class ThroughputCalls:
    """Refuses each of them by its name, until they are there. They find the group in `_meeting`, `rank`, `group_size`
    and `num_sms` of the buffer, and close what they open in `_close_throughput`."""

    def _refuse(self, name: str) -> NoReturn:
        raise NotImplementedError(f"Buffer.{name}: the high-throughput calls of deep_ep are not on Weft yet; its "
                                  "low-latency calls are, and weft.ep has mode='throughput'")

    def get_dispatch_layout(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        self._refuse("get_dispatch_layout")

    def dispatch(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        self._refuse("dispatch")

    def combine(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        self._refuse("combine")

    def internode_dispatch(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        self._refuse("internode_dispatch")

    def internode_combine(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        self._refuse("internode_combine")

    def _close_throughput(self) -> None:
        """Ends what these calls have opened."""
