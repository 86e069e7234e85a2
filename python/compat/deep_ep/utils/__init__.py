"""The names that programs import from `deep_ep.utils`."""

from weft_compat_ep._events import EventHandle, EventOverlap

__all__ = ["EventHandle", "EventOverlap"]
