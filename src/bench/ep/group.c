// The group of a measurement: one rank of it, the buffers of that rank, and the losses that it reports.
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/ep_limits.h"
#include "base/time/clock.h"
#include "bench/ep/rank.h"

enum { REASON_MS = 500, MAX_FOUNDERS = EP_MAX_CAPACITY, MARK_STOP = 1 };

static int open_store(struct bench_ep_rank *r) {
  return r->store.client ? 0 : bench_store_join(&r->store, &r->config->common, &r->board->place);
}

static int choose_gpu(struct bench_ep_rank *r, int32_t *gpu) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  int count = 0, err = device_load(&api);
  uint32_t here =
      r->point->ranks > (uint32_t)r->board->first_rank ? r->point->ranks - (uint32_t)r->board->first_rank : 0;
  here = here < r->config->local_ranks ? here : r->config->local_ranks;
  if (!err && (err = api->count(&count, why)) != 0)
    err = device_fail(err, "--memory cuda", why);
  if (!err && count == 0)
    err = fail(WEFT_ERR_UNSUPPORTED, "--memory cuda: there is no GPU");
  if (!err && (uint32_t)count < here && !r->config->share_gpus)
    err = fail(WEFT_ERR_UNSUPPORTED,
               "--memory cuda: there %s %d GPU%s for %u ranks of this host: each needs one of its own, unless "
               "--share-gpus lets several ranks use one",
               count == 1 ? "is" : "are", count, count == 1 ? "" : "s", here);
  if (!err)
    *gpu = (int32_t)(r->index % (uint32_t)count);
  return err;
}

static int open_home(struct bench_ep_rank *r) {
  struct device_info info = {0};
  char why[DEVICE_WHY] = "";
  r->gpu = -1;
  int err = r->point->memory == WEFT_EP_MEMORY_CUDA ? choose_gpu(r, &r->gpu) : 0;
  if (!err)
    err = buffer_home_open(&r->home, r->gpu);
  if (err || r->gpu < 0)
    return err;
  if ((err = r->home.api->describe(r->gpu, &info, why)) != 0)
    return device_fail(err, "cannot describe the GPU", why);
  snprintf(r->result.gpu, sizeof r->result.gpu, "GPU %d, %.80s", r->gpu, info.name);
  r->result.gpu_index = (uint32_t)r->gpu;
  memcpy(r->result.gpu_id, info.uuid, sizeof r->result.gpu_id);
  return 0;
}

// Whether ranks of the group may reach each other by another way than the memory of this host.
static bool is_spread(const struct bench_ep_rank *r) {
  return r->board->others || r->config->as_hosts > 1 || r->config->transport;
}

static enum weft_ep_mode mode_of(const struct bench_ep_config *config) {
  return config->mode == BENCH_EP_THROUGHPUT ? WEFT_EP_THROUGHPUT : WEFT_EP_LATENCY;
}

static int open_ep(struct bench_ep_rank *r, uint32_t sequence, uint64_t deadline_ns) {
  static int32_t founders[MAX_FOUNDERS];
  char prefix[sizeof r->board->prefix + 32], host[32];
  const struct bench_ep_point *point = r->point;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  for (uint32_t i = 0; i < point->ranks; i++)
    founders[i] = (int32_t)i;
  snprintf(prefix, sizeof prefix, "%sep/%u/", r->board->prefix, sequence);
  options.store = r->store.client;
  options.prefix = prefix;
  options.rank = r->rank;
  options.capacity = point->ranks;
  options.founders = founders;
  options.num_founders = point->ranks;
  options.max_tokens = point->tokens;
  options.hidden = point->hidden;
  options.topk = point->topk;
  options.experts_per_rank = point->experts;
  options.dtype = point->dtype;
  options.combine_dtype = point->combine_dtype;
  options.op_timeout_ms = r->config->common.timeout_ms;
  options.mode = mode_of(r->config);
  options.window_bytes = r->config->window_bytes;
  options.memory = point->memory;
  options.device = r->gpu;
  options.transport = is_spread(r) ? r->config->transport : "none";
  if (r->config->as_hosts > 1) {
    snprintf(host, sizeof host, "bench-%u", (uint32_t)r->rank % r->config->as_hosts);
    options.host_id = host;
  }
  int err = weft_ep_open(&r->ep, &options, (uint32_t)clock_left_ms(deadline_ns));
  return err ? run_ep_open_failed(err)
             : traffic_open(&r->traffic, r->ep, &r->sizes, &r->home, point->ranks, point->ranks);
}

static int open_route(struct bench_ep_rank *r) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  const struct bench_ep_point *point = r->point;
  options.max_tokens = point->tokens;
  options.max_rows = point->tokens * point->ranks;
  options.topk = point->topk;
  options.alignment = point->layout == WEFT_EP_PACKED ? r->config->alignment : 0;
  int err = point->route == BENCH_EP_KEPT ? weft_ep_route_create(r->ep, &options, &r->kept) : 0;
  return err ? fail_context(err, "--route kept") : 0;
}

