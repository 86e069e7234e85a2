// What the group has agreed on, as the engine needs it: the last views, and for which of them this rank has every link.
#include "ep/view/views.h"
#include "group/view.h"

enum linked { LINKED, NOT_LINKED, LINKING };

// LINKED: a link to that incarnation is or was there. LINKING: a handshake with it is under way, of which it may have
// seen the end already. Call with links.lock held: a link in the table is not freed then.
static enum linked linked(weft_ep_t *ep, const struct group_member *member) {
  const struct ep_links *links = &ep->links;
  struct ep_link *link = atomic_load(&links->by_rank[member->rank]);
  if (member->rank == ep->rank || (link && link->incarnation == member->incarnation))
    return LINKED;
  bool linking =
      links->dialling[member->rank] == member->incarnation || links->answering[member->rank] == member->incarnation;
  return linking ? LINKING : NOT_LINKED;
}

// A view without this rank asks nothing of it. If it did, a leaver that never learns of the first view without it would
// hold up all that follow, with joiners that it has no links to.
static enum linked linked_to_all(weft_ep_t *ep, const struct group_view *view) {
  enum linked all = LINKED;
  if (!group_view_has(view, ep->rank, ep->incarnation))
    return LINKED;
  for (uint32_t i = 0; i < view->count; i++) {
    enum linked one = linked(ep, &view->members[i]);
    if (one > all)
      all = one;
  }
  return all;
}

// The newest view for which this rank has every link; an earlier one with a rank that is gone is passed over. One with
// a joiner whose handshake ends just now is not: the other ranks may begin to run in it, and the joiner counts on all.
// One before the first with this rank is not its own, and may be of a group that has died.
void ep_views_update_ready(weft_ep_t *ep) {
  pthread_mutex_lock(&ep->lock);
  pthread_mutex_lock(&ep->links.lock);
  enum linked all = LINKED;
  bool own = atomic_load(&ep->ready) > 0;
  for (uint32_t i = 0; i < ep->num_views && all != LINKING; i++) {
    own = own || group_view_has(ep->views[i], ep->rank, ep->incarnation);
    if (!own || ep->views[i]->epoch <= atomic_load(&ep->ready))
      continue;
    all = linked_to_all(ep, ep->views[i]);
    if (all == LINKED)
      atomic_store(&ep->ready, ep->views[i]->epoch);
  }
  pthread_mutex_unlock(&ep->links.lock);
  pthread_mutex_unlock(&ep->lock);
  ep->engine->views_changed(ep);
}

void ep_views_event(void *arg, const struct group_event *event) {
  weft_ep_t *ep = arg;
  switch (event->kind) {
  case GROUP_EVENT_VIEW:
    ep_views_add(ep, event->view);
    ep_views_update_ready(ep);
    ep_links_report(ep, event->view);
    ep_emit(ep, WEFT_EP_EVENT_COMMITTED, -1, 0, event->view->epoch, 0, "");
    break;
  case GROUP_EVENT_FENCED:
    atomic_store(&ep->fenced, true);
    ep_emit(ep, WEFT_EP_EVENT_FENCED, ep->rank, ep->incarnation, event->view ? event->view->epoch : 0, 0, "");
    break;
  case GROUP_EVENT_STORE_LOST:
    ep_emit(ep, WEFT_EP_EVENT_STORE_LOST, -1, 0, 0, 0, "");
    break;
  case GROUP_EVENT_STORE_BACK:
    ep_emit(ep, WEFT_EP_EVENT_STORE_BACK, -1, 0, 0, 0, "");
    break;
  case GROUP_EVENT_GONE: // the group itself proposes the view without it
    break;
  }
  ep_doorbell_ring(ep_own_bell(ep));
}
