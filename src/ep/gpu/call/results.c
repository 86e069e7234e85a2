// The results of an operation on CUDA memory: from the device's record to the structs of weft/ep.h.
#include <stdio.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "ep/gpu/call/op.h"

enum { NAP_NS = 20000, SLICE_MS = 50 }; // SLICE_MS: time between two checks for an interrupt

// How many waits of kernels may follow each other in a stream: those of an unreported combine, for room and for
// answers, and those of a dispatch, for headers and for rows.
enum { WAITS_IN_A_ROW = 4 };

// Longer than the waits of a call's kernels, each of which may be extended.
uint32_t ep_gpu_wait_limit_ms(const weft_ep_t *ep) {
  uint64_t ms = (1 + WAITS_IN_A_ROW * (1 + EP_EXTENSIONS)) * (uint64_t)ep->op_timeout_ms;
  return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

int ep_gpu_await_stream(weft_ep_t *ep, void *stream, uint32_t timeout_ms, char *why) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t deadline_ns = ep_deadline(timeout_ms);
  for (;;) {
    int left_ms = clock_left_ms(deadline_ns);
    int rc = gpu->api->stream_wait(gpu->device, stream, left_ms < SLICE_MS ? (uint32_t)left_ms : SLICE_MS, why);
    if (rc != WEFT_ERR_TIMEOUT)
      return rc;
    if (ep_interrupted(ep)) {
      snprintf(why, DEVICE_WHY, "weft_ep_interrupt has ended the wait");
      return WEFT_ERR_CANCELED;
    }
    if (clock_passed(deadline_ns)) {
      snprintf(why, DEVICE_WHY, "work in the stream: not done after %u ms", timeout_ms);
      return rc;
    }
  }
}

// Checks that the operation could use its route: a rank that has joined since would be missed.
static int check_conflict(const struct gpu_op *op, const struct device_record *record, char *why) {
  if (!(record->kind & DEVICE_CONFLICT))
    return 0;
  snprintf(why, DEVICE_WHY,
           "a rank has joined since the route was filled%s, so no rows were sent: fill the route again",
           op->route ? "" : " by which others go");
  return WEFT_ERR_CONFLICT;
}

static int get_record(weft_ep_t *ep, const struct gpu_op *op, uint32_t timeout_ms, struct device_record *record) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = ep_gpu_await_stream(ep, op->stream, timeout_ms, why);
  if (rc == 0)
    rc = gpu->api->ep_record(gpu->engine, op->number, record, why);
  if (rc == 0)
    rc = check_conflict(op, record, why);
  return rc == 0 ? 0 : fail(rc, "operation %llu: %s", (unsigned long long)op->number, why);
}

static int32_t rank_of(const struct group_view *view, uint32_t member) {
  return view && member < view->count ? view->members[member].rank : -1;
}

// --- info ---

static void list_lost(const struct device_record *record, const struct group_view *view, struct weft_ep_info *info) {
  info->num_lost = 0;
  for (uint32_t m = 0; m < record->num_ranks && m < 64; m++) {
    if (!(record->lost >> m & 1))
      continue;
    if (view && info->lost && info->num_lost < info->lost_cap)
      info->lost[info->num_lost] = rank_of(view, m);
    info->num_lost++;
  }
}

// Under links.lock, so that no link in the table is freed.
static void give_wait(weft_ep_t *ep) {
  struct gpu_wait *wait = &ep->gpu->wait;
  struct ep_link *link = wait->ns > 0 ? ep_link_find(ep, wait->rank, wait->incarnation) : NULL;
  if (link)
    link->wait_ns += wait->ns;
  wait->ns = 0;
}

