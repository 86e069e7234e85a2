// Waits until published data has left, before this rank leaves.
#include "base/time/clock.h"
#include "ep/remote/remote_link.h"

enum { FLUSH_MS = 1000 };

// Whether data for that rank has not left yet.
static bool is_busy(weft_ep_t *ep, uint32_t rank) {
  struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
  return link && link->remote && !ep_put_all_left(link->remote);
}

void ep_remote_flush(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  uint64_t deadline_ns = clock_deadline_ms(FLUSH_MS);
  for (uint32_t rank = 0; net && rank < ep->capacity; rank++)
    while (is_busy(ep, rank) && !clock_passed(deadline_ns)) {
      ep_net_lock(net);
      ep_net_progress(net);
      ep_net_unlock(net);
    }
}
