// Connects and disconnects ranks.
#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "ep/connect.h"
#include "ep/handshake/handshake.h"
#include "group/view.h"

enum {
  RETRY_MS = 10,        // between two calls to a rank whose process has gone, until its claim is gone too
  LONG_RETRY_MS = 1000, // the longest, for a rank that cannot be reached
};

int ep_check_ranks(const weft_ep_t *ep, const int32_t *ranks, size_t count, const char *call, bool self_too) {
  if (count > 0 && !ranks)
    return fail(WEFT_ERR_INVALID, "%s: ranks is NULL", call);
  for (size_t i = 0; i < count; i++) {
    if (ranks[i] < 0 || (uint32_t)ranks[i] >= ep->capacity)
      return fail(WEFT_ERR_INVALID, "%s: rank %d is out of range; ranks are 0 to %u", call, ranks[i], ep->capacity - 1);
    if (ranks[i] == ep->rank && !self_too)
      return fail(WEFT_ERR_INVALID, "%s: rank %d is this rank itself", call, ranks[i]);
  }
  return 0;
}

static int wait_ms(weft_ep_t *ep, uint32_t moment_ms, uint64_t deadline_ns) {
  uint64_t retry = clock_deadline_ms(moment_ms);
  struct timespec until = clock_timespec(retry < deadline_ns ? retry : deadline_ns);
  pthread_mutex_lock(&ep->links.lock);
  bool interrupted = ep_interrupted(ep);
  if (!interrupted)
    pthread_cond_timedwait(&ep->links.changed, &ep->links.lock, &until);
  pthread_mutex_unlock(&ep->links.lock);
  return interrupted ? ep_canceled("the wait for a rank") : 0;
}

int ep_wait_a_little(weft_ep_t *ep, uint64_t deadline_ns) {
  return wait_ms(ep, RETRY_MS, deadline_ns);
}

int ep_wait_for_way(weft_ep_t *ep, uint64_t deadline_ns, uint32_t *moment_ms) {
  uint32_t longer = *moment_ms ? 2 * *moment_ms : RETRY_MS;
  *moment_ms = longer < LONG_RETRY_MS ? longer : LONG_RETRY_MS;
  return wait_ms(ep, *moment_ms, deadline_ns);
}

// Whether this rank is in a view, and that rank is not.
static bool is_put_out(weft_ep_t *ep, int32_t rank) {
  const struct group_view *view = group_view(ep->group);
  bool out = group_view_has(view, ep->rank, ep->incarnation) && !group_view_find(view, rank);
  group_view_unref(view);
  return out;
}

// Connects to the incarnation that holds the rank. A claim outlives its process for a moment: then this waits for the
// next incarnation.
static int connect_rank(weft_ep_t *ep, int32_t rank, bool founder, uint64_t deadline_ns) {
  for (uint32_t moment_ms = 0;;) {
    struct group_peer peer;
    int rc = (founder ? group_wait_founders : group_wait_ranks)(ep->group, &rank, 1, deadline_ns);
    if (rc != 0)
      return rc;
    if (founder && is_put_out(ep, rank))
      return 0;
    bool unreachable = false;
    if (group_find(ep->group, rank, &peer) == 0) {
      rc = ep_dial(ep, rank, peer.incarnation, peer.address, deadline_ns);
      unreachable = rc == WEFT_ERR_UNREACHABLE;
      if (unreachable && clock_passed(deadline_ns))
        return rc;
      if (rc != WEFT_ERR_PEER_LOST && !unreachable)
        return rc;
    }
    if (clock_passed(deadline_ns))
      return fail_context(WEFT_ERR_TIMEOUT, "rank %d did not appear by the deadline", rank);
    rc = unreachable ? ep_wait_for_way(ep, deadline_ns, &moment_ms) : ep_wait_a_little(ep, deadline_ns);
    if (rc != 0)
      return rc;
  }
}

int ep_connect_founder(weft_ep_t *ep, int32_t rank, uint64_t deadline_ns) {
  return connect_rank(ep, rank, true, deadline_ns);
}

