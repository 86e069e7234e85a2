// Judges a rank's operation: makes every rank's input again, and asks the oracle.
#include <stdlib.h>

#include "base/random.h"
#include "ep/core/engine.h"
#include "ep/support/rank.h"

// Makes the input of every rank of the operation's view again.
struct inputs {
  struct oracle_source *sources;
  uint32_t count;
};

static struct inputs make_inputs(struct rank *rank, uint64_t op, const int32_t *ranks, uint32_t count) {
  const struct setup *s = &rank->setup;
  struct inputs inputs = {.sources = calloc(count, sizeof *inputs.sources), .count = count};
  for (uint32_t i = 0; i < count; i++) {
    uint16_t *x = calloc((size_t)s->tokens * s->hidden, 2);
    int64_t *topk_idx = calloc((size_t)s->tokens * s->topk, sizeof *topk_idx);
    float *weights = calloc((size_t)s->tokens * s->topk, sizeof *weights);
    uint32_t tokens = pattern_fill(&rank->pattern, op, ranks[i], ranks, count, x, topk_idx, weights);
    inputs.sources[i] = (struct oracle_source){
        .rank = ranks[i], .num_tokens = tokens, .x = x, .topk_idx = topk_idx, .topk_weights = weights};
  }
  return inputs;
}

static void free_inputs(struct inputs *inputs) {
  for (uint32_t i = 0; i < inputs->count; i++) {
    free((void *)inputs->sources[i].x);
    free((void *)inputs->sources[i].topk_idx);
    free((void *)inputs->sources[i].topk_weights);
  }
  free(inputs->sources);
}

bool rank_masks(const struct setup *setup, uint64_t op, int32_t source, int32_t rank) {
  uint64_t drawn = random_mix(random_mix(setup->seed ^ op) + (uint64_t)source);
  return setup->masks && drawn % 2 == 0 && random_mix(drawn + (uint64_t)rank) % 4 == 0;
}

// Removes selections that sources do not send to this rank because they mask it.
static void strip_masked(const struct rank *rank, uint64_t op, const struct inputs *inputs) {
  const struct setup *s = &rank->setup;
  for (uint32_t i = 0; i < inputs->count; i++) {
    const struct oracle_source *source = &inputs->sources[i];
    int64_t *topk_idx = (int64_t *)source->topk_idx;
    for (size_t j = 0; j < (size_t)source->num_tokens * s->topk; j++)
      if (topk_idx[j] / s->experts == rank->index && rank_masks(s, op, source->rank, rank->index))
        topk_idx[j] = -1;
  }
}

// Whether the operation reports a selection of that rank's experts as missing. If it reports one, all have to be
// missing.
static bool is_listed(const struct rank *rank, int32_t other) {
  for (uint32_t i = 0; i < rank->result.num_missing && i < rank->result.missing_cap; i++)
    if (rank->missing[i].expert / rank->setup.experts == other)
      return true;
  return false;
}

// The ranks that bring nothing to the combine: the ranks that this rank masks and, if the operation had losses, the
// ranks that it reports itself. The test has to check that these are the right ones.
static uint32_t list_missing(const struct rank *rank, uint64_t op, const int32_t *ranks, uint32_t count,
                             int32_t *missing) {
  uint32_t num_missing = 0;
  bool losses = rank->info.num_lost > 0 || rank->result.num_lost > 0;
  for (uint32_t i = 0; i < count; i++)
    if (rank_masks(&rank->setup, op, rank->index, ranks[i]) || (losses && is_listed(rank, ranks[i])))
      missing[num_missing++] = ranks[i];
  return num_missing;
}

// THROUGHPUT: the lost ranks of which some rows had arrived, so that all their rows have places. Returns how many.
static uint32_t list_partial(const struct rank *rank, int32_t *partial) {
  const struct setup *s = &rank->setup;
  uint32_t parts = s->layout == WEFT_EP_RANK_MAJOR ? 1 : s->experts, num_partial = 0;
  for (uint32_t i = 0; rank->ep->layout.flows && i < rank->info.num_lost; i++) {
    bool any = false;
    for (uint32_t part = 0; part < parts; part++)
      any |= (uint32_t)rank->range[(size_t)part * s->capacity + (uint32_t)rank->lost[i]] > 0;
    if (any)
      partial[num_partial++] = rank->lost[i];
  }
  return num_partial;
}

bool rank_judge(struct rank *rank, uint64_t op, const int32_t *ranks, uint32_t count, enum pattern_kind kind) {
  const struct setup *s = &rank->setup;
  struct inputs inputs = make_inputs(rank, op, ranks, count);
  struct oracle_case test = {.hidden = s->hidden,
                             .topk = s->topk,
                             .experts_per_rank = s->experts,
                             .capacity = s->capacity,
                             .dtype = s->dtype,
                             .sources = inputs.sources,
                             .num_sources = count,
                             .combine_dtype = s->combine_dtype};
  strip_masked(rank, op, &inputs);
  int32_t partial[16];
  test.partial = partial;
  test.num_partial = list_partial(rank, partial);
  struct oracle_verdict verdict =
      oracle_check_dispatch(&test, rank->index, &rank->recv, &rank->info, rank->lost, rank->info.num_lost);
  if (!verdict.ok)
    rank_fail(rank, "dispatch of operation %llu: %s", (unsigned long long)op, verdict.what);
  free_inputs(&inputs);

  // The combine is judged by the dispatched selections: a selection of a masked rank counts as missing.
  int32_t missing[EP_MAX_CAPACITY];
  uint32_t num_missing = list_missing(rank, op, ranks, count, missing);
  inputs = make_inputs(rank, op, ranks, count);
  test.sources = inputs.sources;
  bool in_part = rank->ep->layout.flows && !s->masks; // rows that these brought before they were lost are not listed
  test.partial = missing;
  test.num_partial = in_part ? num_missing : 0;
  verdict = oracle_check_combine(&test, rank->index, rank->out, &rank->result, pattern_expert, &kind, missing,
                                 in_part ? 0 : num_missing, s->renormalize);
  if (!verdict.ok)
    rank_fail(rank, "combine of operation %llu: %s", (unsigned long long)op, verdict.what);
  free_inputs(&inputs);
  rank->checked++;
  return rank->error[0] == '\0';
}
