// The rings of a link of a group for throughput to another host: the part of its windows through which rows go, where
// the transport may write the peer's. So rows go from our `out` to the peer's `in` as they lie there, and no processor
// of either host copies them. The rest of a window is written by batches alone, which are checked (proxy.h).
//
// Each side registers the rings of both windows, and shows the peer those of `in` in the handshake. Where one of them
// cannot, rows go in batches that way; the other way is a matter of its own.
#ifndef EP_GPU_REMOTE_RINGS_H
#define EP_GPU_REMOTE_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/remote/remote_link.h"

struct ep_rings {
  uint64_t offset, bytes;                          // in both windows; 0 bytes: there are none
  char *in, *out;                                  // where they begin
  struct transport_region *in_region, *out_region; // NULL: not registered
  struct transport_remote *there;                  // the peer's; NULL: rows go to it in batches
};

// Registers those that there are. What the transport refuses is no error. [net lock]
void ep_rings_register(struct ep_rings *rings, struct ep_remote *remote);
// Shows them to the peer. [net lock]
int ep_rings_describe(struct ep_rings *rings, struct ep_remote *remote, struct ep_tcp_message *message);
// What the peer shows. Errors are those of a peer that shows what no peer shows. [net lock]
int ep_rings_import(struct ep_rings *rings, struct ep_remote *remote, const struct ep_tcp_message *message);
// Nothing of this rank's is under way. [net lock]
void ep_rings_unregister(struct ep_rings *rings, struct ep_remote *remote);

#endif
