// Makes every source's input of an operation again, and lets the oracle judge what this rank received and combined.
#include <stdlib.h>

#include "base/fail.h"
#include "ep/oracle/oracle.h"
#include "run/traffic/internal.h"

int traffic_open_others(struct traffic *t) {
  if (t->others)
    return 0;
  t->others = calloc(t->max_ranks, sizeof *t->others);
  if (!t->others)
    return fail(WEFT_ERR_NOMEM, "no memory for the inputs of %u ranks", t->max_ranks);
  int err = 0;
  for (uint32_t i = 0; i < t->max_ranks && !err; i++)
    err = traffic_input_open(&t->others[i], t->config, true);
  return err;
}

// The values of at most so many tokens of a rank are judged. Places, counts and weights are judged for all tokens.
enum { SAMPLED = 256 };

static void settle_sample(const struct traffic *t, const struct traffic_op *op, struct oracle_case *test) {
  test->sample = t->config->num_tokens / SAMPLED + 1;
  test->sample_first = (uint32_t)(op->op % test->sample); // another sample each time
}

// Makes the rows of another rank that the judge reads. Not for the constant kind, which has its own rows.
static void make_rows(const struct traffic *t, const struct traffic_op *op, const struct oracle_case *test,
                      int32_t rank, struct traffic_input *input) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  uint32_t start = pattern_pool_start(&pattern, op->input_op, rank);
  for (uint32_t token = test->sample_first; token < input->num_tokens; token += test->sample)
    pattern_pool_fill(&pattern, rank, start + token, 1, input->x + (size_t)token * t->config->hidden);
}

// Makes the input of another rank. Narrow rows cost very little and give the same routing, so only sampled rows get
// their full width.
static void make_input(struct traffic *t, const struct traffic_op *op, const struct oracle_case *test, int32_t rank,
                       struct traffic_input *input) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  bool narrow = op->kind != PATTERN_CONSTANT;
  pattern.hidden = narrow ? WEFT_EP_BLOCK : pattern.hidden;
  input->num_tokens = pattern_fill(&pattern, op->input_op, rank, op->input_ranks, op->num_input_ranks,
                                   narrow ? t->narrow : input->x, input->topk, input->weights);
  if (narrow)
    make_rows(t, op, test, rank, input);
}

static bool contains(const int32_t *ranks, uint32_t count, int32_t rank) {
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] == rank)
      return true;
  return false;
}

// Makes the sources of an operation. A kept route has places for all ranks of the view in which it was filled.
static void make_sources(struct traffic *t, const struct traffic_op *op, const struct oracle_case *test,
                         struct oracle_source *sources) {
  for (uint32_t i = 0; i < op->num_input_ranks; i++) {
    int32_t rank = op->input_ranks[i];
    bool own = rank == weft_ep_rank(t->ep);
    struct traffic_input *input = own ? &t->input : &t->others[i];
    if (!own)
      make_input(t, op, test, rank, input);
    sources[i] = (struct oracle_source){.rank = rank,
                                        .num_tokens = input->num_tokens,
                                        .x = input->x,
                                        .topk_idx = input->topk,
                                        .topk_weights = input->weights,
                                        .outside = !contains(op->ranks, op->num_ranks, rank)};
  }
}

static int refuse(const struct traffic_op *op, const char *half, const struct oracle_verdict *verdict) {
  return fail(WEFT_ERR_DATA, "%s of operation %llu is wrong: %s", half, (unsigned long long)op->op, verdict->what);
}

// The value of held rows, which replaces the output of an expert.
static void held_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out) {
  (void)expert, (void)row;
  for (uint32_t i = 0; i < hidden; i++)
    out[i] = *(const double *)arg;
}

