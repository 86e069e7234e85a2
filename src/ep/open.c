// Opening and closing a rank.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/trace.h"
#include "ep/core/args.h"
#include "ep/core/route.h"
#include "ep/gpu/gpu.h"
#include "ep/host/host.h"
#include "ep/remote/net/net.h"
#include "ep/service/service.h"
#include "ep/view/views.h"
#include "store/prefix.h"

static int check_range(const char *what, uint32_t value, uint32_t low, uint32_t high) {
  if (value >= low && value <= high)
    return 0;
  return fail(WEFT_ERR_INVALID, "%s is %u; it must be from %u to %u", what, value, low, high);
}

static int check_founders(const struct weft_ep_options *options) {
  if (options->num_founders > 0 && !options->founders)
    return fail(WEFT_ERR_INVALID, "num_founders is %u, but founders is NULL", options->num_founders);
  if (options->founders && options->num_founders == 0)
    return fail(WEFT_ERR_INVALID, "founders is given, but num_founders is 0: want their number, or NULL to join");
  if (options->num_founders > 0 && options->flags & WEFT_EP_OPTION_JOIN_ONLY)
    return fail(WEFT_ERR_INVALID, "founders are given, but JOIN_ONLY is set: want one of them");
  if (options->num_founders > 0 && options->rank < 0)
    return fail(WEFT_ERR_INVALID, "a founder must name its rank; rank is -1 (any)");
  bool self = options->num_founders == 0;
  for (uint32_t i = 0; i < options->num_founders; i++) {
    int32_t rank = options->founders[i];
    if (rank < 0 || (uint32_t)rank >= options->capacity)
      return fail(WEFT_ERR_INVALID, "founder %d is beyond the capacity of %u ranks", rank, options->capacity);
    for (uint32_t j = 0; j < i; j++)
      if (options->founders[j] == rank)
        return fail(WEFT_ERR_INVALID, "founder %d is named twice", rank);
    self |= rank == options->rank;
  }
  return self ? 0 : fail(WEFT_ERR_INVALID, "rank %d is not among the founders", options->rank);
}

enum { WINDOW_BYTES = 64 << 20 }; // default with THROUGHPUT

static uint32_t or_default(uint32_t value, uint32_t preset) {
  return value != 0 ? value : preset;
}

// Checks sizes that only one of the modes has.
static int check_mode(const struct weft_ep_options *options) {
  int rc = check_range("mode", options->mode, WEFT_EP_LATENCY, WEFT_EP_THROUGHPUT);
  if (rc != 0)
    return rc;
  if (options->mode == WEFT_EP_LATENCY && (options->window_bytes || options->max_rows || options->zero_copy_bytes))
    return fail(
        WEFT_ERR_INVALID,
        "%s is given, but the group is opened for LATENCY, whose windows hold whole operations: want THROUGHPUT",
        options->window_bytes ? "window_bytes"
        : options->max_rows   ? "max_rows"
                              : "zero_copy_bytes");
  if (options->mode == WEFT_EP_LATENCY && options->max_tokens > EP_MAX_TOKENS)
    return fail(WEFT_ERR_INVALID, "max_tokens is %u; with LATENCY it must be from 1 to %u: want THROUGHPUT for more",
                options->max_tokens, EP_MAX_TOKENS);
  if (options->window_bytes > UINT32_MAX)
    return fail(WEFT_ERR_INVALID, "window_bytes is %llu; it must be below 4 GiB",
                (unsigned long long)options->window_bytes);
  return check_range("max_tokens", options->max_tokens, 1, EP_MAX_TOKENS_THROUGHPUT);
}

static void choose_mode(struct weft_ep_options *options) {
  if (!options->mode)
    options->mode = options->max_tokens <= EP_MAX_TOKENS ? WEFT_EP_LATENCY : WEFT_EP_THROUGHPUT;
  if (options->mode == WEFT_EP_THROUGHPUT && options->window_bytes == 0)
    options->window_bytes = WINDOW_BYTES;
}

