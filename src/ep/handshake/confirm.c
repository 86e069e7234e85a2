// Waits for callers to confirm that they have received an answer.
//
// Both ranks must agree whether there is a link: if only the called rank knew of one, it would be ready for views with
// the caller, and in these views each would miss the other. An answer may arrive at a caller that has just given up. So
// the called rank counts a link only when its caller has confirmed, and is ready for no view with the caller before.
// A confirmation has no answer: if it comes too late, the caller receives the notice that the called rank has left.
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"

enum { CONFIRM_MS = 5000 }; // a caller confirms as soon as it has reached this rank's memory

void ep_confirm_expect(weft_ep_t *ep, struct ep_link *link) {
  link->confirm_by_ns = clock_deadline_ms(CONFIRM_MS);
  atomic_store(&link->unconfirmed, true);
  ep->links.unconfirmed = true;
}

// The link that answers the call of that rank and is up, but not confirmed. NULL: none.
static struct ep_link *find_unconfirmed(weft_ep_t *ep, int32_t rank, uint64_t caller) {
  struct ep_link *link = ep_link_find(ep, rank, caller);
  return link && atomic_load(&link->unconfirmed) ? link : NULL;
}

static uint64_t answered(weft_ep_t *ep, int32_t rank) {
  pthread_mutex_lock(&ep->links.lock);
  uint64_t caller = ep->links.answering[rank];
  pthread_mutex_unlock(&ep->links.lock);
  return caller;
}

int ep_confirm_settle(weft_ep_t *ep) {
  int next = -1;
  if (!ep->links.unconfirmed)
    return next;
  for (int32_t rank = 0; rank < (int32_t)ep->capacity; rank++) {
    uint64_t caller = answered(ep, rank);
    if (caller == 0)
      continue;
    struct ep_link *link = find_unconfirmed(ep, rank, caller); // only this thread frees links
    int left = link ? clock_left_ms(link->confirm_by_ns) : 0;
    if (left > 0) {
      next = next < 0 || left < next ? left : next;
      continue;
    }
    if (link) {
      log_info("rank %d has not confirmed within %d ms that it received the answer to its call", rank, CONFIRM_MS);
      ep_link_notify_left(link); // it is no death
      ep_link_down(ep, link, EP_LINK_DOUBTED, "it has not confirmed its call");
    }
    ep_answer_end(ep, rank);
  }
  ep->links.unconfirmed = next >= 0;
  return next;
}
