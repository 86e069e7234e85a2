// The judge of dispatch and combine: slow, plain, in double precision. It shares nothing with the engine but the layout of
// the public arguments (weft/ep.h). Used by the tests and by the plan runner on every rank.
#ifndef EP_ORACLE_H
#define EP_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

// What one rank dispatched in the operation under judgement.
struct oracle_source {
  int32_t rank;
  uint32_t num_tokens;
  const uint16_t *x;     // bf16 [T][H]
  const int64_t *topk_idx;   // [T][K]
  const float *topk_weights; // [T][K]
};

struct oracle_case {
  uint32_t hidden, topk, experts_per_rank, capacity;
  enum weft_ep_dtype dtype;
  const struct oracle_source *sources; // the ranks of the operation's view, ascending
  uint32_t num_sources;
};

// A verdict: ok, or the first thing that is wrong, in words with indices and values.
struct oracle_verdict {
  bool ok;
  double worst_diff; // largest calc_diff seen (combine), see oracle_calc_diff
  char what[256];
};

// Judges what `rank` received. Sources in `lost` (num_lost ranks) must have brought nothing. Checks counts, order (source
// rank, then token, then place in top-k), every src_rank, src_token, range, local_expert and weight that was asked for, and
// every value: bf16 bit by bit; fp8 scales bit by bit and values bit by bit against a cast of its own.
struct oracle_verdict oracle_check_dispatch(const struct oracle_case *test, int32_t rank, const struct weft_ep_recv *recv,
                                            const struct weft_ep_info *info, const int32_t *lost, uint32_t num_lost);

// Output that `expert` gave for the row that (source rank, token) dispatched, [H] as double before its rounding to bf16; the
// oracle rounds it. `row` is what the expert saw: the dispatched row, after the cast of `dtype` and back, as double [H].
typedef void (*oracle_expert_fn)(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

// Judges what `rank` combined: each value against the weighted sum in double, within the rounding that bf16 outputs, one bf16
// row per rank and one bf16 result allow; NaN never passes; the list of missing selections exactly as given by `missing_ranks`
// (selections of experts on those ranks, or on ranks outside the view, bring nothing). `renormalize` as in the engine.
struct oracle_verdict oracle_check_combine(const struct oracle_case *test, int32_t rank, const uint16_t *out,
                                           const struct weft_ep_result *result, oracle_expert_fn expert, void *arg,
                                           const int32_t *missing_ranks, uint32_t num_missing_ranks, bool renormalize);

// 1 - 2 sum(ab) / sum(a^2 + b^2) in double on values shifted by +1: the measure of the field's elastic tests.
double oracle_calc_diff(const double *a, const double *b, size_t count);

// bf16 and e4m3 in double.
double oracle_bf16(uint16_t bits);
uint16_t oracle_to_bf16(double value); // round to nearest even
double oracle_e4m3(uint8_t bits);
uint8_t oracle_to_e4m3(double value); // round to nearest even, saturating

// The cast of a row, as the definition of `dtype` has it: q[H], scales[H/128].
void oracle_cast(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, enum weft_ep_dtype dtype);

#endif
