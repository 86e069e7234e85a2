// A link of a rank on CUDA memory to one on another host. Kernels write and read windows in host memory as they would
// the peer's; the net thread carries what they write over. No kernel knows, and none is waited for.
//
// What is collected goes in *batches*: each has a place in the staging memory here, and the same in the landing memory
// there, and a request that writes the one to the other and announces it. The peer puts a batch into its window when
// all before it are there, and counts; a place is used again when the batch in it has been counted. That depends on no
// kernel, so nothing waits in a circle. In groups for throughput a batch has the words alone where the transport can
// move rows from window to window: these are more pieces of its request. (docs/design/ep-gpu.md)
#ifndef EP_GPU_REMOTE_PROXY_H
#define EP_GPU_REMOTE_PROXY_H

#include "device/device.h"
#include "ep/remote/remote_link.h"

enum {
  EP_PROXY_BATCHES = 8, // under way at once
  EP_PROXY_BYTES = 256 << 10,
};

struct ep_proxy;

// What goes with each batch, or alone.
struct ep_proxy_update {
  uint64_t link; // as in struct ep_update
  uint32_t version;
  uint32_t size;      // of the batch; 0: none, this only counts
  uint64_t number;    // of the batch, from 0 on
  uint64_t delivered; // batches of the receiver's that are in their place
};

// The carrier of links to other hosts (remote/carrier.h).
extern const struct ep_carrier_ops ep_proxy_carrier;
// Carries what there is, for all links; returns how much happened. [net lock]
uint32_t ep_proxy_poll(struct ep_net *net);
// Bytes that have gone from window to window (rings.h). [net lock]
uint64_t ep_proxy_moved(const struct ep_remote *remote);
// How long the net thread may sleep: kernels do not wake it. `last_ns`: when something happened last.
uint64_t ep_proxy_nap_ns(uint64_t last_ns);

#endif
