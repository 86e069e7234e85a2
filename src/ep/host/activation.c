// When a view takes effect on host memory: from the decisions of core/activation.c to the view of the next operation,
// and to joiners, to which their first operation is published.
#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/host.h"
#include "ep/view/awaiting.h"
#include "ep/view/views.h"
#include "group/view.h"

// The view of the next operation, as far as it is decided.
void ep_host_follow(weft_ep_t *ep) {
  uint64_t newest = ep->activation.op + 1;
  uint64_t epoch = ep_activation_epoch(&ep->activation, ep->next_op < newest ? ep->next_op : newest);
  if (epoch <= ep->view->epoch)
    return;
  // The view is known here, since this rank announced that it was ready for it or for a newer one.
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

// Some of them may be joiners that were notified by a rank that died before it had notified all of them.
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
    // If the decided view never arrived here, a newer one takes its place. It takes effect with `op` if it has this
    // rank, since this rank then runs in it; without this rank it does not take effect yet.
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

// Reads whether the peers await their first operation too, and their stages.
static void read_awaiting(weft_ep_t *ep) {
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    const struct ep_area_head *area = link ? ep_link_in(link) : NULL;
    if (area)
      link->awaits = atomic_load_explicit(&area->start.op_plus_1, memory_order_acquire) == EP_START_AWAITED
                         ? atomic_load_explicit(&area->start.epoch, memory_order_relaxed)
                         : 0;
  }
}

static void publish_awaiting(weft_ep_t *ep, uint64_t word) {
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    uint64_t before = link ? published(link) : EP_START_RUNS;
    bool other = before == EP_START_AWAITED &&
                 atomic_load_explicit(&ep_link_out(link)->start.epoch, memory_order_relaxed) != word;
    if (before == 0 || other)
      publish(link, EP_START_AWAITED, word);
  }
}

// Finds the operation that running ranks have fixed as this rank's first, from the window of any accepted peer. If they
// differ, because a rank died while they fixed it, the earliest is valid: ranks that begin later adopt it
// (docs/design/membership.md). Between the two reads a peer may publish another start, of an earlier operation in
// another view. This does no harm: each view that a peer publishes has this rank, and of two views for one operation
// the newer one wins.
static bool find_start(weft_ep_t *ep, uint64_t *op, uint64_t *epoch) {
  uint64_t first = UINT64_MAX;
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    uint64_t op_plus_1 = link ? atomic_load_explicit(&ep_link_in(link)->start.op_plus_1, memory_order_acquire) : 0;
    if (op_plus_1 == 0 || op_plus_1 >= EP_START_RUNS || op_plus_1 > first || !ep_awaiting_takes(ep, link))
      continue;
    first = op_plus_1;
    *op = op_plus_1 - 1;
    *epoch = atomic_load_explicit(&ep_link_in(link)->start.epoch, memory_order_relaxed);
  }
  return first != UINT64_MAX;
}

// Writes this rank's word to the peers. Returns the view in which it begins by itself, or NULL.
static const struct group_view *stand(weft_ep_t *ep) {
  const struct group_view *begins;
  read_awaiting(ep);
  uint64_t word = ep_awaiting_stand(ep, &begins);
  if (!begins)
    publish_awaiting(ep, word);
  return begins;
}

int ep_host_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *first, const struct group_view **out) {
  struct ep_pause pause = {0};
  uint64_t op = 0, epoch = 0, ready = atomic_load(&ep->ready);
  bool found = false, interrupted = false;
  const struct group_view *deserted = NULL;
  while (!(found = find_start(ep, &op, &epoch)) && !atomic_load(&ep->fenced)) {
    ep->awaiting.looked = ready;
    if ((deserted = stand(ep)) || clock_passed(deadline_ns) || !ep_pause(ep, &pause, deadline_ns))
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
  if (found) // an earlier start may have been published before the one that was found: check all again
    find_start(ep, &op, &epoch);
  if (atomic_load(&ep->fenced))
    return fail(WEFT_ERR_FENCED, "rank %d was removed from the view before its first operation", ep->rank);
  if (interrupted)
    return ep_canceled("the first operation");
  if (!found)
    return ep_awaiting_timed_out(ep, 0);
  uint64_t own = ep_views_first_own(ep); // an earlier view may belong to a group that has died
  const struct group_view *view = ep_await_view(ep, own > epoch ? own : epoch, deadline_ns, &interrupted);
  if (!view && interrupted)
    return ep_canceled("the view of the first operation");
  if (!view)
    return ep_awaiting_timed_out(ep, epoch);
  *first = op;
  *out = view;
  return 0;
}
