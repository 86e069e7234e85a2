// Operations of other forms than the plain one: by kept routes, with biases, with weights that go back.
//
// An operation by a kept route has the rows and the top-k of the operation that filled the route, so the judge makes
// both again from the number and the view of that operation.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "run/traffic/internal.h"

// For each selection a rank sends back its weight times this factor: the product is exact, and differs from the old
// value.
#define BACK 2.0f

static bool by_route(const struct traffic *t) {
  return t->form.way == TRAFFIC_KEPT || t->form.way == TRAFFIC_COMBINE_ROUTE;
}

int traffic_form_open(struct traffic *t) {
  t->filled.ranks = calloc(t->capacity, sizeof *t->filled.ranks);
  return t->filled.ranks ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the ranks of a route");
}

void traffic_form_close(struct traffic *t) {
  weft_ep_route_free(t->filled.route);
  free(t->filled.ranks);
}

// Makes biases between -1 and 1, exact in bf16, as a function of the seed, the operation and the rank.
static int make_biases(struct traffic *t, const struct traffic_op *op) {
  size_t count = (size_t)t->config->num_tokens * t->config->hidden, bytes = count * sizeof(uint16_t);
  int err = 0;
  for (uint32_t b = 0; b < t->form.biases && !err; b++) {
    uint64_t state = random_mix(t->config->seed ^ random_mix(op->op * 2 + b)) + (uint64_t)weft_ep_rank(t->ep);
    uint16_t *bias = t->pairs[PAIR_BIAS + b].host;
    for (size_t i = 0; i < count; i += 4) {
      uint64_t bits = random_next(&state);
      for (size_t k = 0; k < 4 && i + k < count; k++) // a sign, an exponent from -8 to -1, 7 bits
        bias[i + k] = (uint16_t)((bits >> 16 * k & 0x807F) | (119 + (bits >> 16 * k >> 7 & 7)) << 7);
    }
    err = buffer_put(t->home, t->pairs[PAIR_BIAS + b].place, bias, bytes);
  }
  return err;
}

static int open_route(struct traffic *t) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_tokens = t->config->num_tokens ? t->config->num_tokens : 1;
  options.max_rows = options.max_tokens * t->max_ranks;
  options.topk = t->config->topk;
  options.alignment = t->config->layout == WEFT_EP_PACKED ? t->config->alignment : 0;
  return t->filled.route ? 0 : weft_ep_route_create(t->ep, &options, &t->filled.route);
}

int traffic_form_prepare(struct traffic *t, struct traffic_op *op) {
  int err = t->form.way == TRAFFIC_FILLING ? open_route(t) : 0;
  if (by_route(t)) {
    op->input_op = t->filled.op;
    op->kind = t->filled.kind;
    op->input_ranks = t->filled.ranks;
    op->num_input_ranks = t->filled.num_ranks;
  }
  return err ? err : make_biases(t, op);
}

void traffic_form_dispatch(const struct traffic *t, struct weft_ep_dispatch_args *args) {
  if (t->form.way == TRAFFIC_FILLING || t->form.way == TRAFFIC_KEPT)
    args->route = t->filled.route;
  if (t->form.way == TRAFFIC_KEPT) {
    args->topk_idx = NULL;
    args->topk_weights = NULL;
  }
}

void traffic_form_receive(const struct traffic *t, struct weft_ep_recv_args *args) {
  if (t->form.weights_back && t->config->layout == WEFT_EP_RANK_MAJOR)
    args->flags |= WEFT_EP_RECV_KEEP_PLACES;
  if (t->form.zero_padding)
    args->flags |= WEFT_EP_RECV_ZERO_PADDING;
}

void traffic_form_combine(const struct traffic *t, struct weft_ep_combine_args *args) {
  for (uint32_t b = 0; b < t->form.biases; b++)
    args->bias[b] = t->pairs[PAIR_BIAS + b].place;
  if (t->form.unweighted)
    args->flags |= WEFT_EP_COMBINE_UNWEIGHTED;
  if (t->form.weights_back) {
    args->row_weights = t->pairs[PAIR_ROW_WEIGHTS].place;
    args->out_weights = t->pairs[PAIR_OUT_WEIGHTS].place;
  }
}

int traffic_form_answer(struct traffic *t) {
  bool packed = t->config->layout == WEFT_EP_PACKED;
  size_t count = packed ? t->info.rows_needed : (size_t)t->info.num_rows * t->config->topk;
  float *back = t->pairs[PAIR_ROW_WEIGHTS].host;
  if (!t->form.weights_back)
    return 0;
  for (size_t i = 0; i < count; i++)
    back[i] = packed || t->recv.local_expert[i] >= 0 ? BACK * t->recv.weights[i] : 0;
  return buffer_put(t->home, t->pairs[PAIR_ROW_WEIGHTS].place, back, count * sizeof *back);
}