// TIMEOUT, with the names of those of `ranks` that have no link; 0: all have one.
static int check_connected(weft_ep_t *ep, const int32_t *ranks, size_t count) {
  struct text missing = {0};
  bool connected = true;
  ep->engine->hold_links(ep);
  for (size_t i = 0; i < count; i++) {
    if (ep_link_settled(ep, ranks[i], 0))
      continue;
    connected = false;
    text_add_rank(&missing, ranks[i]);
  }
  ep->engine->unhold_links(ep);
  if (connected)
    return 0;
  int rc = fail(WEFT_ERR_TIMEOUT, "connect: not connected: %s", missing.data ? missing.data : "?");
  text_free(&missing);
  return rc;
}

int weft_ep_connect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "connect");
  int rc = ep_check_ranks(ep, ranks, count, "connect", false);
  if (rc != 0)
    return rc;
  ep->engine->sweep(ep);
  if (timeout_ms == 0)
    return check_connected(ep, ranks, count);
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  struct group_peer peer;
  for (size_t i = 0; i < count; i++) // first the ranks that are present, so that an absent one does not delay them
    if (group_find(ep->group, ranks[i], &peer) == 0) {
      rc = ep_dial(ep, ranks[i], peer.incarnation, peer.address, deadline_ns);
      if (rc != 0 && rc != WEFT_ERR_PEER_LOST && rc != WEFT_ERR_UNREACHABLE)
        return fail_context(rc, "connect");
    }
  rc = group_wait_ranks(ep->group, ranks, count, deadline_ns);
  for (size_t i = 0; rc == 0 && i < count; i++)
    rc = connect_rank(ep, ranks[i], false, deadline_ns);
  return rc == 0 ? 0 : fail_context(rc, "connect");
}

// --- disconnect ---

static bool is_known(weft_ep_t *ep, const struct group_view *view, int32_t rank) {
  if (rank == ep->rank || group_view_find(view, rank) || group_view_find(ep->view, rank))
    return true;
  ep->engine->hold_links(ep);
  bool linked = atomic_load(&ep->links.by_rank[rank]) != NULL;
  ep->engine->unhold_links(ep);
  return linked;
}

// Checks all ranks before any link is freed.
static int check_known(weft_ep_t *ep, const struct group_view *view, const int32_t *ranks, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!is_known(ep, view, ranks[i]))
      return fail(WEFT_ERR_NOT_FOUND, "rank %d is not connected", ranks[i]);
  return 0;
}

static bool is_named_before(const int32_t *ranks, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (ranks[j] == ranks[i])
      return true;
  return false;
}

int weft_ep_disconnect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "disconnect");
  int rc = ep_check_ranks(ep, ranks, count, "disconnect", true);
  if (rc != 0)
    return rc;
  int32_t *active = malloc((count ? count : 1) * sizeof *active);
  if (!active)
    return fail(WEFT_ERR_NOMEM, "disconnect: no memory");
  ep->engine->refresh(ep);
  const struct group_view *view = group_view(ep->group);
  size_t num_active = 0;
  bool left = ep->leaving;
  rc = check_known(ep, view, ranks, count);
  for (size_t i = 0; i < count && rc == 0; i++) {
    if (is_named_before(ranks, i))
      continue;
    if (group_view_find(view, ranks[i]))
      active[num_active++] = ranks[i];
    else if (!group_view_find(ep->view, ranks[i]) && ranks[i] != ep->rank)
      ep->engine->unmap(ep, ranks[i]); // a connected rank that is in no view
    if (ranks[i] == ep->rank)
      ep->leaving = true;
  }
  group_view_unref(view);
  if (rc == 0 && num_active > 0)
    rc = group_remove(ep->group, active, num_active, ep_deadline(timeout_ms));
  free(active);
  if (rc != 0)
    ep->leaving = left;
  ep->engine->sweep(ep);
  return rc == 0 ? 0 : fail_context(rc, "disconnect");
}
