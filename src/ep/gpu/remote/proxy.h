// A link between ranks on CUDA memory of different hosts. Kernels write and read windows in host memory as if these
// were the peer's; the net thread carries what they write to the peer. Kernels do not know of the proxy, and the proxy
// waits for no kernel.
//
// Collected data travels in *batches*. Each batch has a place in the staging memory here, the same place in the landing
// memory of the peer, and a request that writes the one to the other and announces the batch. The peer puts a batch
// into its window when all earlier batches are there, and then counts it. A place is reused when its batch has been
// counted. Counting depends on no kernel, so no circular wait is possible. In groups for throughput, if the transport
// can move rows from window to window, a batch has only the words, and the rows are further pieces of its request.
// (docs/design/ep-gpu.md)
//
// proxy.c makes a proxy and ends it; batches.c carries its batches.
#ifndef EP_GPU_REMOTE_PROXY_H
#define EP_GPU_REMOTE_PROXY_H

#include "device/device.h"
#include "ep/remote/remote_link.h"

enum {
  EP_PROXY_BATCHES = 8, // in flight at once
  EP_PROXY_BYTES = 256 << 10,
};

struct ep_proxy;

// The message that is sent with each batch, or alone.
struct ep_proxy_update {
  uint64_t link; // as in struct ep_update
  uint32_t version;
  uint32_t size;      // bytes of the batch; 0: no batch, the message only counts
  uint64_t number;    // of the batch, from 0 on
  uint64_t delivered; // batches of the receiver that are in place
};

// The carrier of links to other hosts (remote/carrier.h).
extern const struct ep_carrier_ops ep_proxy_carrier;
// Bytes that were moved from window to window (rings.h). [net lock]
uint64_t ep_proxy_moved(const struct ep_remote *remote);

#endif
