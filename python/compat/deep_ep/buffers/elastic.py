"""`ElasticBuffer` and its handles, by the names of the original's modules."""

from weft_compat_ep._events import EventHandle, EventOverlap

from .._elastic_buffer import ElasticBuffer, EPHandle

__all__ = ["EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap"]
