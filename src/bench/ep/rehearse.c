// The operation before and after the timed ones, and the check of its results.
#include <stdlib.h>

#include "base/fail.h"
#include "bench/ep/rank.h"
#include "ep/oracle/oracle.h"

// Each expert multiplies by its own factor, so that a row at the wrong expert is noticed.
static enum pattern_kind kind = PATTERN_SCALED;

void bench_ep_forget(struct bench_ep_rank *r) {
  struct traffic *t = r->traffic;
  t->has_copies = false;
  t->info = (struct weft_ep_info){.size = sizeof t->info, .lost = t->lost, .lost_cap = t->capacity};
  t->result = (struct weft_ep_result){
      .size = sizeof t->result, .missing = t->missing, .missing_cap = t->input.num_tokens * r->point->topk};
}

static int operate(struct bench_ep_rank *r) {
  struct traffic *t = r->traffic;
  uint64_t op;
  bench_ep_forget(r);
  int err = weft_ep_dispatch(r->ep, &r->dispatch, &t->place, &t->info, &op);
  if (!err)
    err = bench_ep_group_whole(r);
  if (!err && r->kept) { // the route is filled now, and the next operations use it
    r->dispatch.topk_idx = NULL;
    r->dispatch.topk_weights = NULL;
  }
  if (!err)
    err = traffic_get_received(t);
  if (err)
    return err;
  traffic_experts(t, kind);
  err = traffic_put_answer(t);
  if (!err)
    err = weft_ep_combine(r->ep, op, &r->combine, &t->result);
  traffic_note_dirty(t);
  return err ? err : bench_ep_group_whole(r);
}

void bench_ep_note_bytes(struct bench_ep_rank *r) {
  const struct traffic *t = r->traffic;
  struct bench_ep_result *result = &r->result;
  result->logical[0] = t->info.logical_bytes;
  result->wire[0] = t->info.wire_bytes;
  result->logical[1] = t->result.logical_bytes;
  result->wire[1] = t->result.wire_bytes;
}

static void count_pairs(struct bench_ep_rank *r) {
  const struct traffic *t = r->traffic;
  struct bench_ep_result *result = &r->result;
  result->pairs = result->hottest_pairs = 0;
  for (uint32_t e = 0; e < r->point->experts; e++) {
    uint64_t pairs = (uint64_t)t->recv.counts[e];
    result->pairs += pairs;
    result->hottest_pairs = pairs > result->hottest_pairs ? pairs : result->hottest_pairs;
  }
}

int bench_ep_rehearse(struct bench_ep_rank *r) {
  struct traffic *t = r->traffic;
  t->answer = TRAFFIC_EXPERTS;
  int err = r->config->check ? traffic_poison(t) : 0;
  if (!err)
    err = operate(r);
  if (err)
    return err;
  count_pairs(r);
  return r->config->check ? bench_ep_judge_last(r) : 0;
}

// --- the check ---

struct sources {
  struct oracle_source *list; // [ranks]
  struct traffic_input *made; // [ranks]
};

// The values of at most so many tokens are checked, and the places, counts and weights of all.
enum { SAMPLED = 1024 };

static uint32_t sample_of(const struct bench_ep_rank *r) {
  return (r->point->tokens - 1) / SAMPLED + 1;
}

static int make_sources(struct bench_ep_rank *r, struct sources *sources) {
  struct pattern pattern = traffic_pattern(&r->sizes, PATTERN_PLAIN);
  uint32_t ranks = r->point->ranks;
  sources->list = calloc(ranks, sizeof *sources->list);
  sources->made = calloc(ranks, sizeof *sources->made);
  if (!sources->list || !sources->made)
    return fail(WEFT_ERR_NOMEM, "no memory for the inputs of %u ranks", ranks);
  for (uint32_t i = 0; i < ranks; i++) {
    struct traffic_input *input = &sources->made[i];
    int err = traffic_input_open(input, &r->sizes, true);
    if (err)
      return err;
    input->num_tokens = r->point->tokens;
    for (uint32_t token = 0; token < input->num_tokens; token += sample_of(r))
      pattern_pool_fill(&pattern, (int32_t)i, token, 1, input->x + (size_t)token * r->point->hidden);
    bench_ep_routing_fill(r->routing, (int32_t)i, input->topk, input->weights);
    sources->list[i] = (struct oracle_source){.rank = (int32_t)i,
                                              .num_tokens = input->num_tokens,
                                              .x = input->x,
                                              .topk_idx = input->topk,
                                              .topk_weights = input->weights};
  }
  return 0;
}

static void free_sources(struct bench_ep_rank *r, struct sources *sources) {
  for (uint32_t i = 0; sources->made && i < r->point->ranks; i++)
    traffic_input_close(&sources->made[i], true);
  free(sources->made);
  free(sources->list);
}

static int judge(struct bench_ep_rank *r, const struct sources *sources) {
  struct traffic *t = r->traffic;
  const struct bench_ep_point *point = r->point;
  struct oracle_case test = {.hidden = point->hidden,
                             .topk = point->topk,
                             .experts_per_rank = point->experts,
                             .capacity = point->ranks,
                             .dtype = point->dtype,
                             .sources = sources->list,
                             .num_sources = point->ranks,
                             .combine_dtype = point->combine_dtype,
                             .sample = sample_of(r)};
  struct oracle_verdict verdict = oracle_check_dispatch(&test, r->rank, &t->recv, &t->info, NULL, 0);
  if (!verdict.ok)
    return fail(WEFT_ERR_DATA, "dispatch of operation %llu is wrong at rank %d: %s", (unsigned long long)t->info.op,
                r->rank, verdict.what);
  verdict = oracle_check_combine(&test, r->rank, t->out, &t->result, pattern_expert, &kind, NULL, 0, false);
  if (!verdict.ok)
    return fail(WEFT_ERR_DATA, "combine of operation %llu is wrong at rank %d: %s", (unsigned long long)t->info.op,
                r->rank, verdict.what);
  if (verdict.worst_diff > r->result.worst_diff)
    r->result.worst_diff = verdict.worst_diff;
  r->result.checked++;
  return 0;
}

int bench_ep_judge_last(struct bench_ep_rank *r) {
  struct sources sources = {0};
  int err = traffic_get_received(r->traffic);
  if (!err)
    err = traffic_get_out(r->traffic);
  if (!err)
    err = make_sources(r, &sources);
  if (!err)
    err = judge(r, &sources);
  free_sources(r, &sources);
  return err;
}
