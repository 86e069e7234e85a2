"""`EPBuffer` and its handles, under the module name of the original."""

from weft_compat_ep._events import EventHandle, EventOverlap

from .._ep_buffer import EPBuffer
from .._expert_buffer import EPHandle

__all__ = ["EPBuffer", "EPHandle", "EventHandle", "EventOverlap"]
