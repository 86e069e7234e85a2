// The views that the group has agreed on, as the engine needs them: the last ones, and which of them this rank has all
// links for.
#include "ep/view/views.h"
#include "group/view.h"

enum link_progress { LINKED, NOT_LINKED, LINKING };

// LINKED: there is or was a link to that incarnation. LINKING: a handshake with it is in progress, and the peer may
// have completed it already. A link whose caller gave its call up was none. Call with links.lock held, so that no link
// in the table is freed.
static enum link_progress progress_of(weft_ep_t *ep, const struct group_member *member) {
  const struct ep_links *links = &ep->links;
  struct ep_link *link = atomic_load(&links->by_rank[member->rank]);
  if (member->rank == ep->rank ||
      (link && link->incarnation == member->incarnation && !atomic_load(&link->unconfirmed)))
    return LINKED;
  bool linking =
      links->dialling[member->rank] == member->incarnation || links->answering[member->rank] == member->incarnation;
  return linking ? LINKING : NOT_LINKED;
}

// A view without this rank needs no links of it. Otherwise a leaver that never receives the first view without it would
// delay all later views, which have joiners to which it has no links.
static enum link_progress progress_of_all(weft_ep_t *ep, const struct group_view *view) {
  enum link_progress all = LINKED;
  if (!group_view_has(view, ep->rank, ep->incarnation))
    return LINKED;
  for (uint32_t i = 0; i < view->count; i++) {
    enum link_progress one = progress_of(ep, &view->members[i]);
    if (one > all)
      all = one;
  }
  return all;
}

// `ready` is the newest view for which this rank has every link. An earlier view with a rank that is gone is skipped. A
// view with a joiner whose handshake is just ending is not skipped: the other ranks may begin to run in it, and the
// joiner relies on all of them. Views before the first one with this rank are not its own, and may belong to a group
// that has died.
void ep_views_update_ready(weft_ep_t *ep) {
  pthread_mutex_lock(&ep->lock);
  pthread_mutex_lock(&ep->links.lock);
  enum link_progress all = LINKED;
  bool own = atomic_load(&ep->ready) > 0;
  for (uint32_t i = 0; i < ep->num_views && all != LINKING; i++) {
    own = own || group_view_has(ep->views[i], ep->rank, ep->incarnation);
    if (!own || ep->views[i]->epoch <= atomic_load(&ep->ready))
      continue;
    all = progress_of_all(ep, ep->views[i]);
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
  case GROUP_EVENT_GONE: // the group itself proposes the view without that rank
    break;
  }
  ep_doorbell_ring(ep_own_bell(ep));
}