// The thread that installs a link holds the lock for as long as half an operation takes. So while the waits are for the
// same member, they are added up here, and given to the link later.
static void add_wait(weft_ep_t *ep, const struct group_member *member, uint64_t ns) {
  struct gpu_wait *wait = &ep->gpu->wait;
  bool other = wait->ns > 0 && (wait->rank != member->rank || wait->incarnation != member->incarnation);
  bool locked = pthread_mutex_trylock(&ep->links.lock) == 0;
  if (!locked && other) {
    pthread_mutex_lock(&ep->links.lock);
    locked = true;
  }
  if (other)
    give_wait(ep);
  *wait = (struct gpu_wait){.rank = member->rank, .incarnation = member->incarnation, .ns = wait->ns + ns};
  if (!locked)
    return;
  give_wait(ep);
  pthread_mutex_unlock(&ep->links.lock);
}

// Counts the longest wait for a member as the wait of the operation.
static void count_waits(weft_ep_t *ep, const struct device_record *record, const struct group_view *view) {
  uint32_t last = 0;
  for (uint32_t m = 1; m < record->num_ranks && m < DEVICE_SEATS; m++)
    if (record->wait_ns[m] > record->wait_ns[last])
      last = m;
  ep->stats.wait_ns += record->wait_ns[last];
  if (view && last < view->count)
    add_wait(ep, &view->members[last], record->wait_ns[last]);
}

static void fill_info(weft_ep_t *ep, const struct gpu_op *op, const struct device_record *record,
                      const struct group_view *view, struct weft_ep_info *info) {
  struct ep_gpu *gpu = ep->gpu;
  info->op = record->op;
  info->epoch = record->epoch;
  info->num_ranks = record->num_ranks;
  info->num_rows = record->num_rows;
  info->rows_needed = record->needed_rows;
  info->mark = record->mark;
  struct ep_form form = op->dtype == WEFT_EP_OPAQUE ? (struct ep_form){op->dtype, op->row_bytes, op->scale_bytes}
                                                    : ep_layout_form(&ep->layout, op->dtype);
  uint64_t row_bytes = form.value_bytes + form.scale_bytes;
  info->wire_bytes = op->keeps ? record->sent_rows * row_bytes // without row headers
                               : ep_layout_bytes(&ep->layout, row_bytes, record->sent_rows);
  info->logical_bytes = ep_logical_bytes(row_bytes, record->selections);
  list_lost(record, view, info);
  if (record->op < gpu->counted_dispatch)
    return;
  gpu->counted_dispatch = record->op + 1;
  ep->stats.dispatch_wire_bytes += info->wire_bytes;
  ep->stats.dispatch_logical_bytes += info->logical_bytes;
  count_waits(ep, record, view);
}

// Rows for which there was no room are lost; the operation continues.
static int check_room(const struct gpu_op *op, const struct device_record *record) {
  if (record->needed_rows <= op->rows)
    return 0;
  return fail(WEFT_ERR_ROOM,
              "operation %llu: the buffer has room for %u rows%s, but %u arrived: the rows beyond are lost",
              (unsigned long long)record->op, op->rows, op->rank_major || op->packed ? "" : " for each expert",
              record->needed_rows);
}

// --- result ---

// `tokens`: of the operation.
static int list_missing(weft_ep_t *ep, const struct gpu_op *op, uint32_t tokens, const struct group_view *view,
                        struct weft_ep_result *result) {
  struct ep_gpu *gpu = ep->gpu;
  uint32_t topk = op->topk, count = 0;
  size_t each = op->narrow ? sizeof(int32_t) : sizeof(int64_t);
  char why[DEVICE_WHY] = "";
  int rc = gpu->api->ep_missing(gpu->engine, op->number, gpu->missing, tokens, why);
  if (rc == 0)
    rc = gpu->api->copy(gpu->device, gpu->experts, op->topk_idx, tokens * topk * each, op->stream, true, why);
  if (rc != 0)
    return fail(rc, "operation %llu: %s", (unsigned long long)op->number, why);
  int64_t experts = (int64_t)ep->capacity * ep->experts_per_rank;
  for (uint32_t t = 0; t < tokens; t++)
    for (uint32_t k = 0; k < topk && count < result->missing_cap; k++) {
      size_t at = (size_t)t * topk + k;
      int64_t expert = op->narrow ? ((const int32_t *)gpu->experts)[at] : gpu->experts[at];
      if (expert < 0)
        continue;
      // An expert that does not exist has no member, as in the kernels.
      const struct group_member *member =
          expert < experts ? group_view_find(view, (int32_t)(expert / ep->experts_per_rank)) : NULL;
      if (!member || gpu->missing[t] >> (member - view->members) & 1)
        result->missing[count++] = (struct weft_ep_missing){.token = (int32_t)t, .k = (int32_t)k, .expert = expert};
    }
  return 0;
}