// Fills in the defaults and checks every field.
static int complete(struct weft_ep_options *options) {
  options->capacity = or_default(options->capacity, 64);
  options->max_tokens = or_default(options->max_tokens, 128);
  options->hidden = or_default(options->hidden, 7168);
  options->topk = or_default(options->topk, 8);
  options->experts_per_rank = or_default(options->experts_per_rank, 2);
  options->op_timeout_ms = or_default(options->op_timeout_ms, 5000);
  options->lease_ttl_s = or_default(options->lease_ttl_s, 10);
  options->operations_per_step = or_default(options->operations_per_step, 1);
  choose_mode(options);
  options->dtype = options->dtype ? options->dtype : WEFT_EP_BF16;
  options->combine_dtype = options->combine_dtype ? options->combine_dtype : WEFT_EP_COMBINE_BF16;
  int rc = ep_check_flags("options", options->flags, WEFT_EP_OPTION_JOIN_ONLY | WEFT_EP_OPTION_ORDERED, 0);
  if (rc != 0)
    return rc;
  if (!options->store)
    return fail(WEFT_ERR_INVALID, "store is NULL: open one with weft_store_open or weft_store_open_local");
  rc = store_prefix_complete(options->store, "the group", &options->prefix);
  if (rc == 0)
    rc = check_range("capacity", options->capacity, 1, EP_MAX_CAPACITY);
  if (rc == 0)
    rc = check_range("hidden", options->hidden, WEFT_EP_BLOCK, EP_MAX_HIDDEN);
  if (rc == 0 && options->hidden % WEFT_EP_BLOCK != 0)
    rc = fail(WEFT_ERR_INVALID, "hidden is %u; it must be a multiple of %d: the nearest are %u and %u", options->hidden,
              WEFT_EP_BLOCK, options->hidden / WEFT_EP_BLOCK * WEFT_EP_BLOCK,
              (options->hidden / WEFT_EP_BLOCK + 1) * WEFT_EP_BLOCK);
  if (rc == 0)
    rc = check_range("topk", options->topk, 1, EP_MAX_TOPK);
  if (rc == 0)
    rc = check_range("experts_per_rank", options->experts_per_rank, 1, EP_MAX_EXPERTS);
  if (rc == 0)
    rc = options->dtype == WEFT_EP_OPAQUE
             ? fail(WEFT_ERR_INVALID, "dtype is OPAQUE, which has no size of its own: open the group for a type whose "
                                      "rows are large enough")
             : check_range("dtype", options->dtype, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0);
  if (rc == 0)
    rc = check_range("combine_dtype", options->combine_dtype, WEFT_EP_COMBINE_BF16, WEFT_EP_COMBINE_LOGFMT10);
  if (rc == 0)
    rc = check_mode(options);
  if (rc == 0 && options->rank != -1 && (options->rank < 0 || (uint32_t)options->rank >= options->capacity))
    rc = fail(WEFT_ERR_INVALID, "rank %d is beyond the capacity: ranks are 0 to %u, or -1 for any", options->rank,
              options->capacity - 1);
  if (rc == 0)
    rc = check_range("memory", options->memory, WEFT_EP_MEMORY_HOST, WEFT_EP_MEMORY_AUTO);
  if (rc == 0 && options->memory != WEFT_EP_MEMORY_HOST && options->device < -1)
    rc = fail(WEFT_ERR_INVALID, "device is %d; it is an index from 0, or -1 for the current one", options->device);
  return rc != 0 ? rc : check_founders(options);
}

static void init_locks(weft_ep_t *ep) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&ep->lock, NULL);
  pthread_mutex_init(&ep->links.lock, NULL);
  pthread_mutex_init(&ep->net_lock, NULL);
  pthread_cond_init(&ep->links.changed, &attributes);
  ep_events_init(&ep->events);
  pthread_condattr_destroy(&attributes);
  ep->links.listener = ep->links.tcp_listener = ep->links.epoll = ep->links.wake = ep->bell_fd = ep->interrupt.fd = -1;
  ep->zero_copy.fd = -1;
}

