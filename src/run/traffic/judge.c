// Makes every source's input of an operation again, and lets the oracle judge what this rank received and combined.
#include <stdlib.h>

#include "base/fail.h"
#include "ep/oracle/oracle.h"
#include "run/traffic/internal.h"

static int open_others(struct traffic *t) {
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

static void make_sources(struct traffic *t, const struct traffic_op *op, struct oracle_source *sources) {
  struct pattern pattern = traffic_pattern(t->config, op->kind);
  for (uint32_t i = 0; i < op->num_ranks; i++) {
    bool own = op->ranks[i] == weft_ep_rank(t->ep);
    struct traffic_input *input = own ? &t->input : &t->others[i];
    if (!own)
      input->num_tokens =
          pattern_fill(&pattern, op->op, op->ranks[i], op->ranks, op->num_ranks, input->x, input->topk, input->weights);
    sources[i] = (struct oracle_source){.rank = op->ranks[i],
                                        .num_tokens = input->num_tokens,
                                        .x = input->x,
                                        .topk_idx = input->topk,
                                        .topk_weights = input->weights};
  }
}

static int refuse(const struct traffic_op *op, const char *half, const struct oracle_verdict *verdict) {
  return fail(WEFT_ERR_DATA, "%s of operation %llu is wrong: %s", half, (unsigned long long)op->op, verdict->what);
}

// What held rows have in the place of an expert's output.
static void held_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out) {
  (void)expert, (void)row;
  for (uint32_t i = 0; i < hidden; i++)
    out[i] = *(const double *)arg;
}

static struct oracle_verdict judge_combine(const struct traffic *t, const struct oracle_case *test,
                                           const struct traffic_op *op, const int32_t *missing, uint32_t num_missing) {
  enum pattern_kind kind = op->kind;
  double held = t->config->layout == WEFT_EP_PER_EXPERT ? oracle_bf16(TRAFFIC_HELD_BYTE * 0x0101) : 0;
  bool is_held = t->answer == TRAFFIC_HELD;
  return oracle_check_combine(test, weft_ep_rank(t->ep), t->out, &t->result, is_held ? held_expert : pattern_expert,
                              is_held ? (void *)&held : (void *)&kind, missing, num_missing, t->renormalize);
}

int traffic_judge(struct traffic *t, const struct traffic_op *op, const int32_t *missing, uint32_t num_missing,
                  double *worst_diff) {
  int err = traffic_get_received(t);
  if (!err)
    err = traffic_get_out(t);
  if (!err)
    err = open_others(t);
  struct oracle_source *sources = calloc(op->num_ranks, sizeof *sources);
  if (!err && !sources)
    err = fail(WEFT_ERR_NOMEM, "no memory for %u sources", op->num_ranks);
  if (!err) {
    make_sources(t, op, sources);
    const struct run_config *config = t->config;
    struct oracle_case test = {.hidden = config->hidden,
                               .topk = config->topk,
                               .experts_per_rank = config->experts_per_rank,
                               .capacity = t->capacity,
                               .dtype = config->dtype,
                               .sources = sources,
                               .num_sources = op->num_ranks,
                               .combine_dtype = config->combine_dtype};
    int32_t rank = weft_ep_rank(t->ep);
    struct oracle_verdict verdict = oracle_check_dispatch(&test, rank, &t->recv, &t->info, op->lost, op->num_lost);
    if (!verdict.ok)
      err = refuse(op, "dispatch", &verdict);
    if (!err) {
      verdict = judge_combine(t, &test, op, missing, num_missing);
      if (!verdict.ok)
        err = refuse(op, "combine", &verdict);
      else if (verdict.worst_diff > *worst_diff)
        *worst_diff = verdict.worst_diff;
    }
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
