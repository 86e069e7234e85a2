// What the two parts of the judge of combine share.
#ifndef EP_ORACLE_SUMS_H
#define EP_ORACLE_SUMS_H

#include "ep/oracle/judge.h"

// What a rank contributes to the tokens of the rank under judgement.
enum brings { BRINGS_NOTHING, BRINGS_ALL, BRINGS_SOME };

struct combine {
  const struct oracle_case *test;
  const struct oracle_answer *answer;
  const struct oracle_source *source; // the rank under judgement
  const uint16_t *out;
  const struct weft_ep_result *result;
  oracle_expert_fn expert;
  void *arg;
  bool renormalize;
  struct oracle_verdict *verdict;
  uint8_t *brings;       // [capacity] enum brings
  uint32_t num_missing;  // so far
  double error, squares; // so far: sums of (a - b)^2 and of a^2 + b^2, shifted by 1
  // One token, each [H]:
  double *row;        // input of its experts
  double *y;          // output of one expert
  double *rank_sum;   // P
  double *rank_size;  // sum |w y|
  double *row_spread; // d
  double *sum;        // S
  double *spread;     // D
  double *size;       // sum of (|P| + d)
};

// The rank that has the selected expert; -1: none.
static inline int32_t oracle_rank_of(const struct combine *combine, int64_t expert) {
  return expert < 0 ? -1 : (int32_t)(expert / combine->test->experts_per_rank);
}

// The weight of a selection in sums and in renormalisation.
static inline double oracle_weight_of(const struct combine *combine, uint32_t token, uint32_t k) {
  return combine->answer->unweighted ? 1
                                     : (double)combine->source->topk_weights[(size_t)token * combine->test->topk + k];
}

// Judges the values of a token's sum; `came` says which of its selections arrived. Reads the row of `out` by memcpy().
bool oracle_check_sums(struct combine *combine, uint32_t token, const bool came[EP_MAX_TOPK]);

#endif
