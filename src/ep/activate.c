// How a rank becomes active: by itself, or by an offer that others accept. change.c has what the others do with an
// offer.
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/connect.h"
#include "ep/handshake/handshake.h"
#include "ep/view/views.h"
#include "group/view.h"

enum { NEWS_NS = 200000 }; // between two checks for news from another thread

// Makes view 1 from the links to the founders. A founder without a link was removed since, and is left out.
static const struct group_view *view_of_links(weft_ep_t *ep) {
  struct group_view *view = group_view_new(1, ep->num_founders ? ep->num_founders : 1);
  if (!view)
    return NULL;
  uint32_t at = 0;
  if (ep->num_founders == 0)
    view->members[at++] = (struct group_member){.rank = ep->rank, .incarnation = ep->incarnation};
  for (uint32_t rank = 0; rank < ep->capacity; rank++)
    for (uint32_t i = 0; i < ep->num_founders; i++) {
      if (ep->founders[i] != (int32_t)rank)
        continue;
      struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
      uint64_t incarnation = (int32_t)rank == ep->rank ? ep->incarnation : link ? link->incarnation : 0;
      if (incarnation != 0)
        view->members[at++] = (struct group_member){.rank = (int32_t)rank, .incarnation = incarnation};
    }
  view->count = at;
  return view;
}

// Whether nobody else runs operations, and this rank none yet: it has founded the group alone, or all others have gone.
static bool is_alone(const weft_ep_t *ep, const struct group_view *view) {
  return view && view->count == 1 && group_view_has(view, ep->rank, ep->incarnation);
}

// The newest view may be a later one already, but operation 0 runs in the first view.
static const struct group_view *first_view(weft_ep_t *ep) {
  const struct group_view *newest = group_view(ep->group), *known = newest;
  if (newest && newest->epoch == 1)
    group_view_ref(newest);
  else
    known = ep_views_find(ep, 1);
  const struct group_view *first = NULL;
  if (known && known->epoch == 1 && group_view_has(known, ep->rank, ep->incarnation)) // not a view of an earlier group
    first = known;
  else if (is_alone(ep, newest))
    first = newest;
  group_view_ref(first);
  group_view_unref(newest);
  group_view_unref(known);
  return first ? first : view_of_links(ep);
}

// Waits until the group's thread has delivered the newest view and those before it. Does not wait on the doorbell,
// since on CUDA memory the owner drives no network.
static int await_news(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct timespec nap = {.tv_nsec = NEWS_NS};
  const struct group_view *newest = group_view(ep->group), *known;
  int rc = 0;
  while (!(known = ep_views_find(ep, newest->epoch)) && rc == 0) {
    if (ep_interrupted(ep))
      rc = ep_canceled("the view that has this rank");
    else if (clock_passed(deadline_ns))
      rc = fail(WEFT_ERR_TIMEOUT, "the view with this rank did not arrive from the store by the deadline");
    else
      nanosleep(&nap, NULL);
  }
  group_view_unref(newest);
  group_view_unref(known);
  return rc;
}

