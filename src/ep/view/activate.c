// Which view the operations run in: from the decisions of core/activation.c to views, joiners' notices and this rank's
// own state.
#include "base/fail.h"
#include "ep/gpu/gpu.h"
#include "ep/remote/remote_link.h"
#include "group/view.h"

const struct group_view *ep_await_view(weft_ep_t *ep, uint64_t epoch, uint64_t deadline_ns) {
  struct ep_pause pause = {0};
  const struct group_view *view;
  while (!(view = ep_views_find(ep, epoch)))
    if (!ep_pause(ep, &pause, deadline_ns))
      break;
  ep_pause_end(ep, &pause);
  return view;
}

// The view of the next operation, as far as it is decided.
static void follow(weft_ep_t *ep) {
  if (ep->gpu) {
    ep_gpu_follow(ep);
    return;
  }
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

void ep_tell_start(struct ep_link *link, uint64_t op, uint64_t epoch) {
  struct ep_area_head *area = ep_link_out(link);
  if (!ep_activation_tells(atomic_load_explicit(&area->start.op_plus_1, memory_order_relaxed), op))
    return;
  atomic_store_explicit(&area->start.epoch, epoch, memory_order_relaxed);
  atomic_store_explicit(&area->start.op_plus_1, op + 1, memory_order_release);
  if (link->remote)
    ep_remote_tell_start(link->remote, op, epoch);
  else
    ep_doorbell_ring(ep_link_bell(link));
}

// Tells each rank that is in `next` but not in `now` that operation `op` is its first.
static void tell_joiners(weft_ep_t *ep, const struct group_view *now, const struct group_view *next, uint64_t op) {
  for (uint32_t i = 0; i < next->count; i++) {
    const struct group_member *member = &next->members[i];
    if (group_view_has(now, member->rank, member->incarnation))
      continue;
    struct ep_link *link = ep_link_find(ep, member->rank, member->incarnation);
    if (link)
      ep_tell_start(link, op, next->epoch);
  }
}

// A joiner has links to the ranks of the view that it joined. Those that are not in the one that it begins with run in
// an older one, and wait for it until it lets go of them, as it does of all that it has counted.
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
  ep_activation_init(&ep->activation, op, view->epoch);
  ep->next_op = op;
  group_view_unref(ep->view);
  ep->view = view;
  ep->started = true;
  ep_hold_links(ep);
  count_earlier(ep, view);
  if (ep->gpu) // kernels tell the joiners
    ep_gpu_started(ep, op, view);
  else
    tell_joiners(ep, NULL, view, op); // those who were told by a rank that died before it told all
  ep_unhold_links(ep);
  ep->stats.activations++;
  ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, view->epoch, op, "");
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
      tell_joiners(ep, ep->view, next, op);
      ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, decided, op, "");
    }
    group_view_unref(next);
  }
  follow(ep);
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
  follow(ep);
  if (!group_view_has(ep->view, ep->rank, ep->incarnation))
    return fail(WEFT_ERR_FENCED,
                ep->leaving ? "rank %d has left: view %llu is without it"
                            : "rank %d was put out: view %llu is without it; open it again to rejoin",
                ep->rank, (unsigned long long)ep->view->epoch);
  // A rank that others remove goes on until the view takes effect; one that was taken for dead finds its peers gone.
  bool alone = false;
  if (atomic_load(&ep->fenced)) {
    ep_hold_links(ep);
    alone = !any_link_up(ep);
    ep_unhold_links(ep);
  }
  if (alone)
    return fail(WEFT_ERR_FENCED, "rank %d was taken for dead and put out of the view; open it again to rejoin",
                ep->rank);
  return 0;
}
