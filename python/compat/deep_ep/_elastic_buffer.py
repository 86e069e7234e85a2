"""`ElasticBuffer`, the second version of the original's interface."""

from __future__ import annotations

from typing import Any


class EPHandle:
    """What a dispatch of an `ElasticBuffer` leaves."""


class ElasticBuffer:
    """Refused, until it is there."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("ElasticBuffer: the second version of deep_ep's interface is not on Weft yet; "
                                  "deep_ep.Buffer has the low-latency calls, and weft.ep has mode='throughput'")
