// Runs one operation: prepares it, dispatches, lets the experts answer, and combines.
#include "run/traffic/traffic.h"

#include <stdlib.h>

#include "base/ep_limits.h"
#include "base/fail.h"
#include "base/time/clock.h"
#include "run/traffic/internal.h"

int traffic_open(struct traffic **out, weft_ep_t *ep, const struct run_config *config, struct buffer_home *home,
                 uint32_t capacity, uint32_t max_ranks) {
  struct traffic *t = calloc(1, sizeof *t);
  if (!t)
    return fail(WEFT_ERR_NOMEM, "no memory for the traffic");
  t->ep = ep;
  t->config = config;
  t->home = home;
  t->capacity = capacity;
  t->max_ranks = max_ranks;
  int err = traffic_memory_open(t);
  if (!err)
    err = traffic_gpu_open(t);
  if (err) {
    traffic_close(t);
    return err;
  }
  *out = t;
  return 0;
}

void traffic_close(struct traffic *t) {
  if (!t)
    return;
  traffic_gpu_close(t);
  traffic_memory_close(t);
  free(t);
}

enum pattern_kind traffic_next_kind(const struct traffic *t) {
  return pattern_kind_of(weft_ep_next_op(t->ep));
}

static int run_dispatch(struct traffic *t, const struct weft_ep_dispatch_args *args, struct traffic_op *op) {
  uint64_t expected = op->op;
  op->begin_ns = clock_ns();
  int err = weft_ep_dispatch_send(t->ep, args, &op->op);
  if (!err)
    err = traffic_check_number(expected, op->op);
  if (!err)
    err = weft_ep_dispatch_recv(t->ep, op->op, &t->place, &t->info);
  op->dispatch_ns = clock_ns() - op->begin_ns;
  return err;
}

static int run_combine(struct traffic *t, const struct weft_ep_combine_args *args, struct traffic_op *op) {
  uint64_t begin = op->combine_begin_ns = clock_ns();
  int err = weft_ep_combine_send(t->ep, op->op, args);
  if (!err)
    err = weft_ep_combine_recv(t->ep, op->op, args, &t->result);
  op->combine_ns = clock_ns() - begin;
  return err;
}

static void describe(struct traffic *t, struct traffic_op *op) {
  op->epoch = t->info.epoch;
  op->settled = op->begin_epoch == op->epoch && t->last_epoch == op->epoch;
  op->lost = t->lost;
  op->num_lost = t->info.num_lost;
  op->mark = t->info.mark;
  op->num_silent = t->result.num_lost;
  op->num_missing = t->result.num_missing;
  op->dispatch_logical = t->info.logical_bytes;
  op->dispatch_wire = t->info.wire_bytes;
  op->combine_logical = t->result.logical_bytes;
  op->combine_wire = t->result.wire_bytes;
  t->last_epoch = op->epoch;
}

// Weights come with the combine in operations of the constant kind, so that both ways are judged.
static bool weighs_late(const struct traffic *t, enum pattern_kind kind) {
  return kind == PATTERN_CONSTANT && t->config->layout == WEFT_EP_PER_EXPERT;
}

// By the operation's number alone, so that all ranks answer alike, whatever each does with the operation.
static enum traffic_answer answer_of(const struct traffic *t, enum pattern_kind kind) {
  bool plain_rows = t->config->layout == WEFT_EP_PER_EXPERT && t->config->dtype == WEFT_EP_BF16;
  if (kind != PATTERN_SCALED && plain_rows)
    return TRAFFIC_SAME; // an identity needs no copy
  return t->home->api && kind == PATTERN_PLAIN ? TRAFFIC_HELD : TRAFFIC_EXPERTS;
}

// Looks up the view of the next operation, and makes this rank's input.
static int prepare(struct traffic *t, struct traffic_op *op) {
  uint32_t count = 0;
  *op = (struct traffic_op){.op = weft_ep_next_op(t->ep), .ranks = t->ranks};
  op->kind = pattern_kind_of(op->op);
  int err = weft_ep_view(t->ep, &op->begin_epoch, t->ranks, t->capacity, &count);
  if (err)
    return err;
  if (count > t->max_ranks)
    return fail(WEFT_ERR_LIMIT, "view %llu has %u ranks, but the plan never has more than %u",
                (unsigned long long)op->begin_epoch, count, t->max_ranks);
  op->num_ranks = count;
  t->answer = answer_of(t, op->kind);
  t->renormalize = op->op % 2 == 1;
  t->has_copies = false;
  err = traffic_prepare_input(t, op);
  op->in_step = !t->home->api || t->answer != TRAFFIC_EXPERTS;
  t->info = (struct weft_ep_info){.size = sizeof t->info, .lost = t->lost, .lost_cap = t->capacity};
  t->result = (struct weft_ep_result){
      .size = sizeof t->result, .missing = t->missing, .missing_cap = t->input.num_tokens * t->config->topk};
  return err;
}

