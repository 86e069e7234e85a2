// The engine on host memory: its memory, and its table of functions.
#include <stdlib.h>

#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/remote/remote_link.h"
#include "group/view.h"

// --- opening and closing ---

// No peer reads host memory directly, so this memory is private to the process.
static int open_zero_copy(weft_ep_t *ep) {
  struct ep_window window;
  if (ep->zero_copy.bytes == 0)
    return 0;
  int rc = ep_window_private(&window, ep->zero_copy.bytes);
  if (rc != 0)
    return fail_context(rc, "zero_copy_bytes");
  ep->zero_copy.memory = window.memory;
  ep->zero_copy.size = window.size;
  return 0;
}

static int allocate(weft_ep_t *ep, const struct weft_ep_options *options) {
  struct ep_host *host = ep->host = calloc(1, sizeof *host);
  if (!host)
    return fail(WEFT_ERR_NOMEM, "no memory for a rank on host memory");
  host->heads = calloc(ep->layout.window_rows, ep->layout.head_stride);
  host->reduced = calloc(options->hidden, sizeof *host->reduced);
  if (ep_places_open(ep, &host->places) != 0 || !host->heads || !host->reduced)
    return fail(WEFT_ERR_NOMEM, "no memory for operations of %u tokens", options->max_tokens);
  host->no_row = calloc(1, ep->layout.row_stride);
  host->encoded = aligned_alloc(EP_LINE, ep->layout.combine_stride); // logfmt10 rows need no more room
  host->decoded = calloc((size_t)options->topk * options->hidden, sizeof *host->decoded);
  if (!host->no_row || !host->encoded || !host->decoded)
    return fail(WEFT_ERR_NOMEM, "no memory to encode rows of %u values", options->hidden);
  for (int i = 0; i < EP_DEPTH; i++) {
    int rc = ep_op_init(ep, &host->ops[i]);
    if (rc != 0)
      return rc;
  }
  return open_zero_copy(ep);
}

static void close_host(weft_ep_t *ep) {
  struct ep_host *host = ep->host;
  struct ep_window zero_copy = {.memory = ep->zero_copy.memory, .size = ep->zero_copy.size};
  if (!host)
    return;
  ep_window_release(&zero_copy);
  for (int i = 0; i < EP_DEPTH; i++)
    ep_op_free(&host->ops[i]);
  ep_places_close(&host->places);
  free(host->heads);
  free(host->reduced);
  free(host->encoded);
  free(host->decoded);
  free(host->no_row);
  free(host);
  ep->host = NULL;
}

// --- links ---

static int open_inbox(const struct ep_layout *layout, struct ep_inbox *inbox) {
  size_t rows = layout->max_tokens, selections = rows * layout->topk;
  inbox->count = calloc(rows, sizeof *inbox->count);
  inbox->places = calloc(rows, sizeof *inbox->places);
  inbox->index = calloc(selections, sizeof *inbox->index);
  inbox->weight = calloc(selections, sizeof *inbox->weight);
  return inbox->count && inbox->places && inbox->index && inbox->weight ? 0 : -1;
}

static int link_open(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd) {
  (void)route, (void)fd;
  for (int i = 0; i < EP_DEPTH; i++)
    if (open_inbox(&ep->layout, &link->inbox[i]) != 0)
      return fail(WEFT_ERR_NOMEM, "no memory for the rows of rank %d", link->rank);
  return 0;
}

static void link_free(weft_ep_t *ep, struct ep_link *link) {
  (void)ep;
  for (int i = 0; i < EP_DEPTH; i++) {
    free(link->inbox[i].count);
    free(link->inbox[i].places);
    free(link->inbox[i].index);
    free(link->inbox[i].weight);
  }
}

static void mask(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  ep->masked[rank] = incarnation;
}

static int mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream) {
  (void)stream;
  for (uint32_t rank = 0; rank < cap && rank < ep->capacity; rank++)
    masked[rank] = ep->masked[rank] != 0 && group_view_has(ep->view, (int32_t)rank, ep->masked[rank]);
  return 0;
}

