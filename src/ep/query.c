// Queries of what a rank knows about its group, and of its counters.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/core/engine.h"
#include "group/view.h"

enum weft_ep_memory weft_ep_get_memory(const weft_ep_t *ep, int32_t *device) {
  if (device)
    *device = ep->device;
  return ep->engine->memory;
}

void *weft_ep_get_zero_copy_memory(const weft_ep_t *ep, uint64_t *bytes) {
  if (bytes)
    *bytes = ep->zero_copy.bytes;
  return ep->zero_copy.memory;
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

// On CUDA memory the kernels decide views, and the owner reads their decision when it queries.
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

static void copy_view(const struct group_view *view, uint64_t *epoch, int32_t *ranks, uint32_t cap, uint32_t *count) {
  if (epoch)
    *epoch = view ? view->epoch : 0;
  uint32_t total = view ? view->count : 0;
  for (uint32_t i = 0; i < total && i < cap; i++)
    ranks[i] = view->members[i].rank;
  if (count)
    *count = total;
}

int weft_ep_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap, uint32_t *count) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_view");
  if (cap > 0 && !ranks)
    return fail(WEFT_ERR_INVALID, "weft_ep_view: ranks is NULL");
  follow(ep);
  copy_view(ep->view, epoch, ranks, cap, count);
  return 0;
}

int weft_ep_committed_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap, uint32_t *count) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_committed_view");
  if (cap > 0 && !ranks)
    return fail(WEFT_ERR_INVALID, "weft_ep_committed_view: ranks is NULL");
  const struct group_view *view = group_view(ep->group);
  copy_view(view, epoch, ranks, cap, count);
  group_view_unref(view);
  return 0;
}

// State of one rank index. `member`: its entry in the view of the next operation; NULL: it is not in that view.
static enum weft_ep_rank_state state_of(weft_ep_t *ep, int32_t rank, const struct group_member *member) {
  if (!member)
    return ep_link_settled(ep, rank, 0) ? WEFT_EP_CONNECTED : WEFT_EP_ABSENT;
  if (rank != ep->rank && !ep_link_find(ep, rank, member->incarnation))
    return WEFT_EP_LOST;
  return ep->masked[rank] == member->incarnation ? WEFT_EP_MASKED : WEFT_EP_ACTIVE;
}

int weft_ep_states(const weft_ep_t *ep, enum weft_ep_rank_state *states, uint32_t cap, uint32_t *count) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_states");
  if (cap > 0 && !states)
    return fail(WEFT_ERR_INVALID, "weft_ep_states: states is NULL");
  weft_ep_t *inside = (weft_ep_t *)ep; // reads only
  follow(ep);
  ep->engine->hold_links(ep);
  for (uint32_t rank = 0; rank < ep->capacity && rank < cap; rank++)
    states[rank] = state_of(inside, (int32_t)rank, ep->view ? group_view_find(ep->view, (int32_t)rank) : NULL);
  ep->engine->unhold_links(ep);
  if (count)
    *count = ep->capacity;
  return 0;
}

int weft_ep_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_mask_read");
  if (cap > 0 && !masked)
    return fail(WEFT_ERR_INVALID, "weft_ep_mask_read: masked is NULL");
  return ep->engine->mask_read(ep, masked, cap, stream);
}

int weft_ep_mask_update(weft_ep_t *ep, int32_t rank, bool masked) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_mask_update");
  if (rank < 0 || (uint32_t)rank >= ep->capacity)
    return fail(WEFT_ERR_INVALID, "weft_ep_mask_update: rank %d is out of range; ranks are 0 to %u", rank,
                ep->capacity - 1);
  follow(ep);
  const struct group_member *member = ep->view ? group_view_find(ep->view, rank) : NULL;
  if (!member)
    return fail(WEFT_ERR_NOT_FOUND, "weft_ep_mask_update: rank %d is not active", rank);
  ep->engine->mask(ep, rank, masked ? member->incarnation : 0);
  return 0;
}

int weft_ep_get_limits(struct weft_ep_limits *limits) {
  int rc = sized_check_output(limits, SIZED_END(struct weft_ep_limits, max_combines), "weft_ep_limits");
  if (rc != 0)
    return rc;
  const struct weft_ep_limits filled = {.size = sizeof filled,
                                        .max_tokens = EP_MAX_TOKENS_THROUGHPUT,
                                        .max_hidden = EP_MAX_HIDDEN,
                                        .max_topk = EP_MAX_TOPK,
                                        .max_experts_per_rank = EP_MAX_EXPERTS,
                                        .max_capacity = EP_MAX_CAPACITY,
                                        .max_cuda_ranks = DEVICE_SEATS,
                                        .depth = EP_DEPTH,
                                        .max_combines = EP_MAX_COMBINES,
                                        .max_latency_tokens = EP_MAX_TOKENS,
                                        .min_processors = EP_MIN_PROCESSORS};
  sized_write(limits, &filled, sizeof filled);
  return 0;
}

int weft_ep_get_stats(const weft_ep_t *ep, struct weft_ep_stats *stats) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_get_stats");
  int rc = sized_check_output(stats, SIZED_END(struct weft_ep_stats, wait_ns), "weft_ep_stats");
  if (rc != 0)
    return rc;
  struct weft_ep_stats filled = ep->stats;
  filled.connected = atomic_load(&ep->links.connected);
  filled.window_bytes = atomic_load(&ep->links.window_bytes) + ep->bell.size;
  filled.lost = atomic_load(&ep->lost);
  ep->engine->add_stats(ep, &filled);
  sized_write(stats, &filled, sizeof filled);
  return 0;
}

int weft_ep_get_peer_stats(const weft_ep_t *ep, int32_t rank, struct weft_ep_peer_stats *stats) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_get_peer_stats");
  int rc = sized_check_output(stats, SIZED_END(struct weft_ep_peer_stats, wait_ns), "weft_ep_peer_stats");
  if (rc != 0)
    return rc;
  ep->engine->hold_links(ep);
  struct ep_link *link = rank >= 0 && (uint32_t)rank < ep->capacity ? ep_link_find((weft_ep_t *)ep, rank, 0) : NULL;
  struct weft_ep_peer_stats filled = WEFT_EP_PEER_STATS_INIT;
  if (link)
    filled = (struct weft_ep_peer_stats){.size = sizeof filled,
                                         .incarnation = link->incarnation,
                                         .sent_bytes = link->sent_bytes,
                                         .received_bytes = link->received_bytes,
                                         .window_bytes = link->in.size + link->device.in.size,
                                         .wait_ns = link->wait_ns};
  ep->engine->unhold_links(ep);
  if (!link)
    return fail(WEFT_ERR_NOT_FOUND, "weft_ep_get_peer_stats: rank %d is not connected", rank);
  sized_write(stats, &filled, sizeof filled);
  return 0;
}
