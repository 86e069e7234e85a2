// Runs one operation: prepares it, dispatches, lets the experts answer, and combines.
#include "run/traffic/traffic.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/traffic/internal.h"

static int complete(struct traffic **out, struct traffic *t) {
  int err = traffic_memory_open(t);
  if (!err)
    err = traffic_gpu_open(t);
  if (!err && t->has_forms)
    err = traffic_form_open(t);
  if (err) {
    traffic_close(t);
    return err;
  }
  *out = t;
  return 0;
}

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
  return complete(out, t);
}

int traffic_open_variant(struct traffic **out, struct traffic *other, const struct run_config *config) {
  struct traffic *t = calloc(1, sizeof *t);
  int err = t ? traffic_open_others(other) : fail(WEFT_ERR_NOMEM, "no memory for the traffic");
  if (err) {
    free(t);
    return err;
  }
  t->ep = other->ep;
  t->config = config;
  t->home = other->home;
  t->capacity = other->capacity;
  t->max_ranks = other->max_ranks;
  t->shares_pool = t->has_forms = true;
  t->pool = other->pool;
  t->others = other->others;
  return complete(out, t);
}

void traffic_set_form(struct traffic *t, const struct traffic_form *form) {
  t->form = *form;
}

void traffic_close(struct traffic *t) {
  if (!t)
    return;
  traffic_form_close(t);
  traffic_gpu_close(t);
  traffic_memory_close(t);
  free(t);
}

enum pattern_kind traffic_next_kind(const struct traffic *t) {
  return pattern_kind_of(weft_ep_next_op(t->ep));
}

// In throughput mode a half has no separate calls to send and to receive: its rows flow in pieces, in both directions
// at once.
static bool has_halves(const struct traffic *t) {
  return t->config->mode != WEFT_EP_THROUGHPUT;
}

static int run_dispatch(struct traffic *t, const struct weft_ep_dispatch_args *args, struct traffic_op *op) {
  struct weft_ep_recv_args recv = t->place;
  uint64_t expected = op->op;
  traffic_form_receive(t, &recv);
  op->begin_ns = clock_ns();
  int err = has_halves(t) ? weft_ep_dispatch_send(t->ep, args, &op->op)
                          : weft_ep_dispatch(t->ep, args, &recv, &t->info, &op->op);
  if (!err)
    err = traffic_check_number(expected, op->op);
  if (!err && has_halves(t))
    err = weft_ep_dispatch_recv(t->ep, op->op, &recv, &t->info);
  op->dispatch_ns = clock_ns() - op->begin_ns;
  return err;
}

