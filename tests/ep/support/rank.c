// A rank of a test: opened, active, and operating with inputs that the oracle knows.
#include "ep/support/rank.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/core/layout.h"
#include "ep/support/rank_parts.h"

enum { DEADLINE_MS = 60000, SEED = 12345 };

bool rank_fail(struct rank *rank, const char *format, ...) {
  if (rank->error[0])
    return false;
  int used = snprintf(rank->error, sizeof rank->error, "rank %d, operation %llu: ", rank->index,
                      rank->ep ? (unsigned long long)weft_ep_next_op(rank->ep) : 0ull);
  va_list args;
  va_start(args, format);
  vsnprintf(rank->error + used, sizeof rank->error - (size_t)used, format, args);
  va_end(args);
  return false;
}

static uint32_t or_default(uint32_t value, uint32_t preset) {
  return value ? value : preset;
}

// With room between the columns of an expert's scales, and between experts.
static size_t scale_words(const struct setup *s, uint32_t rows) {
  return (size_t)s->experts * ((rows + RANK_APART) * (s->hidden / 128) + RANK_APART);
}

static void allocate(struct rank *rank) {
  const struct setup *s = &rank->setup;
  size_t selections = (size_t)s->tokens * s->topk;
  bool experts = s->layout == WEFT_EP_PER_EXPERT;
  rank->rows = s->capacity * s->tokens;
  // A token's selections of one expert are distinct in the pattern, so this holds every row.
  size_t total = (size_t)rank->rows * (experts ? s->experts : 1);
  rank->x = calloc((size_t)s->tokens * s->hidden, 2);
  rank->x_scales = calloc((size_t)s->tokens * (s->hidden / 128), sizeof *rank->x_scales);
  rank->out = calloc((size_t)s->tokens * s->hidden, 2);
  rank->y = calloc(total * s->hidden, 2);
  rank->topk_idx = calloc(selections, sizeof *rank->topk_idx);
  rank->weights = calloc(selections, sizeof *rank->weights);
  rank->received = calloc(total * s->hidden, 2);
  rank->scales = calloc(scale_words(s, rank->rows), sizeof *rank->scales);
  rank->x_apart = calloc(s->tokens, (size_t)s->hidden * 2 + RANK_APART);
  rank->x_scales_apart = calloc((size_t)(s->tokens + RANK_APART) * (s->hidden / 128), sizeof *rank->x_scales_apart);
  rank->topk_idx32 = calloc(selections, sizeof *rank->topk_idx32);
  rank->first_out = calloc((size_t)s->tokens * s->hidden, 2);
  rank->counts = calloc(s->experts, sizeof *rank->counts);
  rank->src_rank = calloc(total, sizeof *rank->src_rank);
  rank->src_token = calloc(total, sizeof *rank->src_token);
  rank->range = calloc((size_t)s->experts * s->capacity, sizeof *rank->range);
  rank->local_expert = calloc(total * s->topk, sizeof *rank->local_expert);
  rank->recv_weights = calloc(total * s->topk, sizeof *rank->recv_weights);
  rank->rows_at = calloc(total, sizeof *rank->rows_at);
  rank->answers_at = calloc(total, sizeof *rank->answers_at);
  rank->recv = (struct weft_ep_recv_args){.size = sizeof rank->recv,
                                          .layout = s->layout,
                                          .rows = rank->rows,
                                          .x = rank->received,
                                          .scales = rank->scales,
                                          .counts = rank->counts,
                                          .src_rank = rank->src_rank,
                                          .src_token = rank->src_token,
                                          .range = rank->range,
                                          .local_expert = experts ? NULL : rank->local_expert,
                                          .weights = experts ? NULL : rank->recv_weights};
}

// With WEFT_TEST_HOSTS=N the ranks are configured as on N hosts, in turn.
static const char *host_of(const struct rank *rank, char host[16]) {
  static _Atomic uint32_t others;
  const char *hosts = getenv("WEFT_TEST_HOSTS");
  if (!hosts)
    return NULL;
  uint32_t number = rank->index >= 0 ? (uint32_t)rank->index : others++;
  snprintf(host, 16, "host%lu", number % strtoul(hosts, NULL, 10));
  return host;
}

