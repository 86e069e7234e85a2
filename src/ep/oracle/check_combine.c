// The judge of combine: checks the selections of all tokens and which of them arrived; sums.c judges the sums.
#include <stdlib.h>

#include "ep/oracle/sums.h"

enum { ARRAYS = 8 };

// For a rank that answered in part: whether the list has this selection among those of the token, which begin at the
// entry that was next before the token's selections were checked.
static bool is_missing(const struct combine *combine, int32_t rank, uint32_t token, uint32_t first) {
  const struct weft_ep_result *result = combine->result;
  for (uint32_t i = first; i < result->num_missing && result->missing[i].token == (int64_t)token; i++)
    if (oracle_rank_of(combine, result->missing[i].expert) == rank)
      return true;
  return false;
}

static bool check_missing(struct combine *combine, uint32_t token, uint32_t k, int64_t expert) {
  uint32_t i = combine->num_missing++;
  const struct weft_ep_result *result = combine->result;
  if (!result || !result->missing || i >= result->missing_cap || i >= result->num_missing)
    return true; // check_result() compares the number
  const struct weft_ep_missing *is = &result->missing[i];
  if (is->token >= 0 && (uint32_t)is->token == token && is->k >= 0 && (uint32_t)is->k == k && is->expert == expert)
    return true;
  return oracle_wrong(combine->verdict,
                      "combine: missing[%u] is token %d, k %d, expert %lld, should be token %u, k %u, expert %lld", i,
                      is->token, is->k, (long long)is->expert, token, k, (long long)expert);
}

// Checks the weight that came back for a selection.
static bool check_weight(const struct combine *combine, uint32_t token, uint32_t k, bool came) {
  const struct oracle_answer *answer = combine->answer;
  size_t at = (size_t)token * combine->test->topk + k;
  if (!answer->out_weights)
    return true;
  float right = came && answer->row_weights ? answer->row_weights[at] : 0;
  if (answer->out_weights[at] == right)
    return true;
  return oracle_wrong(combine->verdict, "combine: out_weights[%u][%u] is %a, should be %a%s", token, k,
                      (double)answer->out_weights[at], (double)right, came ? "" : " (nothing arrived)");
}

static bool check_token(struct combine *combine, uint32_t token) {
  bool came[EP_MAX_TOPK] = {false};
  uint32_t first = combine->num_missing;
  for (uint32_t k = 0; k < combine->test->topk; k++) {
    int64_t expert = combine->source->topk_idx[(size_t)token * combine->test->topk + k];
    int32_t rank = oracle_rank_of(combine, expert);
    enum brings brings = rank < 0 || (uint32_t)rank >= combine->test->capacity ? BRINGS_NOTHING : combine->brings[rank];
    came[k] = brings == BRINGS_ALL || (brings == BRINGS_SOME && !is_missing(combine, rank, token, first));
    if (rank >= 0 && !came[k] && !check_missing(combine, token, k, expert))
      return false;
    if (!check_weight(combine, token, k, came[k]))
      return false;
  }
  return !oracle_sampled(combine->test, token) || oracle_check_sums(combine, token, came);
}

static bool check_result(const struct combine *combine) {
  if (combine->result && combine->result->num_missing != combine->num_missing)
    return oracle_wrong(combine->verdict, "combine: num_missing is %u, should be %u", combine->result->num_missing,
                        combine->num_missing);
  return true;
}

static bool check_arguments(const struct combine *combine, int32_t rank) {
  const struct oracle_source *source = combine->source;
  const struct weft_ep_result *result = combine->result;
  if (!oracle_case_valid(combine->test, combine->verdict))
    return false;
  if (!source)
    return oracle_wrong(combine->verdict, "case: rank %d is not among the sources", rank);
  bool weighs = !combine->answer->unweighted && (!combine->answer->by_rank || combine->renormalize);
  if (source->num_tokens > 0 && (!combine->out || (weighs && !source->topk_weights)))
    return oracle_wrong(combine->verdict, "case: rank %d has tokens, but no out or topk_weights", rank);
  if (source->num_tokens > 0 && !source->x && !combine->test->make_row)
    return oracle_wrong(combine->verdict, "case: rank %d has tokens, but no x that experts can see", rank);
  if (combine->test->num_partial > 0 &&
      (!result || result->num_missing > result->missing_cap || (result->num_missing > 0 && !result->missing)))
    return oracle_wrong(
        combine->verdict,
        "case: the list of missing selections is not complete, so it does not show what a lost rank sent");
  return true;
}

static void note_ranks(const struct combine *combine, const int32_t *missing, uint32_t num_missing) {
  const struct oracle_case *test = combine->test;
  for (uint32_t i = 0; i < test->num_sources; i++) {
    int32_t rank = test->sources[i].rank;
    bool some = oracle_listed(rank, test->partial, test->num_partial);
    bool none = test->sources[i].outside || oracle_listed(rank, missing, num_missing);
    combine->brings[rank] = none ? BRINGS_NOTHING : some ? BRINGS_SOME : BRINGS_ALL;
  }
}

struct oracle_verdict oracle_check_combine(const struct oracle_case *test, int32_t rank, const uint16_t *out,
                                           const struct weft_ep_result *result, oracle_expert_fn expert, void *arg,
                                           const int32_t *missing_ranks, uint32_t num_missing_ranks, bool renormalize) {
  static const struct oracle_answer plain;
  struct oracle_verdict verdict = {.ok = true};
  struct combine combine = {.test = test,
                            .answer = test->answer ? test->answer : &plain,
                            .source = oracle_source_of(test, rank),
                            .out = out,
                            .result = result,
                            .expert = expert,
                            .arg = arg,
                            .renormalize = renormalize,
                            .verdict = &verdict};
  if (!check_arguments(&combine, rank))
    return verdict;
  double *arrays = malloc(ARRAYS * test->hidden * sizeof *arrays);
  combine.brings = calloc(test->capacity, sizeof *combine.brings);
  if (!arrays || !combine.brings) {
    oracle_wrong(&verdict, "combine: no memory to judge with");
    free(arrays);
    free(combine.brings);
    return verdict;
  }
  note_ranks(&combine, missing_ranks, num_missing_ranks);
  double **fields[ARRAYS] = {&combine.row, &combine.y,      &combine.rank_sum, &combine.rank_size,
                             &combine.sum, &combine.spread, &combine.size,     &combine.row_spread};
  for (size_t i = 0; i < ARRAYS; i++)
    *fields[i] = arrays + i * test->hidden;
  bool ok = true;
  for (uint32_t t = 0; ok && t < combine.source->num_tokens; t++)
    ok = check_token(&combine, t);
  if (ok)
    check_result(&combine);
  // 1 - 2ab / (a^2 + b^2) is (a - b)^2 / (a^2 + b^2), without the loss of digits
  verdict.worst_diff = combine.squares > 0 ? combine.error / combine.squares : 0;
  free(combine.brings);
  free(arrays);
  return verdict;
}
