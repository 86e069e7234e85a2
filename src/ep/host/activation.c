// When a view takes effect on host memory: from the decisions of core/activation.c to the view of the next operation,
// and to joiners, to which their first operation is published.
#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/host.h"
#include "ep/view/views.h"
#include "group/view.h"

// The view of the next operation, as far as it is decided.
void ep_host_follow(weft_ep_t *ep) {
  uint64_t newest = ep->activation.op + 1;
  uint64_t epoch = ep_activation_epoch(&ep->activation, ep->next_op < newest ? ep->next_op : newest);
  if (epoch <= ep->view->epoch)
    return;
  // Known here: this rank announced that it was ready for it, or for a newer one.
  const struct group_view *view = ep_views_find(ep, epoch);
  if (!view)
    return;
  group_view_unref(ep->view);
  ep->view = view;
  ep->stats.activations++;
  atomic_store(&ep->sweep, true);
}

static uint64_t published(const struct ep_link *link) {
  return atomic_load_explicit(&ep_link_out(link)->start.op_plus_1, memory_order_relaxed);
}

static void publish(struct ep_link *link, uint64_t op_plus_1, uint64_t epoch) {
  struct ep_area_head *area = ep_link_out(link);
  atomic_store_explicit(&area->start.epoch, epoch, memory_order_relaxed);
  atomic_store_explicit(&area->start.op_plus_1, op_plus_1, memory_order_release);
  link->path->publish_start(link, op_plus_1 - 1, epoch);
}

void ep_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch) {
  if (ep_activation_must_publish(published(link), op))
    publish(link, op + 1, epoch);
}

// Publishes to each rank that is in `next` but not in `now` that operation `op` is its first.
static void publish_to_joiners(weft_ep_t *ep, const struct group_view *now, const struct group_view *next,
                               uint64_t op) {
  for (uint32_t i = 0; i < next->count; i++) {
    const struct group_member *member = &next->members[i];
    if (group_view_has(now, member->rank, member->incarnation))
      continue;
    struct ep_link *link = ep_link_find(ep, member->rank, member->incarnation);
    if (link)
      ep_publish_start(link, op, next->epoch);
  }
}

// Among them are joiners that were notified by a rank that died before it had notified all.
void ep_host_started(weft_ep_t *ep, uint64_t op, const struct group_view *view) {
  publish_to_joiners(ep, NULL, view, op);
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    if (link && published(link) == EP_START_AWAITED)
      publish(link, EP_START_RUNS, view->epoch);
  }
}

void ep_activate_next(weft_ep_t *ep) {
  uint64_t op = ep->activation.op + EP_ACTIVATION_LEAD;
  uint64_t decided = ep_activation_close(&ep->activation);
  if (decided != 0) {
    const struct group_view *next = ep_views_find(ep, decided);
    // A newer one, in place of one that never came here, takes effect with `op` because this rank runs in it; without
    // this rank it does not yet.
    bool takes_effect = next && (next->epoch == decided || group_view_has(next, ep->rank, ep->incarnation));
    if (takes_effect) {
      publish_to_joiners(ep, ep->view, next, op);
      ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, decided, op, "");
    }
    group_view_unref(next);
  }
  ep_host_follow(ep);
}

// --- before the first operation ---

// Where the ranks of a view that await their first operation stand. The word that they write says it, with the epoch of
// the view (core/layout.h).
enum stage {
  STAGE_AWAITS,
  STAGE_CALLS,   // the lowest of them: it would begin, for all of them await, and nobody runs
  STAGE_ACCEPTS, // another: it has found no start, and takes none from now on but of the one that calls
};

struct awaiting {
  uint64_t accepted; // in that view this rank takes a start of `rank` alone; 0: of any
  uint64_t incarnation;
  int32_t rank;
  uint64_t asked; // in that view it would call since `asked_ns`
  uint64_t asked_ns;
};

static uint64_t awaited_word(uint64_t epoch, enum stage stage) {
  return epoch << EP_AWAITED_STAGE_BITS | stage;
}

static uint64_t awaited_epoch(uint64_t word) {
  return word >> EP_AWAITED_STAGE_BITS;
}