// With WEFT_TEST_WINDOW=N a group without a window of its own is opened for THROUGHPUT, so that its rows flow in about
// N pieces. They flow in one piece if rows are in place, or if separate calls send and receive them.
static void choose_window(const struct setup *s, struct weft_ep_options *options) {
  const char *parts = getenv("WEFT_TEST_WINDOW");
  uint32_t rows = s->window;
  if (rows == 0 && parts && !s->late_weights && !s->vary)
    rows = s->apart || s->in_place || s->placed ? s->tokens : s->tokens / (uint32_t)strtoul(parts, NULL, 10) + 1;
  if (rows == 0)
    return;
  struct ep_layout layout;
  ep_layout_init(&layout, rows, s->hidden, s->topk, s->dtype, s->combine_dtype);
  options->mode = WEFT_EP_THROUGHPUT;
  options->window_bytes =
      layout.area + EP_PAGE + EP_DEPTH * (s->experts * sizeof(uint32_t) + rows * sizeof(uint64_t) + EP_LINE);
}

// With WEFT_TEST_STEP=N views take effect only with each N-th operation.
static uint32_t operations_per_step(void) {
  const char *step = getenv("WEFT_TEST_STEP");
  return step ? (uint32_t)strtoul(step, NULL, 10) : 1;
}

bool rank_open(struct rank *rank, const struct setup *setup, int32_t index, const int32_t *founders,
               uint32_t num_founders) {
  *rank = (struct rank){.setup = *setup, .index = index};
  struct setup *s = &rank->setup;
  rank->had_losses = s->deaths && num_founders == 0;
  s->capacity = or_default(s->capacity, 16);
  s->tokens = or_default(s->tokens, 16);
  s->hidden = or_default(s->hidden, 256);
  s->topk = or_default(s->topk, 4);
  s->experts = or_default(s->experts, 2);
  s->wait_limit_s = or_default(s->wait_limit_s, DEADLINE_MS / 1000);
  s->timeout_ms = or_default(s->timeout_ms, 20000);
  s->dtype = s->dtype ? s->dtype : WEFT_EP_BF16;
  s->combine_dtype = s->combine_dtype ? s->combine_dtype : WEFT_EP_COMBINE_BF16;
  s->layout = s->layout ? s->layout : WEFT_EP_PER_EXPERT;
  rank->opened_dtype = s->dtype;
  rank->opened_combine = s->combine_dtype;
  rank->opened_topk = s->topk;
  rank->combines = 1;
  rank->pattern = (struct pattern){.seed = s->seed ? s->seed : SEED,
                                   .num_tokens = s->no_tokens ? 0 : s->tokens,
                                   .hidden = s->hidden,
                                   .topk = s->topk,
                                   .experts_per_rank = s->experts,
                                   .uneven = s->uneven,
                                   .drop = s->drop};
  allocate(rank);
  char host[16];
  struct weft_ep_options options = {.size = sizeof options,
                                    .store = s->store,
                                    .prefix = s->prefix ? s->prefix : RANK_PREFIX,
                                    .rank = index,
                                    .capacity = s->capacity,
                                    .founders = founders,
                                    .num_founders = num_founders,
                                    .max_tokens = s->tokens,
                                    .hidden = s->hidden,
                                    .topk = s->topk,
                                    .experts_per_rank = s->experts,
                                    .dtype = s->dtype,
                                    .combine_dtype = s->combine_dtype,
                                    .op_timeout_ms = s->timeout_ms,
                                    .lease_ttl_s = s->lease_s,
                                    .operations_per_step = operations_per_step(),
                                    .host_id = host_of(rank, host)};
  choose_window(s, &options);
  rank->step = options.operations_per_step;
  if (weft_ep_open(&rank->ep, &options, s->wait_limit_s * 1000) != 0)
    return rank_fail(rank, "open: %s", weft_last_error());
  rank->index = weft_ep_rank(rank->ep);
  return true;
}

void rank_close(struct rank *rank) {
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  void *memory[] = {rank->x,
                    rank->x_scales,
                    rank->out,
                    rank->y,
                    rank->topk_idx,
                    rank->weights,
                    rank->received,
                    rank->scales,
                    rank->counts,
                    rank->src_rank,
                    rank->src_token,
                    rank->range,
                    rank->local_expert,
                    rank->recv_weights,
                    rank->rows_at,
                    rank->answers_at,
                    rank->x_apart,
                    rank->x_scales_apart,
                    rank->topk_idx32,
                    rank->first_out};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    free(memory[i]);
}

bool rank_activate(struct rank *rank) {
  if (weft_ep_activate(rank->ep, rank->setup.wait_limit_s * 1000) != 0)
    return rank_fail(rank, "activate: %s", weft_last_error());
  return true;
}