static uint64_t next_op(const weft_ep_t *ep) {
  return ep->next_op;
}

// --- what there is nothing to do for: the owner's own calls decide and free everything ---

static int start(weft_ep_t *ep, const struct weft_ep_options *options) {
  (void)ep, (void)options;
  return 0;
}

static int watch(weft_ep_t *ep) {
  (void)ep;
  return 0;
}

static void nothing(weft_ep_t *ep) {
  (void)ep;
}

static void hold_nothing(const weft_ep_t *ep) {
  (void)ep;
}

static void set_mark(weft_ep_t *ep, uint64_t value) {
  (void)ep, (void)value;
}

static void add_stats(const weft_ep_t *ep, struct weft_ep_stats *stats) {
  (void)ep, (void)stats;
}

static int found(weft_ep_t *ep, const struct group_view *view) {
  (void)ep, (void)view;
  return 0;
}

static void joined(weft_ep_t *ep, uint64_t base) {
  (void)ep, (void)base;
}

static int link_map(weft_ep_t *ep, struct ep_link *link, const int *fds, const uint8_t uuid[16]) {
  (void)ep, (void)link, (void)fds, (void)uuid;
  return 0;
}

static int link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *fabric_name) {
  (void)fabric_name;
  return fail(WEFT_ERR_UNSUPPORTED, "rank %d runs on host memory, and NVLink does not connect it to rank %d", ep->rank,
              link->rank);
}

static void link_down(weft_ep_t *ep, struct ep_link *link) {
  (void)ep, (void)link;
}

static void describe(const weft_ep_t *ep, struct ep_device_card *card) {
  (void)ep;
  *card = (struct ep_device_card){0};
}

static uint64_t nap_ns(uint64_t last_ns) {
  (void)last_ns;
  return 0;
}

const struct ep_engine_ops ep_host_engine = {
    .memory = WEFT_EP_MEMORY_HOST,
    .descriptors = EP_FD_DEVICE,
    .has_fabric = false,
    .allocate = allocate,
    .start = start,
    .watch = watch,
    .flush = ep_remote_flush,
    .unwatch = nothing,
    .stop = nothing,
    .close = close_host,
    .check_send = ep_check_send,
    .check_recv = ep_check_recv,
    .check_combine = ep_check_combine,
    .dispatch_send = ep_host_dispatch_send,
    .dispatch_recv = ep_host_dispatch_recv,
    .dispatch = ep_host_dispatch,
    .combine_rows = ep_host_combine_rows,
    .combine_send = ep_host_combine_send,
    .combine_recv = ep_host_combine_recv,
    .combine = ep_host_combine,
    .finish = ep_host_finish,
    .barrier = ep_host_barrier,
    .await = ep_host_await,
    .route_create = ep_kept_create,
    .route_free = ep_kept_destroy,
    .route_plan = ep_kept_plan,
    .route_get_arrays = ep_kept_get_arrays,
    .route_await = ep_kept_await,
    .combine_route = ep_host_combine_route,
    .next_op = next_op,
    .set_mark = set_mark,
    .mask = mask,
    .mask_read = mask_read,
    .add_stats = add_stats,
    .follow = ep_host_follow,
    .refresh = nothing,
    .views_changed = nothing,
    .found = found,
    .wake_links = nothing,
    .joined = joined,
    .await_start = ep_host_await_start,
    .started = ep_host_started,
    .link_open = link_open,
    .link_map = link_map,
    .link_map_fabric = link_map_fabric,
    .link_free = link_free,
    .link_down = link_down,
    .hold_links = hold_nothing,
    .unhold_links = hold_nothing,
    .sweep = ep_host_sweep,
    .unmap = ep_host_unmap,
    .describe = describe,
    .carrier = &ep_put_carrier,
    .owner_drives = true,
    .poll = NULL,
    .nap_ns = nap_ns,
};
