// Stamps of batches, and which links carry rows for which other links.
#include "ep/gpu/remote/share.h"

#include <string.h>

#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/sharers.h"
#include "ep/remote/neighbours.h"

// If a carrier has counted nothing for so long, no link waits for it: its rows are also sent to the others.
enum { PATIENCE_NS = 20000000 };

void ep_share_open(struct ep_share_stamps *stamps) {
  memset(stamps->counted, 0xFF, sizeof stamps->counted);
}

static struct ep_share_stamps *stamps_of(const struct ep_remote *remote) {
  return &remote->ep->gpu->shared;
}

static bool is_slow(const struct ep_share_stamps *stamps, uint32_t seat) {
  return stamps->counted[seat] != UINT64_MAX && clock_ns() - stamps->since_ns[seat] > PATIENCE_NS;
}

static void add_carrier(struct ep_share *share, const struct ep_share_stamps *stamps, const struct ep_remote *remote,
                        struct device_relay *relay) {
  uint32_t seat = remote->link->device.seat;
  if (relay && (seat == share->sharing.seat || !is_slow(stamps, seat)))
    share->carriers[share->sharing.count++] = (struct device_carrier){
        .relay = relay, .window = ep_area_number(remote->peer_id), .landed = stamps->counted[seat]};
}

void ep_share_begin(struct ep_share *share, const struct ep_remote *remote,
                    struct device_relay *(*relay_of)(const struct ep_remote *link)) {
  struct ep_share_stamps *stamps = stamps_of(remote);
  const struct ep_sharers *group = ep_sharers_of(remote);
  share->sharing = (struct device_sharing){.stamp = stamps->newest + 1,
                                           .seat = remote->link->device.seat,
                                           .carriers = share->carriers,
                                           .counted = stamps->counted};
  for (uint32_t i = 0; group && i < group->count; i++) {
    const struct ep_remote *other = ep_remote_find(remote->net, group->links[i]);
    if (other)
      add_carrier(share, stamps, other, relay_of(other));
  }
}

void ep_share_posted(const struct ep_share *share, struct ep_remote *remote) {
  struct ep_share_stamps *stamps = stamps_of(remote);
  stamps->newest = share->sharing.stamp;
  stamps->named_bytes += share->sharing.named_bytes;
}

void ep_share_counted(struct ep_remote *remote, uint64_t oldest, uint64_t since_ns) {
  struct ep_share_stamps *stamps = stamps_of(remote);
  uint32_t seat = remote->link->device.seat;
  if (seat == DEVICE_NO_SEAT)
    return;
  stamps->counted[seat] = oldest - 1; // of 0: UINT64_MAX
  stamps->since_ns[seat] = since_ns;
}

// --- receiving ---

static const char *find(void *arg, uint64_t window) {
  struct ep_share_windows *windows = arg;
  struct ep_share_window *known = &windows->known[window % EP_SHARE_KNOWN];
  if (!known->memory || known->number != window)
    *known = (struct ep_share_window){window, ep_neighbours_area(windows->remote->ep, windows->remote->link, window)};
  return known->memory;
}

// A source that drops a rank announces that before it overwrites rows that it named to this rank.
static bool holds(void *arg) {
  const struct ep_share_windows *windows = arg;
  return !ep_link_takes_us_for_lost(windows->remote->link);
}

struct device_neighbours ep_share_neighbours(struct ep_share_windows *windows, struct ep_remote *remote) {
  *windows = (struct ep_share_windows){.remote = remote};
  return (struct device_neighbours){.arg = windows, .find = find, .holds = holds};
}