// Copies a row from its place to where the judge reads it.
static void gather_row(struct rank *rank, size_t row) {
  const struct setup *s = &rank->setup;
  size_t bytes = s->hidden * (s->dtype == WEFT_EP_BF16 ? 2 : 1), scales = rank_scale_bytes(s);
  memcpy((uint8_t *)rank->received + row * bytes, rank->rows_at[row], bytes);
  if (s->dtype != WEFT_EP_BF16)
    memcpy((uint8_t *)rank->scales + row * scales, (const uint8_t *)rank->rows_at[row] + bytes, scales);
}

static void gather_rows(struct rank *rank) {
  if (rank->setup.layout == WEFT_EP_RANK_MAJOR)
    for (uint32_t row = 0; row < rank->info.num_rows; row++)
      gather_row(rank, row);
  else
    for (uint32_t e = 0; e < rank->setup.experts; e++)
      for (int32_t i = 0; i < rank->counts[e]; i++)
        gather_row(rank, (size_t)e * rank->rows + (size_t)i);
}

static bool place_answers(struct rank *rank, uint64_t op, struct weft_ep_combine_args *args) {
  size_t bytes = (size_t)rank->setup.hidden * 2;
  args->y = NULL;
  if (weft_ep_combine_rows(rank->ep, op, rank->answers_at) != 0)
    return rank_fail(rank, "combine_rows: %s", weft_last_error());
  for (uint32_t row = 0; row < rank->info.num_rows; row++)
    memcpy(rank->answers_at[row], (const uint8_t *)rank->y + row * bytes, bytes);
  return true;
}

// Fills everything that an operation of `count` ranks may write. The judge reads nothing behind it.
static void poison(struct rank *rank, uint32_t count) {
  const struct setup *s = &rank->setup;
  size_t parts = s->layout == WEFT_EP_PER_EXPERT ? s->experts : 1, rows = (size_t)count * s->tokens;
  for (size_t first = 0; first < parts * rank->rows; first += rank->rows) {
    for (size_t bytes = 1; bytes <= 2; bytes++) // fp8 and bf16; NaN in every format
      memset((uint8_t *)rank->received + first * s->hidden * bytes, 0xFF, rows * s->hidden * bytes);
    memset(rank->y + first * s->hidden, 0xFF, rows * s->hidden * 2);
    memset(rank->src_rank + first, 0x7F, rows * sizeof *rank->src_rank);
    memset(rank->src_token + first, 0x7F, rows * sizeof *rank->src_token);
  }
  memset(rank->scales, 0xFF, scale_words(s, rank->rows) * sizeof *rank->scales);
  memset(rank->out, 0xFF, (size_t)s->tokens * s->hidden * 2);
  memset(rank->counts, 0x7F, s->experts * sizeof *rank->counts);
}

// Casts x to e4m3 with scales, as a layer before the dispatch may do.
static void cast_rows(struct rank *rank, uint32_t tokens) {
  uint32_t hidden = rank->setup.hidden;
  uint8_t *q = malloc(hidden), *to = (uint8_t *)rank->x_scales;
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  for (uint32_t t = 0; t < tokens; t++) { // a row's codes end before the next row's values
    oracle_cast(q, scales, rank->x + (size_t)t * hidden, hidden, rank->setup.dtype);
    if (rank->setup.dtype == WEFT_EP_FP8_UE8M0)
      oracle_pack_scales(to, scales, hidden);
    else
      memcpy(to, scales, hidden / 128 * sizeof *scales);
    to += rank_scale_bytes(&rank->setup);
    memcpy((uint8_t *)rank->x + (size_t)t * hidden, q, hidden);
  }
  free(q);
}

// Overwrites the inputs: after the dispatch nothing may read them.
static void spoil_rows(struct rank *rank) {
  memset(rank->x_apart, 0xFF, rank->setup.tokens * ((size_t)rank->setup.hidden * 2 + RANK_APART));
  memset(rank->x_scales_apart, 0xFF, (size_t)(rank->setup.tokens + RANK_APART) * (rank->setup.hidden / 128) * 4);
  size_t values = (size_t)rank->setup.tokens * rank->setup.hidden;
  memset(rank->x, 0xFF, values * 2);
  memset(rank->x_scales, 0xFF, values / 128 * sizeof *rank->x_scales);
}

static void reach(struct rank *rank, enum rank_step step) {
  if (rank->setup.at)
    rank->setup.at(rank, step);
}

