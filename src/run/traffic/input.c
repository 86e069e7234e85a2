// Makes the input of a rank from the pattern, and copies it to where the operation reads it.
#include <stdlib.h>

#include "base/ep_limits.h"
#include "base/fail.h"
#include "run/traffic/internal.h"

enum { POOL_MIN = 256, POOL_MORE = 4096 };

static size_t tokens_of(const struct run_config *config) {
  return config->num_tokens ? config->num_tokens : 1;
}

int traffic_input_open(struct traffic_input *input, const struct run_config *config, bool with_rows) {
  size_t tokens = tokens_of(config);
  input->x = with_rows ? malloc(tokens * config->hidden * sizeof *input->x) : NULL;
  input->topk = malloc(tokens * config->topk * sizeof *input->topk);
  input->weights = malloc(tokens * config->topk * sizeof *input->weights);
  return (input->x || !with_rows) && input->topk && input->weights
             ? 0
             : fail(WEFT_ERR_NOMEM, "no memory for %zu tokens of %u values", tokens, config->hidden);
}

void traffic_input_close(struct traffic_input *input, bool with_rows) {
  if (with_rows)
    free(input->x);
  free(input->topk);
  free(input->weights);
}

// The number is odd, so that operations at a regular distance do not share a part of the pool. It is large enough that
// hardly any two operations share a part.
static uint32_t pool_rows(const struct run_config *config) {
  uint32_t more = config->num_tokens < POOL_MORE ? config->num_tokens : POOL_MORE;
  uint32_t rows = (config->num_tokens + more) | 1;
  return rows > POOL_MIN ? rows : POOL_MIN + 1;
}

// Only operations of the plain kind are timed: they are full, and all have the same size. The other kinds contain the
// unusual cases.
struct pattern traffic_pattern(const struct run_config *config, enum pattern_kind kind) {
  return (struct pattern){
      .seed = config->seed,
      .num_tokens = config->num_tokens,
      .hidden = config->hidden,
      .topk = config->topk,
      .experts_per_rank = config->experts_per_rank,
      .uneven = kind == PATTERN_SCALED,
      .drop = kind == PATTERN_PLAIN ? 0 : 0.1f,
      .pool = pool_rows(config),
  };
}

static size_t pool_bytes(const struct traffic *t) {
  return (2 * tokens_of(t->config) + t->pool.rows) * t->config->hidden * sizeof *t->pool.host;
}

int traffic_pool_open(struct traffic *t) {
  struct pattern pattern = traffic_pattern(t->config, PATTERN_CONSTANT);
  size_t tokens = tokens_of(t->config);
  int32_t self = weft_ep_rank(t->ep);
  t->pool.rows = pattern.pool;
  t->pool.host = malloc(pool_bytes(t));
  if (!t->pool.host)
    return fail(WEFT_ERR_NOMEM, "no memory for %zu bytes of rows", pool_bytes(t));
  pattern_fill(&pattern, 0, self, &self, 1, t->pool.host, t->input.topk, t->input.weights); // operation 0 is constant
  pattern_pool_fill(&pattern, self, 0, pattern.pool + (uint32_t)tokens, t->pool.host + tokens * t->config->hidden);
  t->pool.place = t->pool.host;
  if (!t->home->api)
    return 0;
  t->pool.place = NULL;
  int err = buffer_allocate(t->home, pool_bytes(t), &t->pool.place);
  return err ? err : buffer_put(t->home, t->pool.place, t->pool.host, pool_bytes(t));
}

void traffic_pool_close(struct traffic *t) {
  if (t->home->api)
    buffer_release(t->home, t->pool.place, pool_bytes(t));
  free(t->pool.host);
}

// Makes the routing with narrow rows, which cost very little. The routing does not depend on the width.
static void make_routing(struct traffic *t, const struct traffic_op *op) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  pattern.hidden = WEFT_EP_BLOCK;
  t->input.num_tokens = pattern_fill(&pattern, op->input_op, weft_ep_rank(t->ep), op->input_ranks, op->num_input_ranks,
                                     t->narrow, t->input.topk, t->input.weights);
}

int traffic_prepare_input(struct traffic *t, const struct traffic_op *op) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  size_t first = op->kind == PATTERN_CONSTANT
                     ? 0
                     : tokens_of(t->config) + pattern_pool_start(&pattern, op->input_op, weft_ep_rank(t->ep));
  make_routing(t, op);
  t->input.x = t->pool.host + first * t->config->hidden;
  t->x = t->pool.place + first * t->config->hidden;
  size_t count = (size_t)t->input.num_tokens * t->config->topk;
  int err = buffer_put(t->home, t->topk, t->input.topk, count * sizeof *t->topk);
  return err ? err : buffer_put(t->home, t->weights, t->input.weights, count * sizeof *t->weights);
}

int traffic_check_number(uint64_t expected, uint64_t begun) {
  return begun == expected ? 0
                           : fail(WEFT_ERR_DATA, "dispatch should have begun operation %llu, but began %llu",
                                  (unsigned long long)expected, (unsigned long long)begun);
}

// Gets the ranks that a token's selections name, each once. Returns how many.
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