static int found(weft_ep_t *ep, uint64_t deadline_ns) {
  int rc = 0;
  if (ep->num_founders > 0)
    rc = group_wait_founders(ep->group, ep->founders, ep->num_founders, deadline_ns);
  for (uint32_t i = 0; rc == 0 && i < ep->num_founders; i++)
    if (ep->founders[i] != ep->rank)
      rc = ep_connect_founder(ep, ep->founders[i], deadline_ns);
  if (rc == 0)
    rc = group_found(ep->group, deadline_ns);
  if (rc == 0)
    rc = await_news(ep, deadline_ns);
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

// Calls those of `peers` that have no link yet. NOT_FOUND: one of them is gone, so the view, or its offer, will go too.
// UNREACHABLE: one of them may be gone. Before each call it frees links that their callers have given up: these callers
// will call again, and no operation ends that would free the links.
static int connect_peers(weft_ep_t *ep, const struct group_member *peers, uint32_t count, uint64_t deadline_ns) {
  for (uint32_t i = 0; i < count; i++) {
    struct group_peer peer;
    int rc = group_find(ep->group, peers[i].rank, &peer);
    if (rc == 0 && peer.incarnation != peers[i].incarnation)
      rc = WEFT_ERR_NOT_FOUND;
    ep->engine->sweep(ep);
    if (rc == 0)
      rc = ep_dial(ep, peers[i].rank, peer.incarnation, peer.address, deadline_ns);
    if (rc == WEFT_ERR_PEER_LOST)
      return fail_context(WEFT_ERR_NOT_FOUND, "rank %d of the view, or one that joins too", peers[i].rank);
    if (rc == WEFT_ERR_NOT_FOUND)
      return fail(WEFT_ERR_NOT_FOUND, "rank %d, which is in the view or joins too, is gone", peers[i].rank);
    if (rc == WEFT_ERR_UNREACHABLE)
      return fail_context(rc, "a rank of the view");
    if (rc != 0)
      return rc;
  }
  return 0;
}

static bool is_linked(weft_ep_t *ep, const struct group_member *peers, uint32_t count) {
  bool all = true;
  ep->engine->hold_links(ep);
  for (uint32_t i = 0; i < count && all; i++)
    all = ep_link_settled(ep, peers[i].rank, peers[i].incarnation) != NULL;
  ep->engine->unhold_links(ep);
  return all;
}

// Connects to the members of the view while the announcement is being sent. A member that is gone is left for later.
static int connect_members(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view = group_view(ep->group);
  int rc = 0;
  for (uint32_t i = 0; view && i < view->count && rc == 0; i++)
    if (view->members[i].rank != ep->rank) {
      rc = connect_peers(ep, &view->members[i], 1, deadline_ns);
      rc = rc == WEFT_ERR_NOT_FOUND || rc == WEFT_ERR_UNREACHABLE ? 0 : rc;
    }
  group_view_unref(view);
  return rc;
}

// NOT_FOUND: this rank is in no view, and no member of a view lives. A joiner would wait for operations of others.
static int check_alive(weft_ep_t *ep) {
  return group_lives(ep->group) ? 0 : fail(WEFT_ERR_NOT_FOUND, "the group has no view to join");
}

// Connects to every member of the view, and to all ranks that announced themselves before. `*view`: a reference to that
// view. NOT_FOUND, if the rank `may_found`: see check_alive().
static int make_links(weft_ep_t *ep, struct group_member *peers, bool may_found, uint64_t deadline_ns,
                      const struct group_view **view) {
  for (uint32_t moment_ms = 0;;) {
    uint32_t count;
    int rc = may_found ? check_alive(ep) : 0;
    if (rc == 0)
      rc = group_offer_peers(ep->group, deadline_ns, peers, &count, view);
    if (rc != 0)
      return rc;
    if (is_linked(ep, peers, count))
      return 0;
    group_view_unref(*view);
    rc = connect_peers(ep, peers, count, deadline_ns);
    bool unreachable = rc == WEFT_ERR_UNREACHABLE, stale = unreachable || rc == WEFT_ERR_NOT_FOUND;
    if (rc != 0 && !stale)
      return rc;
    if (stale && clock_passed(deadline_ns))
      return fail_context(WEFT_ERR_TIMEOUT, "this rank could not connect to all ranks by the deadline");
    if (stale)
      rc = unreachable ? ep_wait_for_way(ep, deadline_ns, &moment_ms) : ep_wait_a_little(ep, deadline_ns);
    if (rc != 0)
      return rc;
  }
}

// Announces this rank and makes its links.
static int offer_links(weft_ep_t *ep, bool may_found, uint64_t deadline_ns, const struct group_view **view) {
  struct group_member *peers = malloc(ep->capacity * sizeof *peers);
  if (!peers)
    return fail(WEFT_ERR_NOMEM, "no memory for %u ranks", ep->capacity);
  group_offer_begin(ep->group);
  int rc = connect_members(ep, deadline_ns);
  if (rc == 0)
    rc = make_links(ep, peers, may_found, deadline_ns, view);
  free(peers);
  if (rc == 0)
    ep->engine->wake_links(ep);
  return rc;
}

// Proposes the newest view with this rank until one is agreed on. NOT_FOUND: see check_alive().
static int join(weft_ep_t *ep, uint64_t deadline_ns) {
  for (;;) {
    const struct group_view *view;
    int rc = offer_links(ep, true, deadline_ns, &view);
    if (rc != 0)
      return rc;
    bool member = group_view_has(view, ep->rank, ep->incarnation);
    rc = member ? 0 : check_alive(ep);
    if (rc == 0 && !member)
      rc = group_join(ep->group, view, deadline_ns);
    if (rc == 0)
      ep->engine->joined(ep, member ? 0 : view->epoch);
    group_view_unref(view);
    if (rc != WEFT_ERR_CONFLICT)
      return rc;
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "this rank could not join by the deadline: the view changed each time");
  }
}

