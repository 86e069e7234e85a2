// The agreed views that a rank keeps, oldest first.
#include "ep/core/engine.h"
#include "group/view.h"

void ep_views_add(weft_ep_t *ep, const struct group_view *view) {
  pthread_mutex_lock(&ep->lock);
  if (ep->num_views > 0 && ep->views[ep->num_views - 1]->epoch >= view->epoch)
    ep_views_free(ep);
  if (ep->num_views == EP_VIEWS) {
    group_view_unref(ep->views[0]);
    for (uint32_t i = 1; i < EP_VIEWS; i++)
      ep->views[i - 1] = ep->views[i];
    ep->num_views--;
  }
  ep->views[ep->num_views++] = group_view_ref(view);
  pthread_mutex_unlock(&ep->lock);
}

const struct group_view *ep_views_find(weft_ep_t *ep, uint64_t epoch) {
  const struct group_view *found = NULL;
  pthread_mutex_lock(&ep->lock);
  for (uint32_t i = 0; i < ep->num_views && !found; i++)
    if (ep->views[i]->epoch >= epoch)
      found = group_view_ref(ep->views[i]);
  pthread_mutex_unlock(&ep->lock);
  return found;
}

uint64_t ep_views_first_own(weft_ep_t *ep) {
  uint64_t epoch = 1;
  pthread_mutex_lock(&ep->lock);
  for (uint32_t i = 0; i < ep->num_views; i++) {
    epoch = ep->views[i]->epoch;
    if (group_view_has(ep->views[i], ep->rank, ep->incarnation))
      break;
    epoch++; // it has not been delivered yet
  }
  pthread_mutex_unlock(&ep->lock);
  return epoch;
}

bool ep_views_has(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  pthread_mutex_lock(&ep->lock);
  bool has = ep->num_views > 0 && group_view_has(ep->views[ep->num_views - 1], rank, incarnation);
  pthread_mutex_unlock(&ep->lock);
  return has;
}

bool ep_views_had(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  bool had = false;
  pthread_mutex_lock(&ep->lock);
  for (uint32_t i = 0; i < ep->num_views && !had; i++)
    had = group_view_has(ep->views[i], rank, incarnation);
  pthread_mutex_unlock(&ep->lock);
  return had;
}

void ep_views_free(weft_ep_t *ep) {
  for (uint32_t i = 0; i < ep->num_views; i++)
    group_view_unref(ep->views[i]);
  ep->num_views = 0;
}
