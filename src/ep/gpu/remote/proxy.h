// A link of a rank on CUDA memory to one on another host. Kernels write and read windows in host memory as they would
// the peer's; the net thread carries over what they write. No kernel knows of it, and none is waited for.
//
// What is collected goes in *batches*: each has a place in the staging memory here, and the same in the landing memory
// there, and a request that writes the one to the other and announces it. The peer puts a batch into its window when
// all before it are there, and counts it; a place is used again when the batch in it has been counted. Counting depends
// on no kernel, so nothing waits in a circle. In groups for throughput, where the transport can move rows from window
// to window, a batch has the words alone: the rows are further pieces of its request. (docs/design/ep-gpu.md)
//
// proxy.c makes a proxy and ends it; batches.c carries its batches.
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
// Bytes that have gone from window to window (rings.h). [net lock]
uint64_t ep_proxy_moved(const struct ep_remote *remote);

#endif
