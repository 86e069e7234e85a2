// Decides which call becomes the link if two ranks call each other at once.
#include <errno.h>
#include <poll.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"

enum { CLAIM_MS = 500 }; // between two checks whether the called rank still has its claim

int ep_check_called(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct group_peer claim;
  if (group_find(ep->group, rank, &claim) == 0 && claim.incarnation == incarnation)
    return 0;
  return fail(WEFT_ERR_PEER_LOST, "rank %d lost its claim before it answered the call", rank);
}

int ep_await_answer(weft_ep_t *ep, int socket, short events, int32_t rank, uint64_t incarnation, uint64_t deadline_ns) {
  for (;;) {
    uint64_t check_ns = clock_deadline_ms(CLAIM_MS);
    int n = ep_interrupt_poll(ep, socket, events, check_ns < deadline_ns ? check_ns : deadline_ns);
    if (n == -1)
      return fail_errno(errno, "waiting for rank %d's answer", rank);
    if (n != 0)
      return n < 0 ? n : 0;
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "rank %d did not answer the call by the deadline", rank);
    int rc = ep_check_called(ep, rank, incarnation);
    if (rc != 0)
      return rc;
  }
}

enum { YIELDED_MS = 1000 }; // time for the call that is used; its caller may have given it up by then

bool ep_await_call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, uint64_t deadline_ns, bool yielded, int *rc) {
  struct ep_links *links = &ep->links;
  uint64_t yielded_ns = clock_deadline_ms(YIELDED_MS);
  *rc = 0;
  while (!ep_link_settled(ep, rank, incarnation)) {
    bool expected = yielded && !clock_passed(yielded_ns), answers = links->answering[rank] == incarnation;
    if (!expected && !answers && !(yielded && clock_passed(deadline_ns)))
      return false;
    if (ep_interrupted(ep)) {
      *rc = ep_canceled("connect");
      return true;
    }
    struct timespec until = clock_timespec(expected && yielded_ns < deadline_ns ? yielded_ns : deadline_ns);
    if (pthread_cond_timedwait(&links->changed, &links->lock, &until) == ETIMEDOUT && clock_passed(deadline_ns)) {
      *rc = fail(WEFT_ERR_TIMEOUT, "rank %d began to connect to this rank, but did not finish by the deadline", rank);
      return true;
    }
  }
  return true;
}

bool ep_peer_ended(struct ep_link *link) {
  struct pollfd hang_up = {.fd = link->socket, .events = POLLRDHUP};
  link->path->listen(link);
  return atomic_load(&ep_link_in(link)->notice.left) || poll(&hang_up, 1, 0) > 0;
}

// A caller that has freed its last link, or failed to make it, may call again before this rank has noticed that. It
// lives, so there is nothing to report while this rank runs no operation that includes it.
static void end_last_link(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = ep_link_find(ep, rank, incarnation);
  if (link && ep_peer_ended(link)) {
    bool counted = ep->started && !atomic_load(&link->unconfirmed);
    ep_link_down(ep, link, counted ? EP_LINK_LEFT : EP_LINK_DOUBTED, "it calls again");
  }
}

int ep_check_incarnation(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = ep_link_find(ep, rank, 0);
  struct group_peer claim;
  if (!link || link->incarnation == incarnation ||
      (group_find(ep->group, rank, &claim) == 0 && claim.incarnation == incarnation))
    return 0;
  return fail(WEFT_ERR_PEER_LOST, "rank %d is connected, and its claim is not of the incarnation that calls", rank);
}

bool ep_answer_begin(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_links *links = &ep->links;
  end_last_link(ep, rank, incarnation);
  pthread_mutex_lock(&links->lock);
  bool ours_stands = links->dialling[rank] == incarnation && ep->rank < rank;
  bool theirs_stands = !ours_stands && !ep_link_find(ep, rank, incarnation);
  if (theirs_stands)
    links->answering[rank] = incarnation;
  pthread_mutex_unlock(&links->lock);
  return theirs_stands;
}

void ep_answer_end(weft_ep_t *ep, int32_t rank) {
  struct ep_links *links = &ep->links;
  pthread_mutex_lock(&links->lock);
  links->answering[rank] = 0;
  pthread_cond_broadcast(&links->changed);
  pthread_mutex_unlock(&links->lock);
  ep->on_links(ep);
}
