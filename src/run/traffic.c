#include "run/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fail.h"
#include "run/traffic_internal.h"

enum { POISON = 0xA5, POISON_MARGIN = 8 };

// Pages appear when they are touched: receive buffers are sized for the worst routing, of which little is used.
static int map(void *out, size_t size) {
  void *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return fail_errno(errno, "no memory for a buffer of %zu bytes", size);
  memcpy(out, &at, sizeof at);
  return 0;
}

static void unmap(void *at, size_t size) {
  if (at)
    munmap(at, size ? size : 1);
}

static size_t value_size(const struct run_config *config) {
  return config->dtype == WEFT_EP_BF16 ? 2 : 1;
}

static size_t scale_bytes(const struct run_config *config) {
  size_t blocks = config->hidden / WEFT_EP_BLOCK;
  return config->dtype == WEFT_EP_FP8_UE8M0 ? (blocks + 3) / 4 * sizeof(uint32_t) : blocks * sizeof(float);
}

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

static int open_receive(struct traffic *t) {
  const struct run_config *config = t->config;
  bool per_expert = config->layout == WEFT_EP_PER_EXPERT;
  t->groups = per_expert ? config->experts_per_rank : 1;
  t->rows = (config->num_tokens ? config->num_tokens : 1) * t->max_ranks;
  size_t all = (size_t)t->groups * t->rows, hidden = config->hidden;
  struct weft_ep_recv *recv = &t->recv;
  *recv = (struct weft_ep_recv){.size = sizeof *recv, .layout = config->layout, .rows = t->rows};
  int err = map(&recv->x, all * hidden * value_size(config));
  if (!err && config->dtype != WEFT_EP_BF16)
    err = map(&recv->scales, all * scale_bytes(config));
  if (!err)
    err = map(&t->y, all * hidden * sizeof *t->y);
  recv->counts = calloc(config->experts_per_rank, sizeof *recv->counts);
  recv->src_rank = calloc(all, sizeof *recv->src_rank);
  recv->src_token = calloc(all, sizeof *recv->src_token);
  recv->range = calloc((size_t)t->groups * t->capacity, sizeof *recv->range);
  recv->local_expert = per_expert ? NULL : calloc(all * config->topk, sizeof *recv->local_expert);
  recv->weights = per_expert ? NULL : calloc(all * config->topk, sizeof *recv->weights);
  t->dirty = calloc(t->groups, sizeof *t->dirty);
  bool complete = recv->counts && recv->src_rank && recv->src_token && recv->range && t->dirty &&
                  (per_expert || (recv->local_expert && recv->weights));
  return err || complete ? err : fail(WEFT_ERR_NOMEM, "no memory to receive %zu rows", all);
}

static void close_receive(struct traffic *t) {
  size_t all = (size_t)t->groups * t->rows, hidden = t->config->hidden;
  unmap(t->recv.x, all * hidden * value_size(t->config));
  unmap(t->recv.scales, all * scale_bytes(t->config));
  unmap(t->y, all * hidden * sizeof *t->y);
  free(t->recv.counts);
  free(t->recv.src_rank);
  free(t->recv.src_token);
  free(t->recv.range);
  free(t->recv.local_expert);
  free(t->recv.weights);
  free(t->dirty);
}

int traffic_open(struct traffic **out, weft_ep_t *ep, const struct run_config *config, uint32_t capacity,
                 uint32_t max_ranks) {
  struct traffic *t = calloc(1, sizeof *t);
  if (!t)
    return fail(WEFT_ERR_NOMEM, "no memory for the traffic");
  t->ep = ep;
  t->config = config;
  t->capacity = capacity;
  t->max_ranks = max_ranks;
  size_t selections = (size_t)config->num_tokens * config->topk + 1;
  int err = traffic_input_open(&t->input, config);
  if (!err)
    err = open_receive(t);
  t->row = malloc((size_t)(config->topk + 1) * config->hidden * sizeof *t->row);
  t->out = malloc((size_t)(config->num_tokens + 1) * config->hidden * sizeof *t->out);
  t->missing = malloc(selections * sizeof *t->missing);
  t->ranks = malloc(capacity * sizeof *t->ranks);
  t->lost = malloc(capacity * sizeof *t->lost);
  if (!err && !(t->row && t->out && t->missing && t->ranks && t->lost))
    err = fail(WEFT_ERR_NOMEM, "no memory for the traffic");
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
  for (uint32_t i = 0; t->others && i < t->max_ranks; i++)
    traffic_input_close(&t->others[i]);
  free(t->others);
  traffic_input_close(&t->input);
  close_receive(t);
  free(t->row);
  free(t->out);
  free(t->missing);
  free(t->ranks);
  free(t->lost);
  free(t);
}