static bool send_and_receive(struct rank *rank, const struct weft_ep_dispatch_args *dispatch, uint64_t *op) {
  int rc;
  struct weft_ep_recv_args recv = rank->recv;
  if (rank->setup.in_place) {
    recv.x = NULL;
    recv.scales = NULL;
    recv.rows_at = rank->rows_at;
  }
  if (rank->setup.apart) {
    rc = weft_ep_dispatch_send(rank->ep, dispatch, op);
    if (rc == 0) {
      spoil_rows(rank);
      reach(rank, RANK_SENT);
      rc = weft_ep_dispatch_recv(rank->ep, *op, &recv, &rank->info);
    }
    if (rc == 0)
      reach(rank, RANK_HEARD);
  } else {
    rc = weft_ep_dispatch(rank->ep, dispatch, &recv, &rank->info, op);
  }
  return rc == 0 ? true : rank_fail(rank, "dispatch: %s: %s", weft_err_name(rc), weft_last_error());
}

static bool combine_once(struct rank *rank, uint64_t op, const struct weft_ep_combine_args *args) {
  int rc;
  if (rank->setup.apart) {
    rc = weft_ep_combine_send(rank->ep, op, args);
    if (rc == 0) {
      reach(rank, RANK_ANSWERED);
      rc = weft_ep_combine_recv(rank->ep, op, args, &rank->result);
    }
    if (rc == 0)
      reach(rank, RANK_ENDED);
  } else {
    rc = weft_ep_combine(rank->ep, op, args, &rank->result);
  }
  return rc == 0 ? true : rank_fail(rank, "combine: %s: %s", weft_err_name(rc), weft_last_error());
}

// The second and third combine of an operation have the same result as the first.
static bool combine(struct rank *rank, uint64_t op, const struct weft_ep_combine_args *given) {
  const struct setup *s = &rank->setup;
  size_t bytes = (size_t)s->tokens * s->hidden * 2;
  for (uint32_t i = 0; i < rank->combines; i++) {
    struct weft_ep_combine_args args = *given;
    if (i + 1 < rank->combines || rank->left_open)
      args.flags |= WEFT_EP_COMBINE_KEEP;
    memset(rank->out, 0xFF, bytes);
    if (s->placed && s->layout == WEFT_EP_RANK_MAJOR && !place_answers(rank, op, &args))
      return false;
    if (s->in_place && i == 0) // late, so that the judge sees changes of the rows
      gather_rows(rank);
    if (!combine_once(rank, op, &args))
      return false;
    if (i > 0 && memcmp(rank->out, rank->first_out, bytes) != 0 && !rank->had_losses && rank->result.num_lost == 0)
      return rank_fail(rank, "combine %u of operation %llu brought something else", i + 1, (unsigned long long)op);
    memcpy(rank->first_out, rank->out, bytes);
  }
  return true;
}

static bool mask(struct rank *rank, uint64_t op) {
  int32_t ranks[EP_MAX_CAPACITY];
  uint32_t count;
  weft_ep_view(rank->ep, NULL, ranks, EP_MAX_CAPACITY, &count);
  for (uint32_t i = 0; i < count; i++)
    if (weft_ep_mask_update(rank->ep, ranks[i], rank_masks(&rank->setup, op, rank->index, ranks[i])) != 0)
      return rank_fail(rank, "mask: %s", weft_last_error());
  return true;
}

