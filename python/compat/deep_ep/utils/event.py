"""Events, by the name of the original's module."""

from weft_compat_ep._events import EventHandle, EventOverlap

__all__ = ["EventHandle", "EventOverlap"]