static int run_combine(struct traffic *t, const struct weft_ep_combine_args *args, struct traffic_op *op) {
  uint64_t expected = op->op, begin = op->combine_begin_ns = clock_ns();
  bool in_one = !has_halves(t) || t->form.way == TRAFFIC_COMBINE_ROUTE;
  int err = in_one ? traffic_combine(t, args, &t->result, &op->op) : weft_ep_combine_send(t->ep, op->op, args);
  if (!err && !in_one)
    err = weft_ep_combine_recv(t->ep, op->op, args, &t->result);
  op->combine_ns = clock_ns() - begin;
  return err ? err : traffic_check_number(expected, op->op);
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

// In operations of the constant kind the weights are given to the combine, so that both ways to give them are judged.
// In throughput mode they are always given to the dispatch.
static bool weighs_late(const struct traffic *t, enum pattern_kind kind) {
  return kind == PATTERN_CONSTANT && t->config->layout == WEFT_EP_PER_EXPERT && has_halves(t) && !t->has_forms;
}

// The answer depends only on the operation's number, so that all ranks answer alike, whether or not they judge the
// operation.
static enum traffic_answer answer_of(const struct traffic *t, enum pattern_kind kind) {
  bool plain_rows = t->config->layout != WEFT_EP_RANK_MAJOR && t->config->dtype == WEFT_EP_BF16;
  if (t->has_forms)
    return TRAFFIC_EXPERTS;
  if (kind != PATTERN_SCALED && plain_rows)
    return TRAFFIC_SAME; // the identity needs no copy
  return t->home->api && kind == PATTERN_PLAIN ? TRAFFIC_HELD : TRAFFIC_EXPERTS;
}

// Looks up the view of the next operation, and makes this rank's input.
static int prepare(struct traffic *t, struct traffic_op *op) {
  uint32_t count = 0;
  *op = (struct traffic_op){.op = weft_ep_next_op(t->ep), .ranks = t->ranks};
  op->kind = pattern_kind_of(op->op);
  op->input_op = op->op;
  op->input_ranks = op->ranks;
  int err = weft_ep_view(t->ep, &op->begin_epoch, t->ranks, t->capacity, &count);
  if (err)
    return err;
  if (count > t->max_ranks)
    return fail(WEFT_ERR_LIMIT, "view %llu has %u ranks, but the plan never has more than %u",
                (unsigned long long)op->begin_epoch, count, t->max_ranks);
  op->num_ranks = op->num_input_ranks = count;
  err = t->has_forms ? traffic_form_prepare(t, op) : 0;
  if (err)
    return err;
  t->answer = answer_of(t, op->kind);
  t->renormalize = op->op % 2 == 1;
  t->result = (struct weft_ep_result){
      .size = sizeof t->result, .missing = t->missing, .missing_cap = t->config->num_tokens * t->config->topk};
  if (t->form.way == TRAFFIC_COMBINE_ROUTE) // it uses the rows that the previous operation received
    return 0;
  t->has_copies = false;
  err = traffic_prepare_input(t, op);
  op->in_step = !t->home->api || t->answer != TRAFFIC_EXPERTS;
  t->info = (struct weft_ep_info){.size = sizeof t->info, .lost = t->lost, .lost_cap = t->capacity};
  return err;
}

static struct weft_ep_dispatch_args dispatch_args(const struct traffic *t, enum pattern_kind kind) {
  struct weft_ep_dispatch_args args = {.size = sizeof args,
                                       .x = t->x,
                                       .num_tokens = t->input.num_tokens,
                                       .topk_idx = t->topk,
                                       .topk_weights = weighs_late(t, kind) ? NULL : t->weights,
                                       .stream = t->home->stream,
                                       .processors = t->config->processors};
  traffic_form_dispatch(t, &args);
  return args;
}

static struct weft_ep_combine_args combine_args(const struct traffic *t, enum pattern_kind kind) {
  struct weft_ep_combine_args args = {.size = sizeof args,
                                      .y = t->answer == TRAFFIC_SAME ? t->place.x : t->pairs[PAIR_Y].place,
                                      .topk_weights = weighs_late(t, kind) ? t->weights : NULL,
                                      .flags = t->renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0,
                                      .out = t->pairs[PAIR_OUT].place,
                                      .stream = t->home->stream,
                                      .processors = t->config->processors};
  traffic_form_combine(t, &args);
  return args;
}

static int operate(struct traffic *t, const struct weft_ep_dispatch_args *dispatch,
                   const struct weft_ep_combine_args *combine, struct traffic_op *op) {
  if (t->form.way == TRAFFIC_COMBINE_ROUTE)
    return run_combine(t, combine, op);
  int err = run_dispatch(t, dispatch, op);
  if (!err)
    err = traffic_form_note(t, op);
  if (err)
    return err;
  if (t->answer == TRAFFIC_EXPERTS)
    traffic_experts(t, op->kind);
  err = traffic_form_answer(t);
  return err ? err : run_combine(t, combine, op);
}

int traffic_run(struct traffic *t, bool with_poison, struct traffic_op *op) {
  struct traffic_op done;
  int err = prepare(t, &done);
  if (!err && with_poison && t->form.way != TRAFFIC_COMBINE_ROUTE)
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
  return has_halves(t) ? weft_ep_dispatch_send(t->ep, &dispatch, &op.op)
                       : weft_ep_dispatch(t->ep, &dispatch, &t->place, NULL, &op.op);
}
