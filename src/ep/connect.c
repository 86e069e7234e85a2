// Connect, activate, disconnect.
#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"
#include "ep/view/views.h"
#include "group/view.h"

enum { RETRY_MS = 10 }; // between two calls of a rank whose process has gone, until its claim goes too

static int check_ranks(const weft_ep_t *ep, const int32_t *ranks, size_t count, const char *call, bool self_too) {
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

// Waits for a new link or the time given, whichever comes first. CANCELED.
static int wait_a_little(weft_ep_t *ep, uint64_t deadline_ns) {
  uint64_t retry = clock_deadline_ms(RETRY_MS);
  struct timespec until = clock_timespec(retry < deadline_ns ? retry : deadline_ns);
  pthread_mutex_lock(&ep->links.lock);
  bool interrupted = ep_interrupted(ep);
  if (!interrupted)
    pthread_cond_timedwait(&ep->links.changed, &ep->links.lock, &until);
  pthread_mutex_unlock(&ep->links.lock);
  return interrupted ? ep_canceled("the wait for a rank") : 0;
}

// Connects to whatever incarnation holds the rank. A claim outlives its process for a moment: then the next one is
// awaited.
static int connect_rank(weft_ep_t *ep, int32_t rank, uint64_t deadline_ns) {
  for (;;) {
    struct group_peer peer;
    int rc = group_wait_ranks(ep->group, &rank, 1, deadline_ns);
    if (rc != 0)
      return rc;
    if (group_find(ep->group, rank, &peer) == 0) {
      rc = ep_dial(ep, rank, peer.incarnation, peer.address, deadline_ns);
      if (rc == WEFT_ERR_UNREACHABLE && clock_passed(deadline_ns))
        return rc;
      if (rc != WEFT_ERR_PEER_LOST && rc != WEFT_ERR_UNREACHABLE)
        return rc;
    }
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "rank %d did not come by the deadline; the last that held it is gone", rank);
    rc = wait_a_little(ep, deadline_ns);
    if (rc != 0)
      return rc;
  }
}

int weft_ep_connect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "connect: ep is NULL");
  int rc = check_ranks(ep, ranks, count, "connect", false);
  if (rc != 0)
    return rc;
  ep->engine->sweep(ep);
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  struct group_peer peer;
  for (size_t i = 0; i < count; i++) // first the ranks that are there: an absent one costs the others nothing
    if (group_find(ep->group, ranks[i], &peer) == 0) {
      rc = ep_dial(ep, ranks[i], peer.incarnation, peer.address, deadline_ns);
      if (rc != 0 && rc != WEFT_ERR_PEER_LOST && rc != WEFT_ERR_UNREACHABLE)
        return fail_context(rc, "connect");
    }
  rc = group_wait_ranks(ep->group, ranks, count, deadline_ns);
  for (size_t i = 0; rc == 0 && i < count; i++)
    rc = connect_rank(ep, ranks[i], deadline_ns);
  return rc == 0 ? 0 : fail_context(rc, "connect");
}

// --- activate ---

// View 1 from the links to the founders: the newest view may be a later one already, but operation 0 runs in the first.
static const struct group_view *first_view(weft_ep_t *ep) {
  const struct group_view *known = group_view(ep->group);
  if (known && known->epoch == 1)
    return known;
  group_view_unref(known);
  struct group_view *view = group_view_new(1, ep->num_founders ? ep->num_founders : 1);
  if (!view)
    return NULL;
  uint32_t at = 0;
  if (ep->num_founders == 0)
    view->members[0] = (struct group_member){.rank = ep->rank, .incarnation = ep->incarnation};
  for (uint32_t rank = 0; rank < ep->capacity; rank++)
    for (uint32_t i = 0; i < ep->num_founders; i++) {
      if (ep->founders[i] != (int32_t)rank)
        continue;
      struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
      uint64_t incarnation = (int32_t)rank == ep->rank ? ep->incarnation : link ? link->incarnation : 0;
      view->members[at++] = (struct group_member){.rank = (int32_t)rank, .incarnation = incarnation};
    }
  return view;
}

static int found(weft_ep_t *ep, uint64_t deadline_ns) {
  int rc = 0;
  if (ep->num_founders > 0)
    rc = group_wait_ranks(ep->group, ep->founders, ep->num_founders, deadline_ns);
  for (uint32_t i = 0; rc == 0 && i < ep->num_founders; i++)
    if (ep->founders[i] != ep->rank)
      rc = connect_rank(ep, ep->founders[i], deadline_ns);
  if (rc == 0)
    rc = group_found(ep->group, deadline_ns);
  if (rc != 0)
    return rc;
  ep->engine->hold_links(ep);
  const struct group_view *view = first_view(ep);
  ep->engine->unhold_links(ep);
  if (!view)
    return fail(WEFT_ERR_NOMEM, "no memory for the first view");
  rc = ep->engine->found(ep, view);
  if (rc == 0)
    ep_start(ep, 0, view);
  else
    group_view_unref(view);
  return rc;
}