bool rank_operate(struct rank *rank) {
  const struct setup *s = &rank->setup;
  int32_t ranks[EP_MAX_CAPACITY];
  uint32_t count;
  weft_ep_view(rank->ep, &rank->view_epoch, ranks, EP_MAX_CAPACITY, &count);
  rank->num_view = count;
  memcpy(rank->view, ranks, (count < 16 ? count : 16) * sizeof *ranks);
  uint64_t op = weft_ep_next_op(rank->ep);
  enum pattern_kind kind = pattern_kind_of(op);
  uint64_t drawn = random_mix(rank->pattern.seed ^ op);
  if (s->vary)
    rank_draw_common(rank, &drawn);
  uint64_t own = random_mix(drawn + (uint64_t)rank->index);
  if (s->vary)
    rank_draw_own(rank, &own);
  poison(rank, count);
  uint32_t tokens = pattern_fill(&rank->pattern, op, rank->index, ranks, count, rank->x, rank->topk_idx, rank->weights);
  if (rank->unjudged)
    memset(rank->x, 0x55, (size_t)s->tokens * s->hidden * 2);
  bool cast = s->cast_before && s->dtype != WEFT_EP_BF16;
  if (cast)
    cast_rows(rank, tokens);
  rank->info = (struct weft_ep_info){.size = sizeof rank->info, .lost = rank->lost, .lost_cap = 16};
  rank->result = (struct weft_ep_result){.size = sizeof rank->result, .missing = rank->missing, .missing_cap = 4096};
  struct weft_ep_dispatch_args dispatch = {.size = sizeof dispatch,
                                           .x = rank->x,
                                           .num_tokens = tokens,
                                           .topk_idx = rank->topk_idx,
                                           .topk_weights = s->late_weights ? NULL : rank->weights,
                                           .scales = cast ? rank->x_scales : NULL};
  struct weft_ep_combine_args args = {.size = sizeof args,
                                      .y = rank->y,
                                      .topk_weights = s->late_weights ? rank->weights : NULL,
                                      .flags = s->renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0,
                                      .out = rank->out};
  if (s->vary) {
    rank_vary_dispatch(rank, &own, &dispatch);
    args.dtype = s->combine_dtype;
  }
  if (rank->answers_with)
    args.dtype = rank->answers_with;
  uint64_t number;
  if (s->masks && !mask(rank, op))
    return false;
  if (!send_and_receive(rank, &dispatch, &number))
    return false;
  if (number != op)
    return rank_fail(rank, "operation %llu ran as %llu", (unsigned long long)op, (unsigned long long)number);
  rank_run_experts(rank, kind);
  if (s->vary && !rank_check_status(rank, number))
    return false;
  if (!combine(rank, number, &args))
    return false;
  rank->had_losses |= rank->info.num_lost > 0 || rank->result.num_lost > 0;
  bool settled = rank->epoch == rank->info.epoch;
  if (!settled && op % rank->step != 0 && !rank->had_losses)
    return rank_fail(rank, "view %llu took effect with operation %llu, within a step of %u operations",
                     (unsigned long long)rank->info.epoch, (unsigned long long)op, rank->step);
  rank->epoch = rank->info.epoch;
  if (rank->unjudged || rank->info.num_ranks != count || (rank->had_losses && !settled))
    return true;
  return rank_judge(rank, op, ranks, count, kind);
}

bool rank_operate_n(struct rank *rank, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!rank_operate(rank))
      return false;
  return true;
}

bool rank_sees(struct rank *rank, const int32_t *ranks, uint32_t count) {
  int32_t seen[EP_MAX_CAPACITY];
  uint32_t num_seen;
  weft_ep_view(rank->ep, NULL, seen, EP_MAX_CAPACITY, &num_seen);
  return num_seen == count && memcmp(seen, ranks, count * sizeof *ranks) == 0;
}

bool rank_operate_until(struct rank *rank, const int32_t *ranks, uint32_t count) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!rank_sees(rank, ranks, count)) {
    if (clock_passed(deadline))
      return rank_fail(rank, "the view of %u ranks did not come", count);
    if (!rank_operate(rank))
      return false;
  }
  return true;
}

bool rank_leave(struct rank *rank) {
  if (weft_ep_disconnect(rank->ep, &rank->index, 1, DEADLINE_MS) != 0)
    return rank_fail(rank, "leave: %s", weft_last_error());
  while (weft_ep_is_active(rank->ep))
    if (!rank_operate(rank))
      return false;
  return true;
}

bool rank_end_together(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  weft_ep_set_mark(rank->ep, 1);
  while (rank->info.mark < 1 && !clock_passed(deadline))
    if (!rank_operate(rank))
      return false;
  return rank->info.mark >= 1 ? true : rank_fail(rank, "the end did not come");
}

struct run {
  struct rank *rank;
  const struct setup *setup;
  const int32_t *founders;
  uint32_t count;
  int32_t index;
  rank_body body;
  void *arg;
};

static void *run_rank(void *arg) {
  struct run *run = arg;
  if (rank_open(run->rank, run->setup, run->index, run->founders, run->count) && rank_activate(run->rank))
    run->body(run->rank, run->arg);
  rank_close(run->rank);
  return NULL;
}

void ranks_run(const struct setup *setup, const int32_t *founders, uint32_t count, rank_body body, void *arg) {
  struct rank *ranks = calloc(count, sizeof *ranks);
  struct run *runs = calloc(count, sizeof *runs);
  pthread_t *threads = calloc(count, sizeof *threads);
  assert_true(ranks && runs && threads);
  for (uint32_t i = 0; i < count; i++) {
    runs[i] = (struct run){&ranks[i], setup, founders, count, founders[i], body, arg};
    assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &runs[i]), 0);
  }
  for (uint32_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i].error[0])
      fail_msg("%s", ranks[i].error);
  free(ranks);
  free(runs);
  free(threads);
}