static struct weft_ep_dispatch_args dispatch_args(const struct traffic *t, enum pattern_kind kind) {
  return (struct weft_ep_dispatch_args){.size = sizeof(struct weft_ep_dispatch_args),
                                        .x = t->x,
                                        .num_tokens = t->input.num_tokens,
                                        .topk_idx = t->topk,
                                        .topk_weights = weighs_late(t, kind) ? NULL : t->weights,
                                        .stream = t->home->stream};
}

static struct weft_ep_combine_args combine_args(const struct traffic *t, enum pattern_kind kind) {
  return (struct weft_ep_combine_args){.size = sizeof(struct weft_ep_combine_args),
                                       .y = t->answer == TRAFFIC_SAME ? t->place.x : t->pairs[PAIR_Y].place,
                                       .topk_weights = weighs_late(t, kind) ? t->weights : NULL,
                                       .flags = t->renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0,
                                       .out = t->pairs[PAIR_OUT].place,
                                       .stream = t->home->stream};
}

static int operate(struct traffic *t, const struct weft_ep_dispatch_args *dispatch,
                   const struct weft_ep_combine_args *combine, struct traffic_op *op) {
  int err = run_dispatch(t, dispatch, op);
  if (err)
    return err;
  if (t->answer == TRAFFIC_EXPERTS)
    traffic_experts(t, op->kind);
  return run_combine(t, combine, op);
}

int traffic_run(struct traffic *t, bool with_poison, struct traffic_op *op) {
  struct traffic_op done;
  int err = prepare(t, &done);
  if (!err && with_poison)
    err = traffic_poison(t);
  if (err)
    return err;
  struct weft_ep_dispatch_args dispatch = dispatch_args(t, done.kind);
  struct weft_ep_combine_args combine = combine_args(t, done.kind);
  err = t->home->api ? traffic_gpu_operate(t, &dispatch, &combine, &done) : operate(t, &dispatch, &combine, &done);
  if (err)
    return err;
  traffic_note_dirty(t);
  describe(t, &done);
  *op = done;
  return 0;
}

int traffic_send_only(struct traffic *t) {
  struct traffic_op op;
  int err = prepare(t, &op);
  if (err)
    return err;
  struct weft_ep_dispatch_args dispatch = dispatch_args(t, op.kind);
  return weft_ep_dispatch_send(t->ep, &dispatch, &op.op);
}

// The ranks that a token goes to, each once, out of its selections; returns how many.
static uint32_t ranks_of(const struct traffic *t, uint32_t token, int32_t ranks[EP_MAX_TOPK]) {
  const int64_t *topk = t->input.topk + (size_t)token * t->config->topk;
  uint32_t count = 0;
  for (uint32_t k = 0; k < t->config->topk; k++) {
    if (topk[k] < 0)
      continue;
    int32_t rank = (int32_t)(topk[k] / t->config->experts_per_rank);
    uint32_t i = 0;
    while (i < count && ranks[i] != rank)
      i++;
    ranks[i] = rank;
    count += i == count;
  }
  return count;
}

void traffic_add_rows(const struct traffic *t, uint64_t *rows) {
  int32_t ranks[EP_MAX_TOPK];
  for (uint32_t token = 0; token < t->input.num_tokens; token++) {
    uint32_t count = ranks_of(t, token, ranks);
    for (uint32_t i = 0; i < count; i++)
      rows[ranks[i]]++;
  }
}

uint32_t traffic_remote_rows(const struct traffic *t) {
  int32_t ranks[EP_MAX_TOPK], own = weft_ep_rank(t->ep);
  uint32_t rows = 0;
  for (uint32_t token = 0; token < t->input.num_tokens; token++) {
    uint32_t count = ranks_of(t, token, ranks);
    for (uint32_t i = 0; i < count; i++)
      rows += ranks[i] != own;
  }
  return rows;
}