static int fill_result(weft_ep_t *ep, const struct gpu_op *op, const struct device_record *record,
                       const struct group_view *view, struct weft_ep_result *result) {
  struct ep_gpu *gpu = ep->gpu;
  bool late = op->begun && !op->has_weights && !op->rank_major && !ep_gpu_flows(ep);
  result->num_lost = (uint32_t)__builtin_popcountll(record->combine_lost);
  result->num_missing = record->unsent + record->missing;
  result->wire_bytes = (uint64_t)record->answered_rows * ep_layout_combine_bytes(&ep->layout, op->combine_dtype) +
                       (late ? (uint64_t)record->sent_rows * op->topk * sizeof(float) : 0);
  result->logical_bytes = record->selections * (uint64_t)ep_layout_combine_logical(&ep->layout, op->combine_dtype);
  if (record->op >= gpu->counted_combine) { // if an operation has several combines, only the first reported one counts
    gpu->counted_combine = record->op + 1;
    ep->stats.combine_wire_bytes += result->wire_bytes;
    ep->stats.combine_logical_bytes += result->logical_bytes;
    ep->stats.missing += result->num_missing;
  }
  bool list = result->missing && result->missing_cap > 0 && result->num_missing > 0 && op->topk_idx && view;
  return list ? list_missing(ep, op, record->tokens, view, result) : 0;
}

// --- the calls ---

static int fill_outputs(weft_ep_t *ep, const struct gpu_op *op, const struct device_record *record,
                        struct weft_ep_info *info, struct weft_ep_result *result) {
  const struct group_view *view = ep_gpu_view(ep, record->epoch);
  int rc = 0;
  if (info) {
    fill_info(ep, op, record, view, info);
    rc = check_room(op, record);
  }
  if (result) {
    int failed = fill_result(ep, op, record, view, result);
    rc = failed != 0 ? failed : rc;
  }
  group_view_unref(view);
  return rc;
}

int ep_gpu_fill(weft_ep_t *ep, struct gpu_op *op, struct weft_ep_info *info, struct weft_ep_result *result,
                uint32_t timeout_ms) {
  struct device_record record;
  int rc = get_record(ep, op, timeout_ms, &record);
  op->no_rows = rc == 0 && record.num_rows == 0;
  return rc == 0 ? fill_outputs(ep, op, &record, info, result) : rc;
}

// The members of `bits`, by rank, for an error.
static int name_members(int rc, const struct group_view *view, uint64_t bits, const char *format_begin) {
  struct text names = {0};
  for (uint32_t m = 0; view && m < view->count && m < 64; m++)
    if (bits >> m & 1)
      text_add_rank(&names, view->members[m].rank);
  rc = fail(rc, "%s rank %s", format_begin, names.data ? names.data : "?");
  text_free(&names);
  return rc;
}

int ep_gpu_check_barrier(weft_ep_t *ep, struct gpu_op *op) {
  struct device_record record;
  struct weft_ep_info ignored = WEFT_EP_INFO_INIT;
  char begin[96];
  int rc = get_record(ep, op, ep_gpu_wait_limit_ms(ep), &record);
  if (rc != 0)
    return fail_context(rc, "barrier");
  const struct group_view *view = ep_gpu_view(ep, record.epoch);
  fill_info(ep, op, &record, view, &ignored);
  if (record.other_kinds != 0) {
    snprintf(begin, sizeof begin, "barrier: a dispatch, and not a barrier, is operation %llu of",
             (unsigned long long)record.op);
    rc = name_members(WEFT_ERR_PROTOCOL, view, record.other_kinds, begin);
  } else if (record.lost != 0) {
    snprintf(begin, sizeof begin, "barrier: operation %llu continued without", (unsigned long long)record.op);
    rc = name_members(WEFT_ERR_PEER_LOST, view, record.lost, begin);
  }
  group_view_unref(view);
  return rc;
}

