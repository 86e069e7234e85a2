"""The names that programs import from `deep_ep.utils`."""

from weft_compat_ep._events import EventHandle, EventOverlap

from . import envs, event, math

__all__ = ["EventHandle", "EventOverlap", "envs", "event", "math"]