static int propose(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view = group_view(ep->group);
  bool founded = view != NULL, member = group_view_has(view, ep->rank, ep->incarnation);
  group_view_unref(view);
  if (!founded)
    return fail(WEFT_ERR_NOT_FOUND, "the group has no view to join");
  if (member) {
    ep->engine->joined(ep, 0);
    return 0;
  }
  int rc = join(ep, deadline_ns);
  if (rc != 0)
    group_offer_end(ep->group);
  return rc;
}

// Waits for the view of a group that exists, although the store may have lost the view for the moment.
static int await_group(weft_ep_t *ep, uint64_t deadline_ns) {
  bool lives = false;
  int rc = 0;
  while (rc == 0 && !(lives = group_lives(ep->group)) && !clock_passed(deadline_ns))
    rc = ep_wait_a_little(ep, deadline_ns);
  if (rc != 0)
    return rc;
  return lives ? WEFT_ERR_NOT_FOUND
               : fail(WEFT_ERR_TIMEOUT, "the store had no view of the group with a live member by the deadline");
}

static int begin_with_others(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view;
  uint64_t op;
  int rc = ep->engine->await_start(ep, deadline_ns, &op, &view);
  if (rc == 0)
    ep_start(ep, op, view);
  return rc;
}

// Founds the group, or joins the one that lives. NOT_FOUND: the last member died meanwhile. A founder that has
// returned, and that the group has added since it asked, is a joiner: operations are running.
static int found_or_join(weft_ep_t *ep, uint64_t deadline_ns) {
  const struct group_view *view = group_view(ep->group);
  bool member = group_view_has(view, ep->rank, ep->incarnation), alone = is_alone(ep, view);
  group_view_unref(view);
  int rc = WEFT_ERR_NOT_FOUND;
  // Either the other founders were faster, or there is no group.
  if (member ? alone || (ep->num_founders > 0 && !ep->joins) : !group_lives(ep->group)) {
    ep->joins = false;
    rc = ep->join_only && !member ? await_group(ep, deadline_ns) : found(ep, deadline_ns);
  }
  if (rc == WEFT_ERR_NOT_FOUND) { // founded before
    ep->joins = true;
    rc = propose(ep, deadline_ns);
    if (rc == 0)
      rc = begin_with_others(ep, deadline_ns);
  }
  return rc;
}

int weft_ep_activate(weft_ep_t *ep, uint32_t timeout_ms) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "activate");
  if (ep->started) {
    int active = ep_check_active(ep);
    return active == 0 ? 0 : fail_context(active, "activate");
  }
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  int rc;
  do
    rc = found_or_join(ep, deadline_ns);
  while (rc == WEFT_ERR_NOT_FOUND && !clock_passed(deadline_ns));
  if (rc == WEFT_ERR_NOT_FOUND)
    rc = fail_context(WEFT_ERR_TIMEOUT, "the members of the view are gone");
  return rc == 0 ? 0 : fail_context(rc, "activate");
}

// --- one step each ---

int weft_ep_offer(weft_ep_t *ep, uint32_t timeout_ms) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "offer");
  if (ep->started)
    return fail(WEFT_ERR_EXISTS, "offer: rank %d has been active before: it is in the view, or was removed from it",
                ep->rank);
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  const struct group_view *view;
  int rc = group_wait_view(ep->group, 1, deadline_ns);
  if (rc == 0) {
    ep->joins = true;
    rc = offer_links(ep, false, deadline_ns, &view);
    if (rc == 0) {
      group_view_unref(view);
      rc = group_offer_ready(ep->group, deadline_ns);
    }
    if (rc != 0)
      group_offer_end(ep->group);
  }
  return rc == 0 ? 0 : fail_context(rc, "offer");
}

int weft_ep_withdraw(weft_ep_t *ep, int32_t rank, uint32_t timeout_ms) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "withdraw");
  int rc = group_withdraw(ep->group, rank, ep_deadline(timeout_ms));
  return rc == 0 ? 0 : fail_context(rc, "withdraw");
}

// Waits until this rank is in an agreed view.
static int await_taker(weft_ep_t *ep, uint64_t deadline_ns) {
  int rc = group_wait_taken(ep->group, deadline_ns);
  return rc == 0 ? await_news(ep, deadline_ns) : rc;
}

int weft_ep_await_start(weft_ep_t *ep, uint32_t timeout_ms, uint64_t *op) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "await_start");
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  int rc = 0;
  if (!ep->started) {
    rc = await_taker(ep, deadline_ns);
    if (rc == 0) {
      ep->engine->joined(ep, 0);
      ep->engine->wake_links(ep);
      rc = begin_with_others(ep, deadline_ns);
    }
  }
  if (rc != 0)
    return fail_context(rc, "await_start");
  if (op)
    *op = ep->first_op;
  return 0;
}