// Awaits the newest operation that the device has begun. It may belong to a graph, whose stream is not known. This
// waits for its dispatch; for what comes after, the caller has waited for the graph.
static int await_newest(weft_ep_t *ep, struct weft_ep_info *info, struct weft_ep_result *result, uint32_t timeout_ms) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t deadline_ns = ep_deadline(timeout_ms), begun = ep_gpu_read(&gpu->report->replayed);
  const struct timespec nap = {.tv_nsec = NAP_NS};
  char why[DEVICE_WHY] = "";
  struct device_progress progress;
  if (begun == 0)
    return fail(WEFT_ERR_INVALID, "await: no operation has begun");
  for (;;) {
    int rc = gpu->api->ep_progress(gpu->engine, &progress, why);
    if (rc != 0)
      return fail(rc, "await: %s", why);
    if (progress.received >= begun)
      break;
    if (ep_interrupted(ep))
      return ep_canceled("await");
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "await: operation %llu has not been received by the deadline",
                  (unsigned long long)begun - 1);
    nanosleep(&nap, NULL);
  }
  const struct gpu_op *eager = &gpu->ops[(begun - 1) % EP_DEPTH];
  // For a graph only the arguments of its capture are known.
  struct gpu_op replayed = gpu->captured[(gpu->captures + 1) % EP_DEPTH];
  replayed.topk_idx = NULL;
  struct device_record record;
  const struct gpu_op *op = eager->begun && eager->number == begun - 1 ? eager : &replayed;
  int rc = gpu->api->ep_record(gpu->engine, begun - 1, &record, why);
  if (rc == 0)
    rc = check_conflict(op, &record, why);
  if (rc != 0)
    return fail(rc, "await: %s", why);
  return fill_outputs(ep, op, &record, info, result);
}

int ep_gpu_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                 uint32_t timeout_ms) {
  struct ep_gpu *gpu = ep->gpu;
  if (number == UINT64_MAX && (ep_gpu_read(&gpu->report->replayed) > ep->next_op || ep->next_op == 0))
    return await_newest(ep, info, result, timeout_ms);
  if (number == UINT64_MAX)
    number = ep->next_op - 1;
  struct gpu_op *op = &gpu->ops[number % EP_DEPTH];
  if (!op->begun || op->number != number)
    return fail(WEFT_ERR_INVALID, "await: operation %llu is not among the newest %d of this rank",
                (unsigned long long)number, EP_DEPTH);
  if (info && !op->received)
    return fail(WEFT_ERR_INVALID,
                "await: the dispatch of operation %llu has not been received, so there is no info about it",
                (unsigned long long)number);
  if (result && !op->combined)
    return fail(WEFT_ERR_INVALID, "await: no combine of operation %llu has been received", (unsigned long long)number);
  if (info || result)
    return ep_gpu_fill(ep, op, info, result, timeout_ms);
  char why[DEVICE_WHY] = "";
  int rc = ep_gpu_await_stream(ep, op->stream, timeout_ms, why);
  return rc == 0 ? 0 : fail(rc, "await: operation %llu: %s", (unsigned long long)number, why);
}

void ep_gpu_add_stats(const weft_ep_t *ep, struct weft_ep_stats *stats) {
  const struct ep_gpu *gpu = ep->gpu;
  struct device_progress progress;
  char why[DEVICE_WHY] = "";
  uint64_t ended = gpu->launched_ends; // replays are counted in addition
  if (gpu->captures > 0 && gpu->api->ep_progress(gpu->engine, &progress, why) == 0 && progress.ended > ended)
    ended = progress.ended;
  stats->operations = ended > gpu->first_op ? ended - gpu->first_op : 0;
  stats->activations += atomic_load(&gpu->activations);
  stats->window_bytes += gpu->workspace_bytes;
}