enum pattern_kind traffic_next_kind(const struct traffic *t) {
  return pattern_kind_of(weft_ep_next_op(t->ep));
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

// Rows that no operation has reached still hold zeroes, which no judge takes for data; rubbish goes where data was.
static void poison(struct traffic *t) {
  const struct run_config *config = t->config;
  struct weft_ep_recv *recv = &t->recv;
  size_t hidden = config->hidden, all = (size_t)t->groups * t->rows;
  for (uint32_t g = 0; g < t->groups; g++) {
    size_t first = (size_t)g * t->rows, rows = t->dirty[g] + POISON_MARGIN;
    rows = rows < t->rows ? rows : t->rows;
    memset((char *)recv->x + first * hidden * value_size(config), POISON, rows * hidden * value_size(config));
    memset(t->y + first * hidden, POISON, rows * hidden * sizeof *t->y);
    if (recv->scales)
      memset((char *)recv->scales + first * scale_bytes(config), POISON, rows * scale_bytes(config));
  }
  memset(recv->counts, POISON, config->experts_per_rank * sizeof *recv->counts);
  memset(recv->src_rank, POISON, all * sizeof *recv->src_rank);
  memset(recv->src_token, POISON, all * sizeof *recv->src_token);
  memset(recv->range, POISON, (size_t)t->groups * t->capacity * sizeof *recv->range);
  if (recv->local_expert) {
    memset(recv->local_expert, POISON, all * config->topk * sizeof *recv->local_expert);
    memset(recv->weights, POISON, all * config->topk * sizeof *recv->weights);
  }
  memset(t->out, 0xFF, (size_t)config->num_tokens * hidden * sizeof *t->out); // NaN
}

static void note_dirty(struct traffic *t) {
  for (uint32_t g = 0; g < t->groups; g++) {
    uint32_t rows = t->config->layout == WEFT_EP_PER_EXPERT ? (uint32_t)t->recv.counts[g] : t->info.num_rows;
    t->dirty[g] = rows > t->dirty[g] ? rows : t->dirty[g];
  }
}

static int run_dispatch(struct traffic *t, const struct weft_ep_dispatch *args, struct traffic_op *op) {
  t->info = (struct weft_ep_info){.size = sizeof t->info, .lost = t->lost, .lost_cap = t->capacity};
  uint64_t expected = op->op;
  op->begin_ns = clock_ns();
  int err = weft_ep_dispatch_send(t->ep, args, &op->op);
  if (!err && op->op != expected)
    err = fail(WEFT_ERR_DATA, "operation %llu was to begin, but dispatch began %llu", (unsigned long long)expected,
               (unsigned long long)op->op);
  if (!err)
    err = weft_ep_dispatch_recv(t->ep, op->op, &t->recv, &t->info);
  op->dispatch_ns = clock_ns() - op->begin_ns;
  return err;
}

static int run_combine(struct traffic *t, const struct weft_ep_combine *args, struct traffic_op *op) {
  t->result = (struct weft_ep_result){
      .size = sizeof t->result, .missing = t->missing, .missing_cap = t->input.num_tokens * t->config->topk};
  uint64_t begin = clock_ns();
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

// Looks up the view of the next operation, and makes this rank's input.
static int prepare(struct traffic *t, struct traffic_op *op) {
  size_t count = 0;
  *op = (struct traffic_op){.op = weft_ep_next_op(t->ep), .ranks = t->ranks};
  op->kind = pattern_kind_of(op->op);
  int err = weft_ep_view(t->ep, &op->begin_epoch, t->ranks, t->capacity, &count);
  if (err)
    return err;
  if (count > t->max_ranks)
    return fail(WEFT_ERR_LIMIT, "view %llu has %zu ranks, but the plan never has more than %u",
                (unsigned long long)op->begin_epoch, count, t->max_ranks);
  op->num_ranks = (uint32_t)count;
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  struct traffic_input *input = &t->input;
  input->num_tokens = pattern_fill(&pattern, op->op, weft_ep_rank(t->ep), t->ranks, op->num_ranks, input->x,
                                   input->topk, input->weights);
  return 0;
}

static struct weft_ep_dispatch dispatch_args(const struct traffic *t, enum pattern_kind kind) {
  return (struct weft_ep_dispatch){.size = sizeof(struct weft_ep_dispatch),
                                   .x = t->input.x,
                                   .num_tokens = t->input.num_tokens,
                                   .topk_idx = t->input.topk,
                                   .topk_weights = weighs_late(t, kind) ? NULL : t->input.weights};
}

int traffic_run(struct traffic *t, bool with_poison, struct traffic_op *op) {
  struct traffic_op done;
  int err = prepare(t, &done);
  if (err)
    return err;
  if (with_poison)
    poison(t);
  struct weft_ep_dispatch dispatch = dispatch_args(t, done.kind);
  err = run_dispatch(t, &dispatch, &done);
  if (err)
    return err;
  note_dirty(t);
  t->renormalize = done.op % 2 == 1;
  struct weft_ep_combine combine = {.size = sizeof combine,
                                    .y = traffic_experts(t, done.kind),
                                    .topk_weights = weighs_late(t, done.kind) ? t->input.weights : NULL,
                                    .renormalize = t->renormalize,
                                    .out = t->out};
  err = run_combine(t, &combine, &done);
  if (err)
    return err;
  describe(t, &done);
  *op = done;
  return 0;
}

int traffic_send_only(struct traffic *t) {
  struct traffic_op op;
  int err = prepare(t, &op);
  if (err)
    return err;
  struct weft_ep_dispatch dispatch = dispatch_args(t, op.kind);
  return weft_ep_dispatch_send(t->ep, &dispatch, &op.op);
}

// Whether the k-th selection is the first of its token that goes to its rank.
static bool first_to_rank(const int64_t *topk, uint32_t k, int64_t experts_per_rank) {
  for (uint32_t i = 0; i < k; i++)
    if (topk[i] >= 0 && topk[i] / experts_per_rank == topk[k] / experts_per_rank)
      return false;
  return true;
}

uint32_t traffic_remote_rows(const struct traffic *t) {
  uint32_t rows = 0, num_topk = t->config->topk;
  int64_t experts = t->config->experts_per_rank, own = weft_ep_rank(t->ep);
  for (uint32_t token = 0; token < t->input.num_tokens; token++) {
    const int64_t *topk = t->input.topk + (size_t)token * num_topk;
    for (uint32_t k = 0; k < num_topk; k++)
      rows += topk[k] >= 0 && topk[k] / experts != own && first_to_rank(topk, k, experts);
  }
  return rows;
}
