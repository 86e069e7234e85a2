// Ranks of another host that read each other's windows, so that a token for several of them crosses the network once:
// which memory links of this rank show to its neighbours, and which peers of this rank share what it sends. For the
// protocol between neighbours see remote/neighbours.h.
#ifndef EP_GPU_REMOTE_SHARERS_H
#define EP_GPU_REMOTE_SHARERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/remote/remote_link.h"

enum { EP_SHARER_GROUPS = (DEVICE_SEATS - 1) / 2 };

// At least two links whose peers all read each other's windows. They are kept by their numbers (ep_remote.id):
// ep_remote_find() returns NULL if a link has been freed since.
struct ep_sharers {
  uint32_t count;
  uint64_t links[DEVICE_SEATS - 1];
};

// The groups of a rank. [net lock]
struct ep_sharer_groups {
  uint64_t version; // changes each time the groups change
  uint32_t count;
  struct ep_sharers groups[EP_SHARER_GROUPS];
};

// The current groups. They are computed again only when their inputs have changed. [net lock]
const struct ep_sharer_groups *ep_sharers_find(struct ep_net *net);
// The group of the link among those found last; NULL: its peer shares with no other. [net lock]
const struct ep_sharers *ep_sharers_of(const struct ep_remote *remote);
// A link was added or is being removed. [any]
void ep_sharers_changed(weft_ep_t *ep);

// As in struct ep_carrier_ops (remote/carrier.h).
size_t ep_sharers_shown_bytes(const weft_ep_t *ep);
int ep_sharers_shown(const struct ep_remote *remote);

#endif
