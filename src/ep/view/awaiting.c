// The state of a rank that awaits its first operation, and whether it begins by itself.
#include "ep/view/awaiting.h"
#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "ep/link/link.h"
#include "group/view.h"

// The stage is in the lowest bits of a word, below the epoch.
enum stage {
  STAGE_AWAITS = 1,
  STAGE_CALLS,   // the lowest rank: it wants to begin, since all members await and nobody runs
  STAGE_ACCEPTS, // another rank: it has found no start, and from now on accepts a start only from the rank that calls
};
enum { STAGE_BITS = 2 };

static uint64_t word_of(uint64_t epoch, enum stage stage) {
  return epoch << STAGE_BITS | stage;
}

static uint64_t epoch_of(uint64_t word) {
  return word >> STAGE_BITS;
}

static bool awaits(const struct ep_link *link) {
  return link && link->awaits != 0;
}

bool ep_awaiting_takes(const weft_ep_t *ep, const struct ep_link *link) {
  const struct ep_awaiting *awaiting = &ep->awaiting;
  return awaiting->accepted == 0 || (awaiting->rank == link->rank && awaiting->incarnation == link->incarnation);
}

// Whether a peer outside of the view has run operations and is leaving: it may still fix this rank's first operation. A
// peer that was removed because it stands still looks the same.
static bool somebody_leaves(weft_ep_t *ep, const struct group_view *view) {
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    const struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    if (link && !awaits(link) && !group_view_has(view, (int32_t)rank, link->incarnation) &&
        ep_views_had(ep, (int32_t)rank, link->incarnation))
      return true;
  }
  return false;
}

// Whether all other members await their first operation, in that view or a newer one. With `accept`: whether they have
// also accepted that this rank begins in that view.
static bool all_await(weft_ep_t *ep, const struct group_view *view, bool accept) {
  for (uint32_t i = 0; i < view->count; i++) {
    const struct group_member *member = &view->members[i];
    if (member->rank == ep->rank)
      continue;
    const struct ep_link *link = ep_link_find(ep, member->rank, member->incarnation);
    if (!awaits(link) ||
        (accept ? link->awaits != word_of(view->epoch, STAGE_ACCEPTS) : epoch_of(link->awaits) < view->epoch))
      return false;
  }
  return true;
}

// Forgets the rank that was accepted if it has died, was removed, or awaits in a newer view: then it has not begun in
// the accepted view, or began alone.
static void drop_accepted(weft_ep_t *ep, const struct group_view *view) {
  struct ep_awaiting *awaiting = &ep->awaiting;
  const struct ep_link *link = ep_link_find(ep, awaiting->rank, awaiting->incarnation);
  if (!link || !group_view_has(view, awaiting->rank, awaiting->incarnation) ||
      (awaits(link) && epoch_of(link->awaits) > awaiting->accepted))
    awaiting->accepted = 0;
}

// Whether peers that leave have had op_timeout_ms, as in an operation, to fix the first operation.
static bool waited_for_leavers(weft_ep_t *ep, const struct group_view *view) {
  struct ep_awaiting *awaiting = &ep->awaiting;
  if (awaiting->asked != view->epoch) {
    awaiting->asked = view->epoch;
    awaiting->asked_ns = clock_ns();
  }
  return clock_ns() - awaiting->asked_ns > ep->op_timeout_ms * UINT64_C(1000000);
}

// The stage of this rank in the newest view that it is ready for. All members of a view may await their first
// operation, if all running ranks have gone before they had fixed one for a joiner. Then the lowest rank begins when
// the others have accepted that, so that none of them follows a start of a rank that has gone. *begins: this rank
// begins.
static enum stage stand(weft_ep_t *ep, const struct group_view *view, bool *begins) {
  struct ep_awaiting *awaiting = &ep->awaiting;
  const struct group_member *lowest = &view->members[0];
  if (awaiting->accepted != 0)
    drop_accepted(ep, view);
  if (lowest->rank != ep->rank && awaiting->accepted == 0) {
    const struct ep_link *link = ep_link_find(ep, lowest->rank, lowest->incarnation);
    if (link && link->awaits == word_of(view->epoch, STAGE_CALLS)) {
      awaiting->accepted = view->epoch;
      awaiting->rank = lowest->rank;
      awaiting->incarnation = lowest->incarnation;
    }
  }
  if (lowest->rank != ep->rank || awaiting->accepted != 0)
    return awaiting->accepted == view->epoch ? STAGE_ACCEPTS : STAGE_AWAITS;
  if (!all_await(ep, view, false) || (!waited_for_leavers(ep, view) && somebody_leaves(ep, view)))
    return STAGE_AWAITS;
  *begins = all_await(ep, view, true);
  return STAGE_CALLS;
}

uint64_t ep_awaiting_stand(weft_ep_t *ep, const struct group_view **begins) {
  uint64_t ready = ep->awaiting.looked;
  const struct group_view *view = ready > 0 ? ep_views_find(ep, ready) : NULL;
  bool own = view && view->epoch == ready && group_view_has(view, ep->rank, ep->incarnation), alone = false;
  enum stage stage = own ? stand(ep, view, &alone) : STAGE_AWAITS;
  *begins = alone ? view : NULL;
  if (!alone)
    group_view_unref(view);
  return word_of(ready, stage);
}

// Lists the members of the newest view that may fix this rank's first operation: those that do not await their own.
static void list_running(weft_ep_t *ep, struct text *ranks) {
  const struct group_view *view = group_view(ep->group);
  ep->engine->hold_links(ep);
  for (uint32_t i = 0; view && i < view->count; i++) {
    const struct group_member *member = &view->members[i];
    if (member->rank != ep->rank && !awaits(ep_link_find(ep, member->rank, member->incarnation)))
      text_add_rank(ranks, member->rank);
  }
  ep->engine->unhold_links(ep);
  group_view_unref(view);
}

int ep_awaiting_timed_out(weft_ep_t *ep, uint64_t epoch) {
  if (epoch != 0)
    return fail(WEFT_ERR_TIMEOUT,
                "view %llu, in which this rank has to run, did not arrive from the store by the deadline",
                (unsigned long long)epoch);
  struct text running = {0};
  list_running(ep, &running);
  int rc = fail(WEFT_ERR_TIMEOUT,
                "the ranks agreed on the view with rank %d, but no active rank published its first operation by the "
                "deadline: they publish it when they run operations; active: %s",
                ep->rank, running.data ? running.data : "none");
  text_free(&running);
  return rc;
}