static int prepare(struct bench_ep_rank *r) {
  struct traffic *t = r->traffic;
  const struct bench_ep_point *point = r->point;
  size_t selections = (size_t)point->tokens * point->topk;
  int err = bench_ep_routing_open(&r->routing, point, r->config->seed);
  if (err)
    return err;
  bench_ep_routing_fill(r->routing, r->rank, t->input.topk, t->input.weights);
  t->input.num_tokens = point->tokens;
  t->input.x = t->pool.host + (size_t)point->tokens * point->hidden; // the rows of the pool, behind the constant ones
  t->x = t->pool.place + (size_t)point->tokens * point->hidden;
  err = buffer_put(&r->home, t->topk, t->input.topk, selections * sizeof *t->topk);
  if (!err)
    err = buffer_put(&r->home, t->weights, t->input.weights, selections * sizeof *t->weights);
  r->dispatch = (struct weft_ep_dispatch_args){.size = sizeof r->dispatch,
                                               .x = t->x,
                                               .num_tokens = point->tokens,
                                               .topk_idx = t->topk,
                                               .topk_weights = t->weights,
                                               .route = r->kept,
                                               .processors = point->processors,
                                               .stream = r->home.stream};
  r->combine = (struct weft_ep_combine_args){.size = sizeof r->combine,
                                             .y = t->pairs[PAIR_Y].place,
                                             .out = t->pairs[PAIR_OUT].place,
                                             .processors = point->processors,
                                             .stream = r->home.stream};
  return err;
}

int bench_ep_group_open(struct bench_ep_rank *r, uint32_t sequence) {
  uint64_t deadline_ns = clock_deadline_ms((uint64_t)r->config->common.startup_timeout_s * 1000);
  const struct bench_ep_point *point = r->point;
  r->sizes = (struct run_config){.num_tokens = point->tokens,
                                 .experts_per_rank = point->experts,
                                 .hidden = point->hidden,
                                 .topk = point->topk,
                                 .dtype = point->dtype,
                                 .combine_dtype = point->combine_dtype,
                                 .layout = point->layout,
                                 .mode = mode_of(r->config),
                                 .alignment = r->config->alignment,
                                 .memory = point->memory,
                                 .timeout_ms = r->config->common.timeout_ms,
                                 .seed = r->config->seed};
  int err = open_store(r);
  if (!err)
    err = open_home(r);
  if (!err)
    err = open_ep(r, sequence, deadline_ns);
  if (!err)
    err = open_route(r);
  if (!err)
    err = prepare(r);
  return err ? err : weft_ep_activate(r->ep, (uint32_t)clock_left_ms(deadline_ns));
}

void bench_ep_group_close(struct bench_ep_rank *r) {
  bench_ep_routing_close(r->routing);
  weft_ep_route_free(r->kept);
  traffic_close(r->traffic);
  weft_ep_close(r->ep);
  buffer_home_close(&r->home);
  r->routing = NULL;
  r->traffic = NULL;
  r->kept = NULL;
  r->ep = NULL;
}

// --- losses ---

// Takes all queued events of the library. Writes into `how` how rank `lost` was found lost, and notes the way to other
// hosts.
static void take_events(struct bench_ep_rank *r, int32_t lost, char *how, size_t cap) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(r->ep, &event) == 1) {
    if (event.kind == WEFT_EP_EVENT_CONNECTED && event.detail[0])
      snprintf(r->result.way, sizeof r->result.way, "%s", event.detail);
    if (event.kind == WEFT_EP_EVENT_PEER_LOST && event.rank == lost)
      snprintf(how, cap, ": %s", event.detail);
  }
}

// Waits until an event is queued; false if the deadline passes first.
static bool await_event(struct bench_ep_rank *r, uint64_t deadline_ns) {
  struct pollfd ready = {.events = POLLIN};
  return weft_ep_fd(r->ep, &ready.fd) == 0 && poll(&ready, 1, clock_left_ms(deadline_ns)) > 0;
}

int bench_ep_group_whole(struct bench_ep_rank *r) {
  const struct traffic *t = r->traffic;
  char how[WEFT_EP_DETAIL_SIZE + 2] = "";
  uint64_t deadline_ns = clock_deadline_ms(REASON_MS);
  int32_t lost = t->info.num_lost ? t->lost[0] : -1;
  take_events(r, lost, how, sizeof how);
  if (!t->info.num_lost && !t->result.num_lost && !t->result.num_missing)
    return 0;
  if (lost < 0 && t->result.num_missing)
    lost = (int32_t)(t->missing[0].expert / r->point->experts);
  while (lost >= 0 && !*how && await_event(r, deadline_ns))
    take_events(r, lost, how, sizeof how);
  if (lost < 0)
    return fail(WEFT_ERR_PEER_LOST, "a rank was lost in the combine of operation %llu", (unsigned long long)t->info.op);
  return fail(WEFT_ERR_PEER_LOST, "rank %d was lost in operation %llu%s", lost, (unsigned long long)t->info.op, how);
}

// --- the end of a loop ---

// All ranks read the same mark, the lowest of all, so that all end with the same operation.
bool bench_ep_progress(struct bench_ep_rank *r, uint32_t iteration, uint64_t mark) {
  uint32_t done = iteration + 1, warmup = r->config->warmup;
  r->result.count = done > warmup ? done - warmup : 0;
  atomic_store_explicit(&r->board->rank[r->index].done, done, memory_order_relaxed);
  if (atomic_load_explicit(&r->board->stop, memory_order_relaxed))
    weft_ep_set_mark(r->ep, MARK_STOP);
  return done >= warmup + r->config->iterations || mark >= MARK_STOP;
}