// Whether the peer awaits its first operation too, and how it stands.
static bool awaits(const struct ep_link *link, uint64_t *word) {
  const struct ep_area_head *area = link ? ep_link_in(link) : NULL;
  if (!area || atomic_load_explicit(&area->start.op_plus_1, memory_order_acquire) != EP_START_AWAITED)
    return false;
  *word = atomic_load_explicit(&area->start.epoch, memory_order_relaxed);
  return true;
}

static void publish_awaited(weft_ep_t *ep, uint64_t word) {
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    uint64_t before = link ? published(link) : EP_START_RUNS;
    bool other = before == EP_START_AWAITED &&
                 atomic_load_explicit(&ep_link_out(link)->start.epoch, memory_order_relaxed) != word;
    if (before == 0 || other)
      publish(link, EP_START_AWAITED, word);
  }
}

// The operation that running ranks have fixed as this rank's first, from the window of any peer that counts. Where they
// differ, because a rank died while they fixed it, the earliest stands: those who begin later adopt it
// (docs/design/membership.md). One peer may publish another start, of an earlier operation in another view, between the
// two reads: each view that a peer publishes has this rank, and of two that run one operation the newer wins.
static bool find_start(weft_ep_t *ep, const struct awaiting *awaiting, uint64_t *op, uint64_t *epoch) {
  uint64_t first = UINT64_MAX;
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    uint64_t op_plus_1 = link ? atomic_load_explicit(&ep_link_in(link)->start.op_plus_1, memory_order_acquire) : 0;
    if (op_plus_1 == 0 || op_plus_1 >= EP_START_RUNS || op_plus_1 > first)
      continue;
    if (awaiting->accepted != 0 && (awaiting->rank != (int32_t)rank || awaiting->incarnation != link->incarnation))
      continue;
    first = op_plus_1;
    *op = op_plus_1 - 1;
    *epoch = atomic_load_explicit(&ep_link_in(link)->start.epoch, memory_order_relaxed);
  }
  return first != UINT64_MAX;
}

// Whether some peer outside of the view has run operations, and may fix this rank's first yet: it leaves. One that was
// put out because it stands still looks alike.
static bool somebody_leaves(weft_ep_t *ep, const struct group_view *view) {
  uint64_t word;
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    const struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    if (link && !awaits(link, &word) && !group_view_has(view, (int32_t)rank, link->incarnation) &&
        ep_views_had(ep, (int32_t)rank, link->incarnation))
      return true;
  }
  return false;
}

// Whether all other members await their first operation, in that view or a newer one; `accept`: and have accepted that
// this rank begins in it.
static bool all_await(weft_ep_t *ep, const struct group_view *view, bool accept) {
  for (uint32_t i = 0; i < view->count; i++) {
    const struct group_member *member = &view->members[i];
    uint64_t word;
    if (member->rank == ep->rank)
      continue;
    if (!awaits(ep_link_find(ep, member->rank, member->incarnation), &word) ||
        (accept ? word != awaited_word(view->epoch, STAGE_ACCEPTS) : awaited_epoch(word) < view->epoch))
      return false;
  }
  return true;
}

// The one that called has died, was put out, or awaits in a newer view: it has not begun in that one, or alone.
static void drop_accepted(weft_ep_t *ep, const struct group_view *view, struct awaiting *awaiting) {
  const struct ep_link *link = ep_link_find(ep, awaiting->rank, awaiting->incarnation);
  uint64_t word;
  if (!link || !group_view_has(view, awaiting->rank, awaiting->incarnation) ||
      (awaits(link, &word) && awaited_epoch(word) > awaiting->accepted))
    awaiting->accepted = 0;
}

// As in an operation, a peer has op_timeout_ms.
static bool waited_for_leavers(const weft_ep_t *ep, const struct group_view *view, struct awaiting *awaiting) {
  if (awaiting->asked != view->epoch) {
    awaiting->asked = view->epoch;
    awaiting->asked_ns = clock_ns();
  }
  return clock_ns() - awaiting->asked_ns > ep->op_timeout_ms * UINT64_C(1000000);
}

