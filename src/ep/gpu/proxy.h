// A link of a rank on CUDA memory to one on another host. Kernels write and read windows in host memory as they would
// the peer's; the net thread carries what they write over. No kernel knows, and none is waited for.
//
// What is collected goes in *batches*: each has a place in the staging memory here, and the same in the landing memory
// there, and a request that writes the one to the other and tells of it. The peer puts a batch into its window when all
// before it are there, and counts; a place is used again when the batch in it has been counted. That depends on no
// kernel, so nothing waits in a circle. (docs/design.md)
#ifndef EP_GPU_PROXY_H
#define EP_GPU_PROXY_H

#include "ep/remote/remote_link.h"

enum {
  EP_PROXY_BATCHES = 8, // under way at once
  EP_PROXY_BYTES = 256 << 10,
};

struct ep_proxy;

// What goes with each batch, or alone.
struct ep_proxy_note {
  uint64_t link; // as in struct ep_note
  uint32_t version;
  uint32_t size;      // of the batch; 0: none, this only counts
  uint64_t number;    // of the batch, from 0 on
  uint64_t delivered; // batches of the receiver's that are in their place
};

// Makes the windows of batches; `*fd` of the one that the peer writes. The link has its windows. [owner, service]
int ep_proxy_new(struct ep_remote *remote, int *fd);
void ep_proxy_free(struct ep_proxy *proxy);
// The staging and the landing memory.
struct ep_window *ep_proxy_staging(struct ep_proxy *proxy);
struct ep_window *ep_proxy_landing(struct ep_proxy *proxy);
// The peer can be reached: begins. [turn]
int ep_proxy_prepare(struct ep_remote *remote);
// Calls `visit` for each request, as remote/put.c does. [turn]
bool ep_proxy_each(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post));
// A message of the peer's. [turn]
void ep_proxy_hear(struct ep_remote *remote, const void *bytes, size_t size);
// Carries what there is, for all links; returns how much happened. [turn]
uint32_t ep_proxy_poll(struct ep_net *net);
// Carries what the link's kernels, which have ended, have left, for a moment at most. [any]
void ep_proxy_flush(struct ep_remote *remote);
// How long the net thread may sleep: kernels do not wake it. `last_ns`: when something happened last.
uint64_t ep_proxy_nap_ns(uint64_t last_ns);

#endif