static struct oracle_verdict judge_combine(const struct traffic *t, const struct oracle_case *test,
                                           const struct traffic_op *op, const int32_t *missing, uint32_t num_missing) {
  enum pattern_kind kind = op->kind;
  double held = t->config->layout == WEFT_EP_RANK_MAJOR ? 0 : oracle_bf16(TRAFFIC_HELD_BYTE * 0x0101);
  bool is_held = t->answer == TRAFFIC_HELD;
  return oracle_check_combine(test, weft_ep_rank(t->ep), t->out, &t->result, is_held ? held_expert : pattern_expert,
                              is_held ? (void *)&held : (void *)&kind, missing, num_missing, t->renormalize);
}

static int judge_dispatch(struct traffic *t, const struct oracle_case *test, const struct traffic_op *op) {
  struct weft_ep_recv_args recv = t->recv;
  traffic_form_receive(t, &recv);
  struct oracle_verdict verdict =
      oracle_check_dispatch(test, weft_ep_rank(t->ep), &recv, &t->info, op->lost, op->num_lost);
  return verdict.ok ? traffic_form_judge(t, op) : refuse(op, "dispatch", &verdict);
}

static int judge_halves(struct traffic *t, struct oracle_case *test, const struct traffic_op *op,
                        const int32_t *missing, uint32_t num_missing, double *worst_diff) {
  struct oracle_answer answer = {.unweighted = t->form.unweighted};
  float *given = t->form.weights_back ? traffic_form_weights(t) : NULL;
  int err = t->form.weights_back && !given ? fail(WEFT_ERR_NOMEM, "no memory for weights") : 0;
  for (uint32_t b = 0; b < t->form.biases; b++)
    answer.bias[b] = t->pairs[PAIR_BIAS + b].host;
  answer.row_weights = given;
  answer.out_weights = given ? t->pairs[PAIR_OUT_WEIGHTS].host : NULL;
  test->answer = &answer;
  if (!err && t->form.way != TRAFFIC_COMBINE_ROUTE)
    err = judge_dispatch(t, test, op);
  if (!err) {
    test->num_partial = 0; // a rank that died in the dispatch has combined nothing
    struct oracle_verdict verdict = judge_combine(t, test, op, missing, num_missing);
    if (!verdict.ok)
      err = refuse(op, "combine", &verdict);
    else if (verdict.worst_diff > *worst_diff)
      *worst_diff = verdict.worst_diff;
  }
  free(given);
  return err;
}

int traffic_judge(struct traffic *t, const struct traffic_op *op, const int32_t *missing, uint32_t num_missing,
                  double *worst_diff) {
  const struct run_config *config = t->config;
  int err = traffic_get_received(t);
  if (!err)
    err = traffic_get_out(t);
  if (!err)
    err = traffic_open_others(t);
  struct oracle_source *sources = calloc(op->num_input_ranks, sizeof *sources);
  if (!err && !sources)
    err = fail(WEFT_ERR_NOMEM, "no memory for %u sources", op->num_input_ranks);
  if (!err) {
    struct oracle_case test = {.hidden = config->hidden,
                               .topk = config->topk,
                               .experts_per_rank = config->experts_per_rank,
                               .capacity = t->capacity,
                               .dtype = config->dtype,
                               .sources = sources,
                               .num_sources = op->num_input_ranks,
                               .combine_dtype = config->combine_dtype};
    if (config->mode == WEFT_EP_THROUGHPUT) { // a rank that died meanwhile may have sent a part of its rows
      test.partial = op->lost;
      test.num_partial = op->num_lost;
    }
    settle_sample(t, op, &test);
    make_sources(t, op, &test, sources);
    err = judge_halves(t, &test, op, missing, num_missing, worst_diff);
  }
  free(sources);
  return err;
}

int traffic_digest(struct traffic *t, uint64_t *digest) {
  int err = traffic_get_out(t);
  if (err)
    return err;
  const unsigned char *bytes = (const unsigned char *)t->out;
  size_t size = (size_t)t->input.num_tokens * t->config->hidden * sizeof *t->out;
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * 0x100000001b3;
  *digest = hash;
  return 0;
}