// How this rank stands in the newest view that it is ready for. A view may have only ranks that await their first
// operation: those who ran operations have all gone before they had fixed one for a joiner. Then the lowest begins when
// the others have accepted that, so that none of them follows a start of one that has gone. *begins: it is this rank.
static enum stage stand(weft_ep_t *ep, const struct group_view *view, struct awaiting *awaiting, bool *begins) {
  const struct group_member *lowest = &view->members[0];
  uint64_t word;
  *begins = false;
  if (awaiting->accepted != 0)
    drop_accepted(ep, view, awaiting);
  if (lowest->rank != ep->rank && awaiting->accepted == 0 &&
      awaits(ep_link_find(ep, lowest->rank, lowest->incarnation), &word) &&
      word == awaited_word(view->epoch, STAGE_CALLS)) {
    awaiting->accepted = view->epoch;
    awaiting->rank = lowest->rank;
    awaiting->incarnation = lowest->incarnation;
  }
  if (lowest->rank != ep->rank || awaiting->accepted != 0)
    return awaiting->accepted == view->epoch ? STAGE_ACCEPTS : STAGE_AWAITS;
  if (!all_await(ep, view, false) || (!waited_for_leavers(ep, view, awaiting) && somebody_leaves(ep, view)))
    return STAGE_AWAITS;
  *begins = all_await(ep, view, true);
  return STAGE_CALLS;
}

// Publishes how this rank stands. The view in which it begins by itself, or NULL. `ready` was read before it was looked
// for a start: one that was published before the view was agreed on has been seen.
static const struct group_view *publish_stage(weft_ep_t *ep, uint64_t ready, struct awaiting *awaiting) {
  const struct group_view *view = ready > 0 ? ep_views_find(ep, ready) : NULL;
  bool begins = false, own = view && view->epoch == ready && group_view_has(view, ep->rank, ep->incarnation);
  enum stage stage = own ? stand(ep, view, awaiting, &begins) : STAGE_AWAITS;
  if (begins)
    return view;
  publish_awaited(ep, awaited_word(ready, stage));
  group_view_unref(view);
  return NULL;
}

int ep_host_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *first, const struct group_view **out) {
  struct ep_pause pause = {0};
  struct awaiting awaiting = {0};
  uint64_t op = 0, epoch = 0, ready = atomic_load(&ep->ready);
  bool found = false, interrupted = false;
  const struct group_view *deserted = NULL;
  while (!(found = find_start(ep, &awaiting, &op, &epoch)) && !atomic_load(&ep->fenced)) {
    if ((deserted = publish_stage(ep, ready, &awaiting)) || clock_passed(deadline_ns) ||
        !ep_pause(ep, &pause, deadline_ns))
      break;
    ready = atomic_load(&ep->ready);
  }
  interrupted = pause.interrupted;
  ep_pause_end(ep, &pause);
  if (deserted) {
    *first = 0;
    *out = deserted;
    return 0;
  }
  if (found) // an earlier start was published before the one that was found: look at all again
    find_start(ep, &awaiting, &op, &epoch);
  if (atomic_load(&ep->fenced))
    return fail(WEFT_ERR_FENCED, "rank %d was put out of the view before its first operation", ep->rank);
  if (interrupted)
    return ep_canceled("the first operation");
  if (!found)
    return fail(WEFT_ERR_TIMEOUT,
                "the view with rank %d is agreed on, but the active ranks have not published its first operation by "
                "the deadline: "
                "they do so when they run operations",
                ep->rank);
  uint64_t own = ep_views_first_own(ep); // one before it may be of a group that has died
  const struct group_view *view = ep_await_view(ep, own > epoch ? own : epoch, deadline_ns, &interrupted);
  if (!view && interrupted)
    return ep_canceled("the view of the first operation");
  if (!view)
    return fail(WEFT_ERR_TIMEOUT,
                "view %llu, which this rank is to run in, has not come from the store by the deadline",
                (unsigned long long)epoch);
  *first = op;
  *out = view;
  return 0;
}
