"""The `Buffer` of `deep_ep`, under the module name of the original's second version."""

from weft_compat_ep._events import Config, EventHandle, EventOverlap

from ..buffer import Buffer

__all__ = ["Buffer", "Config", "EventHandle", "EventOverlap"]
