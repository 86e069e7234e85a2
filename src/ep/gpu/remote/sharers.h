// Ranks of another host that read each other's windows, by which a token that goes to several of them can cross the
// network once: what links of this rank show its neighbours of what comes, and which peers of this rank share what it
// sends. How they tell each other: remote/neighbours.h.
#ifndef EP_GPU_REMOTE_SHARERS_H
#define EP_GPU_REMOTE_SHARERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/remote/remote_link.h"

enum { EP_SHARER_GROUPS = (DEVICE_SEATS - 1) / 2 };

// Links whose peers all read each other's windows, two of them at least, by their numbers (ep_remote.id): who asks
// ep_remote_find() for a link that has been freed since gets NULL.
struct ep_sharers {
  uint32_t count;
  uint64_t links[DEVICE_SEATS - 1];
};

// The groups of a rank. [net lock]
struct ep_sharer_groups {
  uint64_t version; // a new one each time they change
  uint32_t count;
  struct ep_sharers groups[EP_SHARER_GROUPS];
};

// The groups as they are: looked for again only when something has changed that they follow from. [net lock]
const struct ep_sharer_groups *ep_sharers_find(struct ep_net *net);
// The group of the link in what was found last; NULL: its peer shares with nobody. [net lock]
const struct ep_sharers *ep_sharers_of(const struct ep_remote *remote);
// A link has come, or goes. [any]
void ep_sharers_changed(weft_ep_t *ep);

// As in struct ep_carrier_ops (remote/carrier.h).
size_t ep_sharers_shown_bytes(const weft_ep_t *ep);
int ep_sharers_shown(const struct ep_remote *remote);

#endif