// *no_engine: what failed is the engine.
static int allocate(weft_ep_t *ep, const struct weft_ep_options *options, bool *no_engine) {
  int rc = ep_events_open(&ep->events, ep->capacity);
  if (rc == 0)
    rc = ep_interrupt_open(&ep->interrupt);
  if (rc != 0)
    return rc;
  ep->links.by_rank = calloc(ep->capacity, sizeof *ep->links.by_rank);
  ep->links.dialling = calloc(ep->capacity, sizeof *ep->links.dialling);
  ep->links.answering = calloc(ep->capacity, sizeof *ep->links.answering);
  ep->masked = calloc(ep->capacity, sizeof *ep->masked);
  if (!ep->links.by_rank || !ep->links.dialling || !ep->links.answering || !ep->masked)
    return fail(WEFT_ERR_NOMEM, "no memory for %u ranks", ep->capacity);
  if (options->num_founders > 0) {
    ep->founders = malloc(options->num_founders * sizeof *ep->founders);
    if (!ep->founders)
      return fail(WEFT_ERR_NOMEM, "no memory for %u founders", options->num_founders);
    memcpy(ep->founders, options->founders, options->num_founders * sizeof *ep->founders);
    ep->num_founders = options->num_founders;
  }
  ep->operations_per_step = options->operations_per_step;
  ep->join_only = options->flags & WEFT_EP_OPTION_JOIN_ONLY;
  ep->zero_copy.bytes = options->zero_copy_bytes;
  rc = ep->engine->allocate(ep, options);
  *no_engine = rc != 0;
  return rc == 0 ? ep_window_create(&ep->bell, EP_DOORBELL_SIZE, &ep->bell_fd) : rc;
}

static bool interrupted(void *arg) {
  return ep_interrupted(arg);
}

static int join_group(weft_ep_t *ep, const struct weft_ep_options *options, uint32_t timeout_ms) {
  struct group_options group = {
      .store = options->store,
      .prefix = options->prefix,
      .rank = options->rank,
      .capacity = options->capacity,
      .founders = options->founders,
      .num_founders = options->num_founders,
      .join_only = options->flags & WEFT_EP_OPTION_JOIN_ONLY,
      .lease_ttl_s = options->lease_ttl_s,
      .address = ep->links.address,
      .on_event = ep_views_event,
      .interrupted = interrupted,
      .event_arg = ep,
  };
  int rc = group_open(&ep->group, &group, ep_deadline(timeout_ms));
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&ep->lock); // the group's thread runs already, and reads the rank
  ep->rank = group_rank(ep->group);
  ep->incarnation = group_incarnation(ep->group);
  pthread_mutex_unlock(&ep->lock);
  return 0;
}

// INVALID: the window is too small.
static int init_sizes(weft_ep_t *ep, const struct weft_ep_options *options) {
  ep->rank = options->rank;
  ep->capacity = options->capacity;
  ep->experts_per_rank = options->experts_per_rank;
  ep->op_timeout_ms = options->op_timeout_ms;
  ep->dtype = options->dtype;
  ep->combine_dtype = options->combine_dtype;
  ep->on_links = ep_views_update_ready;
  ep->device = -1;
  ep->kernels = ep_kernels_best();
  ep->processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (options->mode == WEFT_EP_THROUGHPUT)
    return ep_layout_init_flow(&ep->layout, options);
  ep_layout_init(&ep->layout, options->max_tokens, options->hidden, options->topk, options->dtype,
                 options->combine_dtype);
  return 0;
}

// Chooses the rank's engine. With AUTO and no suitable GPU it is the engine on host memory.
static int choose_engine(weft_ep_t *ep, const struct weft_ep_options *options) {
  int rc = ep_gpu_open(ep, options);
  ep->engine = ep->gpu ? &ep_gpu_engine : &ep_host_engine;
  return rc;
}

// The steps of opening. *no_engine: what failed is the engine.
static int open_parts(weft_ep_t *ep, const struct weft_ep_options *options, uint32_t timeout_ms, bool *no_engine) {
  int rc = choose_engine(ep, options);
  if (rc != 0)
    return fail_context(rc, "weft_ep_open");
  rc = allocate(ep, options, no_engine);
  if (rc == 0)
    rc = ep_service_listen(ep, options);
  if (rc == 0)
    rc = join_group(ep, options, timeout_ms);
  if (rc == 0) {
    rc = ep->engine->start(ep, options);
    *no_engine = rc != 0;
  }
  if (rc == 0)
    rc = ep_death_watch_start(ep); // before a peer maps the doorbell
  if (rc == 0)
    rc = ep_service_start(ep); // this rank knows its incarnation, so calls can be answered
  if (rc == 0)
    rc = ep->engine->watch(ep);
  return rc;
}

