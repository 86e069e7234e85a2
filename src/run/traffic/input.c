// What a rank sends: made from the pattern, and brought to where the operation reads it.
#include <stdlib.h>

#include "base/fail.h"
#include "run/traffic/internal.h"

int traffic_input_open(struct traffic_input *input, const struct run_config *config) {
  size_t tokens = config->num_tokens ? config->num_tokens : 1;
  input->x = malloc(tokens * config->hidden * sizeof *input->x);
  input->topk = malloc(tokens * config->topk * sizeof *input->topk);
  input->weights = malloc(tokens * config->topk * sizeof *input->weights);
  return input->x && input->topk && input->weights
             ? 0
             : fail(WEFT_ERR_NOMEM, "no memory for %zu tokens of %u values", tokens, config->hidden);
}

void traffic_input_close(struct traffic_input *input) {
  free(input->x);
  free(input->topk);
  free(input->weights);
}

// Operations of the plain kind are the ones that are timed: full, and all the same size. The others bring the odd
// cases.
struct pattern traffic_pattern(const struct run_config *config, enum pattern_kind kind) {
  return (struct pattern){
      .seed = config->seed,
      .num_tokens = config->num_tokens,
      .hidden = config->hidden,
      .topk = config->topk,
      .experts_per_rank = config->experts_per_rank,
      .uneven = kind == PATTERN_SCALED,
      .drop = kind == PATTERN_PLAIN ? 0 : 0.1f,
  };
}

void traffic_fill_input(struct traffic *t, uint64_t op, const int32_t *ranks, uint32_t num_ranks) {
  struct pattern pattern = traffic_pattern(t->config, pattern_kind_of(op));
  struct traffic_input *input = &t->input;
  input->num_tokens =
      pattern_fill(&pattern, op, weft_ep_rank(t->ep), ranks, num_ranks, input->x, input->topk, input->weights);
  t->input_op = op;
}

static int put_rows(struct traffic *t, struct traffic_slot *slot, uint64_t op) {
  traffic_fill_input(t, op, t->ranks, 1); // any view will do for the rows
  slot->has_rows = false;
  int err = buffer_put(t->home, slot->x, t->input.x, (size_t)t->input.num_tokens * t->config->hidden * sizeof *slot->x);
  t->input_op = UINT64_MAX; // its routing is not the operation's
  slot->op = op;
  slot->num_tokens = t->input.num_tokens;
  slot->routed_epoch = 0;
  slot->has_rows = !err;
  return err;
}

// Rows of narrow tokens cost next to nothing, and the routing is the same.
static int put_routing(struct traffic *t, struct traffic_slot *slot, const struct traffic_op *op) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  pattern.hidden = WEFT_EP_BLOCK;
  pattern_fill(&pattern, op->op, weft_ep_rank(t->ep), op->ranks, op->num_ranks, t->narrow, t->input.topk,
               t->input.weights);
  size_t count = (size_t)slot->num_tokens * t->config->topk;
  int err = buffer_put(t->home, slot->topk, t->input.topk, count * sizeof *slot->topk);
  if (!err)
    err = buffer_put(t->home, slot->weights, t->input.weights, count * sizeof *slot->weights);
  slot->routed_epoch = err ? 0 : op->begin_epoch;
  return err;
}

// As far as the operation before the next one of the scaled kind, whose experts are at work on the host anyway: so
// those that are timed find their rows made.
static int put_rows_ahead(struct traffic *t, uint64_t op) {
  int err = 0;
  for (uint64_t next = op; !err && next < op + TRAFFIC_SLOTS; next++) {
    err = put_rows(t, &t->slots[next % TRAFFIC_SLOTS], next);
    if (pattern_kind_of(next + 1) == PATTERN_SCALED)
      break;
  }
  return err;
}

int traffic_prepare_input(struct traffic *t, const struct traffic_op *op, bool *ready) {
  int err = 0;
  if (!t->home->api) {
    t->slot = &t->slots[0];
    traffic_fill_input(t, op->op, op->ranks, op->num_ranks);
    *ready = true;
    return 0;
  }
  t->slot = &t->slots[op->op % TRAFFIC_SLOTS];
  *ready = t->slot->has_rows && t->slot->op == op->op;
  if (!*ready)
    err = put_rows_ahead(t, op->op);
  if (!err && t->slot->routed_epoch != op->begin_epoch)
    err = put_routing(t, t->slot, op);
  t->input.num_tokens = t->slot->num_tokens;
  t->input_op = UINT64_MAX;
  return err;
}

int traffic_check_number(uint64_t expected, uint64_t begun) {
  return begun == expected ? 0
                           : fail(WEFT_ERR_DATA, "operation %llu was to begin, but dispatch began %llu",
                                  (unsigned long long)expected, (unsigned long long)begun);
}
