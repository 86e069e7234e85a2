"""`deep_ep` on Weft: expert parallelism under the name that programs import today.

See README.md of the distribution weft-compat for what each call does, and what differs.
"""

from weft_compat import take_name
from weft_compat_ep._events import Config, EventHandle, EventOverlap

from ._elastic_buffer import ElasticBuffer, EPHandle
from .buffer import Buffer, topk_idx_t
from .hybrid_ep_buffer import HybridEPBuffer
from .utils.envs import get_logical_domain_size, get_physical_domain_size

take_name("deep_ep")

__version__ = "2.1.0"
"""version of the original interface that this module implements"""

__all__ = ["Buffer", "Config", "EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap", "HybridEPBuffer",
           "get_logical_domain_size", "get_physical_domain_size", "topk_idx_t"]
