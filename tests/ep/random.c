// Two thousand operations of four ranks with drawn token counts, routing, gaps and masks; the oracle judges every
// number.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "rank.h"

enum { RANKS = 4, OPERATIONS = 1000, TOKENS = 16, TOPK = 4, HIDDEN = 128, EXPERTS = 2 };

static const int32_t all[RANKS] = {0, 1, 2, 3};

// The rank that `source` masks in operation `op`, -1 for none: in half of all.
static int32_t masked_by(uint64_t op, int32_t source) {
  uint64_t drawn = random_mix(op * RANKS + (uint64_t)source + 1) % (2 * RANKS);
  return drawn < RANKS ? (int32_t)drawn : -1;
}

struct input {
  uint16_t x[TOKENS * HIDDEN];
  int64_t topk_idx[TOKENS * TOPK];
  float weights[TOKENS * TOPK];
};

// Judges what came from all sources: of one that masks this rank, nothing is due.
static bool judge(struct rank *rank, uint64_t op, struct input inputs[RANKS]) {
  struct oracle_source sources[RANKS];
  for (int32_t s = 0; s < RANKS; s++) {
    struct input *in = &inputs[s];
    uint32_t tokens = pattern_fill(&rank->pattern, op, s, all, RANKS, in->x, in->topk_idx, in->weights);
    for (size_t i = 0; i < (size_t)tokens * TOPK; i++)
      if (masked_by(op, s) == rank->index && in->topk_idx[i] / EXPERTS == rank->index)
        in->topk_idx[i] = -1;
    sources[s] = (struct oracle_source){
        .rank = s, .num_tokens = tokens, .x = in->x, .topk_idx = in->topk_idx, .topk_weights = in->weights};
  }
  struct oracle_case test = {.hidden = HIDDEN,
                             .topk = TOPK,
                             .experts_per_rank = EXPERTS,
                             .capacity = rank->setup.capacity,
                             .dtype = WEFT_EP_BF16,
                             .sources = sources,
                             .num_sources = RANKS};
  struct oracle_verdict verdict = oracle_check_dispatch(&test, rank->index, &rank->recv, &rank->info, NULL, 0);
  if (!verdict.ok)
    return rank_fail(rank, "dispatch of operation %llu: %s", (unsigned long long)op, verdict.what);
  struct input *own = &inputs[rank->index]; // as it was dispatched: what is masked counts as missing
  pattern_fill(&rank->pattern, op, rank->index, all, RANKS, own->x, own->topk_idx, own->weights);
  enum pattern_kind kind = PATTERN_PLAIN;
  int32_t masked = masked_by(op, rank->index);
  verdict = oracle_check_combine(&test, rank->index, rank->out, &rank->result, pattern_expert, &kind, &masked,
                                 masked >= 0, rank->setup.renormalize);
  return verdict.ok ? true : rank_fail(rank, "combine of operation %llu: %s", (unsigned long long)op, verdict.what);
}

static bool operate(struct rank *rank, struct input inputs[RANKS]) {
  uint64_t op = weft_ep_next_op(rank->ep), number;
  for (int32_t r = 0; r < RANKS; r++)
    if (weft_ep_mask_update(rank->ep, r, r == masked_by(op, rank->index)) != 0)
      return rank_fail(rank, "mask: %s", weft_last_error());
  struct weft_ep_dispatch dispatch = WEFT_EP_DISPATCH_INIT;
  dispatch.num_tokens =
      pattern_fill(&rank->pattern, op, rank->index, all, RANKS, rank->x, rank->topk_idx, rank->weights);
  dispatch.x = rank->x;
  dispatch.topk_idx = rank->topk_idx;
  dispatch.topk_weights = rank->setup.late_weights ? NULL : rank->weights;
  rank->info = (struct weft_ep_info){.size = sizeof rank->info};
  rank->result = (struct weft_ep_result){.size = sizeof rank->result, .missing = rank->missing, .missing_cap = 4096};
  if (weft_ep_dispatch(rank->ep, &dispatch, &rank->recv, &rank->info, &number) != 0)
    return rank_fail(rank, "dispatch: %s", weft_last_error());
  // Experts give back what they get: y is what was received, row by row.
  struct weft_ep_combine combine = {.size = sizeof combine,
                                    .y = rank->received,
                                    .topk_weights = rank->setup.late_weights ? rank->weights : NULL,
                                    .renormalize = rank->setup.renormalize,
                                    .out = rank->out};
  if (weft_ep_combine(rank->ep, number, &combine, &rank->result) != 0)
    return rank_fail(rank, "combine: %s", weft_last_error());
  return judge(rank, op, inputs);
}

static void body(struct rank *rank, void *arg) {
  (void)arg;
  struct input *inputs = malloc(RANKS * sizeof *inputs);
  if (!inputs) {
    rank_fail(rank, "no memory");
    return;
  }
  for (int i = 0; i < OPERATIONS; i++)
    if (!operate(rank, inputs))
      break;
  free(inputs);
}

static void run(bool late_weights, bool renormalize) {
  struct setup setup = {.tokens = TOKENS,
                        .topk = TOPK,
                        .hidden = HIDDEN,
                        .experts = EXPERTS,
                        .capacity = RANKS,
                        .uneven = true,
                        .drop = 0.3f,
                        .late_weights = late_weights,
                        .renormalize = renormalize};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, RANKS, body, NULL);
  weft_store_close(setup.store);
}

static void a_thousand_operations(void **state) {
  (void)state;
  run(false, true);
}

static void a_thousand_operations_with_late_weights(void **state) {
  (void)state;
  run(true, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thousand_operations),
      cmocka_unit_test(a_thousand_operations_with_late_weights),
  };
  return cmocka_run_group_tests_name("ep_random", tests, NULL, NULL);
}
