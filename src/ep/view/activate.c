// Makes this rank active: the view and the operation with which it begins, and whether it may run operations.
#include "base/fail.h"
#include "ep/view/views.h"
#include "group/view.h"

const struct group_view *ep_await_view(weft_ep_t *ep, uint64_t epoch, uint64_t deadline_ns, bool *interrupted) {
  struct ep_pause pause = {0};
  const struct group_view *view;
  while (!(view = ep_views_find(ep, epoch)))
    if (!ep_pause(ep, &pause, deadline_ns))
      break;
  *interrupted = pause.interrupted;
  ep_pause_end(ep, &pause);
  return view;
}

// A joiner has links to the ranks of the view that it joined. Ranks that are not in the view with which it begins run
// in an older view, and wait for the joiner until it frees its links to them, as it does for all ranks that it has
// included.
static void count_earlier(weft_ep_t *ep, const struct group_view *view) {
  pthread_mutex_lock(&ep->lock);
  for (uint32_t v = 0; v < ep->num_views && ep->views[v]->epoch < view->epoch; v++)
    for (uint32_t i = 0; i < ep->views[v]->count; i++) {
      const struct group_member *member = &ep->views[v]->members[i];
      struct ep_link *link = ep_link_find(ep, member->rank, member->incarnation);
      if (link)
        link->was_active = true;
    }
  pthread_mutex_unlock(&ep->lock);
  atomic_store(&ep->sweep, true);
}

void ep_start(weft_ep_t *ep, uint64_t op, const struct group_view *view) {
  ep_activation_init(&ep->activation, op, view->epoch, ep->operations_per_step);
  ep->next_op = ep->first_op = op;
  group_view_unref(ep->view);
  ep->view = view;
  ep->started = true;
  ep->engine->hold_links(ep);
  count_earlier(ep, view);
  ep->engine->started(ep, op, view);
  ep->engine->unhold_links(ep);
  ep->stats.activations++;
  ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, view->epoch, op, "");
}

static bool any_link_up(weft_ep_t *ep) {
  for (uint32_t i = 0; i < ep->view->count; i++)
    if (ep_link_find(ep, ep->view->members[i].rank, ep->view->members[i].incarnation))
      return true;
  return false;
}

int ep_check_active(weft_ep_t *ep) {
  if (!ep->started)
    return fail(WEFT_ERR_NOT_CONNECTED, "rank %d is not active: call weft_ep_activate first", ep->rank);
  ep->engine->follow(ep);
  if (!group_view_has(ep->view, ep->rank, ep->incarnation))
    return fail(WEFT_ERR_FENCED,
                ep->leaving ? "rank %d has left: view %llu does not contain it"
                            : "rank %d was removed: view %llu does not contain it; open it again to rejoin",
                ep->rank, (unsigned long long)ep->view->epoch);
  // A rank that others remove continues until the view takes effect; a rank that was considered dead finds its peers
  // gone.
  bool alone = false;
  if (atomic_load(&ep->fenced)) {
    ep->engine->hold_links(ep);
    alone = !any_link_up(ep);
    ep->engine->unhold_links(ep);
  }
  if (alone)
    return fail(WEFT_ERR_FENCED, "rank %d was considered dead and removed from the view; open it again to rejoin",
                ep->rank);
  return 0;
}