int traffic_form_note(struct traffic *t, const struct traffic_op *op) {
  if (t->form.way != TRAFFIC_FILLING)
    return 0;
  t->filled.op = op->op;
  t->filled.kind = op->kind;
  t->filled.num_tokens = t->input.num_tokens;
  t->filled.num_ranks = op->num_ranks;
  memcpy(t->filled.ranks, op->ranks, op->num_ranks * sizeof *op->ranks);
  return 0;
}

int traffic_combine(struct traffic *t, const struct weft_ep_combine_args *args, struct weft_ep_result *result,
                    uint64_t *op) {
  return t->form.way == TRAFFIC_COMBINE_ROUTE ? weft_ep_combine_route(t->ep, t->filled.route, args, result, op)
                                              : weft_ep_combine(t->ep, *op, args, result);
}

int traffic_check_refused(struct traffic *t) {
  struct weft_ep_dispatch_args dispatch = {.size = sizeof dispatch,
                                           .x = t->x,
                                           .num_tokens = t->filled.num_tokens,
                                           .route = t->filled.route,
                                           .stream = t->home->stream};
  struct weft_ep_combine_args combine = {
      .size = sizeof combine, .y = t->pairs[PAIR_Y].place, .out = t->pairs[PAIR_OUT].place, .stream = t->home->stream};
  uint64_t next = weft_ep_next_op(t->ep), op;
  int err = weft_ep_dispatch(t->ep, &dispatch, &t->place, NULL, &op);
  if (err == WEFT_ERR_CONFLICT)
    err = weft_ep_combine_route(t->ep, t->filled.route, &combine, NULL, &op);
  if (err != WEFT_ERR_CONFLICT)
    return fail(WEFT_ERR_DATA,
                "the route of operation %llu was used after a rank had joined: want CONFLICT, but it returned %s%s%s",
                (unsigned long long)t->filled.op, err ? weft_strerror(err) : "an operation", err ? ": " : "",
                err ? weft_last_error() : "");
  if (weft_ep_next_op(t->ep) != next)
    return fail(WEFT_ERR_DATA, "the route of operation %llu was refused, but an operation began",
                (unsigned long long)t->filled.op);
  return 0;
}

// --- judge of results that the oracle does not see ---

// Compares the tokens of each rank and the selections of each expert with the top-k that this rank gave.
static int judge_counts(struct traffic *t, const struct traffic_op *op) {
  const struct run_config *config = t->config;
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  size_t experts = (size_t)t->capacity * config->experts_per_rank;
  size_t selections = (size_t)t->input.num_tokens * config->topk;
  int32_t *counted = malloc((experts + t->capacity) * sizeof *counted);
  uint64_t *right = calloc(experts + t->capacity, sizeof *right);
  int err = counted && right ? weft_ep_route_get_arrays(t->filled.route, &arrays)
                             : fail(WEFT_ERR_NOMEM, "no memory for the counts of a route");
  if (!err)
    err = buffer_get(t->home, counted, arrays.tokens_per_expert, experts * sizeof *counted);
  if (!err)
    err = buffer_get(t->home, counted + experts, arrays.tokens_per_rank, t->capacity * sizeof *counted);
  for (size_t i = 0; !err && i < selections; i++)
    if (t->input.topk[i] >= 0)
      right[t->input.topk[i]]++;
  if (!err)
    traffic_add_rows(t, right + experts);
  for (size_t i = 0; !err && i < experts + t->capacity; i++)
    if (counted[i] != (int64_t)right[i])
      err = fail(WEFT_ERR_DATA, "the route of operation %llu is wrong: %s %zu has %d tokens of this rank, and not %llu",
                 (unsigned long long)op->op, i < experts ? "expert" : "rank", i < experts ? i : i - experts, counted[i],
                 (unsigned long long)right[i]);
  free(counted);
  free(right);
  return err;
}

float *traffic_form_weights(const struct traffic *t) {
  size_t count = (size_t)t->input.num_tokens * t->config->topk;
  float *given = malloc((count + 1) * sizeof *given);
  for (size_t i = 0; given && i < count; i++)
    given[i] = BACK * t->input.weights[i];
  return given;
}

int traffic_form_judge(struct traffic *t, const struct traffic_op *op) {
  return t->form.way == TRAFFIC_FILLING ? judge_counts(t, op) : 0;
}
