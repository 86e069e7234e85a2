// The engine on CUDA memory: its table of functions.
#include <string.h>

#include "ep/gpu/call/call.h"
#include "ep/gpu/remote/batches.h"

// The watcher may free links at any time; their proxies flush what they have still to send.
static void flush(weft_ep_t *ep) {
  (void)ep;
}

static int combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args) {
  return ep_gpu_combine(ep, number, args, DEVICE_SEND, NULL, "combine_send");
}

static int combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                        struct weft_ep_result *result) {
  return ep_gpu_combine(ep, number, args, DEVICE_RECV, result, "combine_recv");
}

static int combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                   struct weft_ep_result *result) {
  return ep_gpu_combine(ep, number, args, DEVICE_SEND | DEVICE_RECV, result, "combine");
}

static void describe(const weft_ep_t *ep, struct ep_device_card *card) {
  card->bytes = ep->gpu->area_bytes;
  memcpy(card->uuid, ep->gpu->uuid, sizeof card->uuid);
}

const struct ep_engine_ops ep_gpu_engine = {
    .memory = WEFT_EP_MEMORY_CUDA,
    .descriptors = EP_FD_ZERO_COPY,
    .has_fabric = true,
    .allocate = ep_gpu_allocate,
    .start = ep_gpu_start,
    .watch = ep_gpu_watch_start,
    .flush = flush,
    .unwatch = ep_gpu_watch_stop,
    .stop = ep_gpu_stop,
    .close = ep_gpu_close,
    .check_send = ep_gpu_check_send,
    .check_recv = ep_gpu_check_recv,
    .check_combine = ep_gpu_check_combine,
    .dispatch_send = ep_gpu_dispatch_send,
    .dispatch_recv = ep_gpu_dispatch_recv,
    .dispatch = ep_gpu_dispatch,
    .combine_rows = ep_gpu_combine_rows,
    .combine_send = combine_send,
    .combine_recv = combine_recv,
    .combine = combine,
    .finish = ep_gpu_finish,
    .barrier = ep_gpu_barrier,
    .await = ep_gpu_await,
    .route_create = ep_gpu_route_create,
    .route_free = ep_gpu_route_free,
    .route_plan = ep_gpu_route_plan,
    .route_get_arrays = ep_gpu_route_get_arrays,
    .route_await = ep_gpu_route_await,
    .combine_route = ep_gpu_combine_route,
    .next_op = ep_gpu_next_op,
    .set_mark = ep_gpu_set_mark,
    .mask = ep_gpu_mask,
    .mask_read = ep_gpu_mask_read,
    .add_stats = ep_gpu_add_stats,
    .follow = ep_gpu_follow,
    .refresh = ep_gpu_follow,
    .views_changed = ep_gpu_publish,
    .found = ep_gpu_found,
    .wake_links = ep_gpu_wake_links,
    .joined = ep_gpu_joined,
    .await_start = ep_gpu_await_start,
    .started = ep_gpu_started, // its kernels notify the joiners
    .link_open = ep_gpu_link_open,
    .link_map = ep_gpu_link_map,
    .link_map_fabric = ep_gpu_link_map_fabric,
    .link_free = ep_gpu_link_free,
    .link_down = ep_gpu_link_down,
    .hold_links = ep_gpu_hold_links,
    .unhold_links = ep_gpu_unhold_links,
    .sweep = ep_gpu_sweep,
    .unmap = ep_gpu_unmap,
    .describe = describe,
    .carrier = &ep_proxy_carrier,
    .owner_drives = false,
    .poll = ep_batches_poll,
    .nap_ns = ep_batches_nap_ns,
};