// Connects to every member of a view. NOT_FOUND: one of them is gone, so the view will change.
static int connect_view(weft_ep_t *ep, const struct group_view *view, uint64_t deadline_ns) {
  for (uint32_t i = 0; i < view->count; i++) {
    const struct group_member *member = &view->members[i];
    if (member->rank == ep->rank)
      continue;
    struct group_peer peer;
    int rc = group_find(ep->group, member->rank, &peer);
    if (rc == 0 && peer.incarnation != member->incarnation)
      rc = WEFT_ERR_NOT_FOUND;
    if (rc == 0)
      rc = ep_dial(ep, member->rank, peer.incarnation, peer.address, deadline_ns);
    if (rc == WEFT_ERR_PEER_LOST || rc == WEFT_ERR_NOT_FOUND)
      return fail(WEFT_ERR_NOT_FOUND, "rank %d of the view is gone", member->rank);
    if (rc == WEFT_ERR_UNREACHABLE) // its host may be: then the view changes
      return fail_context(WEFT_ERR_NOT_FOUND, "a rank of the view");
    if (rc != 0)
      return rc;
  }
  return 0;
}

// Proposes the newest view with this rank until one is agreed on.
static int propose(weft_ep_t *ep, uint64_t deadline_ns) {
  for (;;) {
    const struct group_view *view = group_view(ep->group);
    if (!view)
      return fail(WEFT_ERR_NOT_FOUND, "the group has no view to join");
    if (group_view_has(view, ep->rank, ep->incarnation)) {
      ep->engine->joined(ep, 0);
      group_view_unref(view);
      return 0;
    }
    int rc = connect_view(ep, view, deadline_ns);
    bool stale = rc == WEFT_ERR_NOT_FOUND;
    if (rc == 0) {
      ep->engine->wake_links(ep);
      rc = group_join(ep->group, view, deadline_ns);
      if (rc == 0)
        ep->engine->joined(ep, view->epoch);
    }
    group_view_unref(view);
    if (rc != 0 && rc != WEFT_ERR_CONFLICT && !stale)
      return rc;
    if (clock_passed(deadline_ns))
      return stale ? fail_context(WEFT_ERR_TIMEOUT, "this rank could not join by the deadline, and no other view came")
                   : fail(WEFT_ERR_TIMEOUT, "this rank could not join by the deadline: the view changed each time");
    rc = stale ? wait_a_little(ep, deadline_ns) : 0;
    if (rc != 0)
      return rc;
  }
}

// The view of a group that is there, though the store may have lost it for the moment.
static int await_group(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view;
  int rc = 0;
  while (rc == 0 && !(view = group_view(ep->group)) && !clock_passed(deadline_ns))
    rc = wait_a_little(ep, deadline_ns);
  if (rc != 0)
    return rc;
  group_view_unref(view);
  return view ? WEFT_ERR_NOT_FOUND : fail(WEFT_ERR_TIMEOUT, "no view of the group came to the store by the deadline");
}

static int begin_with_others(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view;
  uint64_t op;
  int rc = ep->engine->await_start(ep, deadline_ns, &op, &view);
  if (rc == 0)
    ep_start(ep, op, view);
  return rc;
}

int weft_ep_activate(weft_ep_t *ep, uint32_t timeout_ms) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "activate: ep is NULL");
  if (ep->started) {
    int active = ep_check_active(ep);
    return active == 0 ? 0 : fail_context(active, "activate");
  }
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  const struct group_view *view = group_view(ep->group);
  int rc = view ? WEFT_ERR_NOT_FOUND : ep->join_only ? await_group(ep, deadline_ns) : found(ep, deadline_ns);
  if (view && ep->num_founders > 0 && group_view_has(view, ep->rank, ep->incarnation))
    rc = found(ep, deadline_ns); // the other founders were quicker
  group_view_unref(view);
  if (rc == WEFT_ERR_NOT_FOUND) { // founded before
    rc = propose(ep, deadline_ns);
    if (rc == 0)
      rc = begin_with_others(ep, deadline_ns);
  }
  return rc == 0 ? 0 : fail_context(rc, "activate");
}

// --- disconnect ---

// A connected rank that is in no view is only unmapped.
static int unmap(weft_ep_t *ep, int32_t rank) {
  if (ep->engine->unmap(ep, rank) == 0)
    return 0;
  return fail(WEFT_ERR_NOT_FOUND, "rank %d is not connected", rank);
}

int weft_ep_disconnect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "disconnect: ep is NULL");
  int rc = check_ranks(ep, ranks, count, "disconnect", true);
  if (rc != 0)
    return rc;
  int32_t *active = malloc((count ? count : 1) * sizeof *active);
  if (!active)
    return fail(WEFT_ERR_NOMEM, "disconnect: no memory");
  ep->engine->refresh(ep);
  const struct group_view *view = group_view(ep->group);
  size_t num_active = 0;
  for (size_t i = 0; i < count && rc == 0; i++) {
    bool agreed = view && group_view_find(view, ranks[i]);
    bool running = ep->view && group_view_find(ep->view, ranks[i]);
    if (agreed)
      active[num_active++] = ranks[i];
    else if (!running && ranks[i] != ep->rank)
      rc = unmap(ep, ranks[i]);
    if (ranks[i] == ep->rank)
      ep->leaving = true;
  }
  group_view_unref(view);
  if (rc == 0 && num_active > 0)
    rc = group_remove(ep->group, active, num_active, ep_deadline(timeout_ms));
  free(active);
  ep->engine->sweep(ep);
  return rc == 0 ? 0 : fail_context(rc, "disconnect");
}
