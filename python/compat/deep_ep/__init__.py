"""`deep_ep` on Weft: expert parallelism under the name that programs import today.

See README.md of the distribution weft-compat for what each call does, and what differs.
"""

from weft_compat import take_name
from weft_compat_ep._events import Config, EventHandle, EventOverlap

from ._elastic_buffer import ElasticBuffer
from ._ep_buffer import EPBuffer
from ._expert_buffer import EPHandle
from .buffer import Buffer, topk_idx_t
from .comm import destroy_all_managed_nccl_comm, get_logical_domain_size, get_physical_domain_size
from .hybrid_ep_buffer import HybridEPBuffer

take_name("deep_ep")

__version__ = "2.1.0"
"""version of the original interface that this module implements"""

__all__ = ["Buffer", "Config", "EPBuffer", "EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap",
           "HybridEPBuffer", "destroy_all_managed_nccl_comm", "get_logical_domain_size", "get_physical_domain_size",
           "topk_idx_t"]
