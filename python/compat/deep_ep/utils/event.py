"""Events, under the module name of the original."""

from weft_compat_ep._events import EventHandle, EventOverlap

__all__ = ["EventHandle", "EventOverlap"]