static int open_rank(weft_ep_t **out, const struct weft_ep_options *options, uint32_t timeout_ms, bool *no_engine) {
  weft_ep_t *ep = calloc(1, sizeof *ep);
  if (!ep)
    return fail(WEFT_ERR_NOMEM, "weft_ep_open: no memory");
  ep->opened = forked_now();
  init_locks(ep);
  int rc = init_sizes(ep, options);
  ep->engine = &ep_host_engine; // until it is chosen
  if (rc == 0)
    rc = open_parts(ep, options, timeout_ms, no_engine);
  if (rc != 0)
    weft_ep_close(ep);
  else
    *out = ep;
  return rc;
}

int weft_ep_open(weft_ep_t **out, const struct weft_ep_options *given, uint32_t timeout_ms) {
  struct weft_ep_options copy;
  if (!out)
    return fail(WEFT_ERR_INVALID, "weft_ep_open: ep is NULL");
  const struct weft_ep_options *read = EP_READ_OPTIONS(given, &copy);
  if (!read)
    return fail_context(sized_refusal(given, sizeof copy), "weft_ep_open");
  struct weft_ep_options options = *read;
  int rc = complete(&options);
  if (rc != 0)
    return fail_context(rc, "weft_ep_open");
  trace_open();
  bool no_engine = false;
  rc = open_rank(out, &options, timeout_ms, &no_engine);
  if (rc == 0 || !no_engine || options.memory != WEFT_EP_MEMORY_AUTO)
    return rc;
  // The rank was released and the group's thread ended before: the memory kind of a rank must not change while it
  // exists.
  log_info("memory is AUTO: host memory is used, because %s", weft_last_error());
  options.memory = WEFT_EP_MEMORY_HOST;
  return open_rank(out, &options, timeout_ms, &no_engine);
}

// Notifies every peer that the hang-up that follows is no death.
static void send_leaving(weft_ep_t *ep) {
  for (uint32_t rank = 0; ep->links.by_rank && rank < ep->capacity; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (!link)
      continue;
    link->path->flush(link);
    ep_link_notify_left(link);
  }
}

// In a forked child: the claim, links and threads of the parent stay as they are.
static void forget(weft_ep_t *ep) {
  free(ep->links.by_rank);
  free(ep->links.dialling);
  free(ep->links.answering);
  free(ep->masked);
  free(ep->founders);
  free(ep);
}

void weft_ep_close(weft_ep_t *ep) {
  if (!ep)
    return;
  if (forked_since(ep->opened)) {
    forget(ep);
    return;
  }
  ep->engine->flush(ep);
  ep_death_watch_stop(ep);
  ep_service_stop(ep);
  ep->engine->unwatch(ep);
  send_leaving(ep);
  group_close(ep->group); // leaves the view before the sockets close
  ep->engine->stop(ep);
  ep_links_free(ep);
  ep_net_close(atomic_load(&ep->net));
  ep_views_free(ep);
  group_view_unref(ep->view);
  ep->engine->close(ep);
  ep_routes_close(ep);
  ep_window_release(&ep->bell);
  if (ep->bell_fd >= 0)
    close(ep->bell_fd);
  if (ep->zero_copy.fd >= 0)
    close(ep->zero_copy.fd);
  free(ep->links.by_rank);
  free(ep->links.dialling);
  free(ep->links.answering);
  free(ep->masked);
  free(ep->founders);
  ep_events_close(&ep->events);
  ep_interrupt_close(&ep->interrupt);
  pthread_cond_destroy(&ep->links.changed);
  pthread_mutex_destroy(&ep->links.lock);
  pthread_mutex_destroy(&ep->net_lock);
  pthread_mutex_destroy(&ep->lock);
  free(ep);
}
