// What a rank knows of its group, and its counters.
#include "base/fail.h"
#include "ep/core/engine.h"
#include "group/view.h"

enum weft_ep_memory weft_ep_memory(const weft_ep_t *ep, int32_t *device) {
  if (device)
    *device = ep->device;
  return ep->engine->memory;
}

int32_t weft_ep_rank(const weft_ep_t *ep) {
  return ep->rank;
}

uint64_t weft_ep_incarnation(const weft_ep_t *ep) {
  return ep->incarnation;
}

uint64_t weft_ep_next_op(const weft_ep_t *ep) {
  return ep->engine->next_op(ep);
}

// On CUDA memory the kernels decide, and the owner learns of it when it asks.
static void follow(const weft_ep_t *ep) {
  if (ep->started)
    ep->engine->refresh((weft_ep_t *)ep);
}

bool weft_ep_is_active(const weft_ep_t *ep) {
  follow(ep);
  return ep->started && group_view_has(ep->view, ep->rank, ep->incarnation);
}

void weft_ep_set_mark(weft_ep_t *ep, uint64_t mark) {
  ep->mark = mark;
  ep->engine->set_mark(ep, mark);
}

static void copy_view(const struct group_view *view, uint64_t *epoch, int32_t *ranks, size_t cap, size_t *count) {
  if (epoch)
    *epoch = view ? view->epoch : 0;
  size_t total = view ? view->count : 0;
  for (size_t i = 0; i < total && i < cap; i++)
    ranks[i] = view->members[i].rank;
  if (count)
    *count = total;
}

int weft_ep_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, size_t cap, size_t *count) {
  if (!ep || (cap > 0 && !ranks))
    return fail(WEFT_ERR_INVALID, "weft_ep_view: %s is NULL", ep ? "ranks" : "ep");
  follow(ep);
  copy_view(ep->view, epoch, ranks, cap, count);
  return 0;
}

int weft_ep_committed_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, size_t cap, size_t *count) {
  if (!ep || (cap > 0 && !ranks))
    return fail(WEFT_ERR_INVALID, "weft_ep_committed_view: %s is NULL", ep ? "ranks" : "ep");
  const struct group_view *view = group_view(ep->group);
  copy_view(view, epoch, ranks, cap, count);
  group_view_unref(view);
  return 0;
}

int weft_ep_mask_query(const weft_ep_t *ep, enum weft_ep_rank_state *states) {
  if (!ep || !states)
    return fail(WEFT_ERR_INVALID, "weft_ep_mask_query: %s is NULL", ep ? "states" : "ep");
  weft_ep_t *inside = (weft_ep_t *)ep; // looks only
  follow(ep);
  ep->engine->hold_links(ep);
  for (uint32_t rank = 0; rank < ep->capacity; rank++)
    states[rank] = ep_link_find(inside, (int32_t)rank, 0) ? WEFT_EP_CONNECTED : WEFT_EP_ABSENT;
  for (uint32_t i = 0; ep->view && i < ep->view->count; i++) {
    const struct group_member *member = &ep->view->members[i];
    bool there = member->rank == ep->rank || ep_link_find(inside, member->rank, member->incarnation);
    states[member->rank] = !there ? WEFT_EP_LOST : ep->masked[member->rank] ? WEFT_EP_MASKED : WEFT_EP_ACTIVE;
  }
  ep->engine->unhold_links(ep);
  return 0;
}

int weft_ep_mask_update(weft_ep_t *ep, int32_t rank, bool masked) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "weft_ep_mask_update: ep is NULL");
  if (rank < 0 || (uint32_t)rank >= ep->capacity)
    return fail(WEFT_ERR_INVALID, "weft_ep_mask_update: rank %d is out of range; ranks are 0 to %u", rank,
                ep->capacity - 1);
  follow(ep);
  if (!ep->view || !group_view_find(ep->view, rank))
    return fail(WEFT_ERR_NOT_FOUND, "weft_ep_mask_update: rank %d is not active", rank);
  ep->engine->mask(ep, rank, masked);
  return 0;
}

int weft_ep_stats(const weft_ep_t *ep, struct weft_ep_stats *stats) {
  if (!ep || !stats || stats->size != sizeof *stats)
    return fail(WEFT_ERR_INVALID, "weft_ep_stats: initialise the result with WEFT_EP_STATS_INIT");
  *stats = ep->stats;
  stats->size = sizeof *stats;
  stats->connected = atomic_load(&ep->links.connected);
  stats->window_bytes = atomic_load(&ep->links.window_bytes) + ep->bell.size;
  stats->lost = atomic_load(&ep->lost);
  ep->engine->add_stats(ep, stats);
  return 0;
}

int weft_ep_peer_stats(const weft_ep_t *ep, int32_t rank, struct weft_ep_peer_stats *stats) {
  if (!ep || !stats || stats->size != sizeof *stats)
    return fail(WEFT_ERR_INVALID, "weft_ep_peer_stats: initialise the result with WEFT_EP_PEER_STATS_INIT");
  ep->engine->hold_links(ep);
  struct ep_link *link = rank >= 0 && (uint32_t)rank < ep->capacity ? ep_link_find((weft_ep_t *)ep, rank, 0) : NULL;
  if (link)
    *stats = (struct weft_ep_peer_stats){.size = sizeof *stats,
                                         .incarnation = link->incarnation,
                                         .sent_bytes = link->sent_bytes,
                                         .received_bytes = link->received_bytes,
                                         .window_bytes = link->in.size + link->device.in.size,
                                         .wait_ns = link->wait_ns};
  ep->engine->unhold_links(ep);
  return link ? 0 : fail(WEFT_ERR_NOT_FOUND, "weft_ep_peer_stats: rank %d is not connected", rank);
}
