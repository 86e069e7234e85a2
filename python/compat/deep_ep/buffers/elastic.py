"""`ElasticBuffer` and its handles, under the module name of the original."""

from weft_compat_ep._events import EventHandle, EventOverlap

from .._elastic_buffer import ElasticBuffer
from .._expert_buffer import EPHandle

__all__ = ["EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap"]
