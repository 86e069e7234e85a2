// The rings of a link to another host, in a group for throughput: the part of its windows through which rows travel, if
// the transport may write it at the peer. Rows then move from our `out` directly to the peer's `in`, and no processor
// of either host copies them. The rest of a window is only written by batches, which are checked (proxy.h).
//
// Each side registers the rings of both windows, and sends the key of those of `in` to the peer in the handshake. If
// one side cannot do its part for one direction, rows of that direction travel in batches; the other direction is
// independent.
#ifndef EP_GPU_REMOTE_RINGS_H
#define EP_GPU_REMOTE_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/remote/remote_link.h"

struct ep_rings {
  uint64_t offset, bytes;                          // in both windows; 0 bytes: no rings
  char *in, *out;                                  // where they begin
  struct transport_region *in_region, *out_region; // NULL: not registered
  struct transport_remote *there;                  // the peer's rings; NULL: rows to the peer travel in batches
};

// Registers the rings, if there are any. It is no error if the transport refuses. [net lock]
void ep_rings_register(struct ep_rings *rings, struct ep_remote *remote);
// Writes their key into the handshake message. [net lock]
int ep_rings_describe(struct ep_rings *rings, struct ep_remote *remote, struct ep_tcp_message *message);
// Imports the key in the peer's message. An error means that the peer sent an invalid key. [net lock]
int ep_rings_import(struct ep_rings *rings, struct ep_remote *remote, const struct ep_tcp_message *message);
// Withdraws the registration. No request of this rank is in flight. [net lock]
void ep_rings_unregister(struct ep_rings *rings, struct ep_remote *remote);

#endif
