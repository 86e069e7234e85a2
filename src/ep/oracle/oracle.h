// The judge of dispatch and combine: simple code in double precision. It shares nothing with the engine except the
// layout of the public arguments (weft/ep.h). The tests use it, and the plan runner on every rank. [any] thread: it has
// no state.
//
// Every dispatched value must be finite, and every correct result too: NaN and infinities never pass the judge of
// combine.
#ifndef EP_ORACLE_ORACLE_H
#define EP_ORACLE_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/ep_limits.h"

// What one rank dispatched in the operation under judgement. If a source masked the rank under judgement, it has 0
// tokens here when that rank's dispatch is judged.
struct oracle_source {
  int32_t rank;
  uint32_t num_tokens;
  const uint16_t *x;         // bf16 [T][H]; OPAQUE: what the experts see, for the combine; NULL: oracle_case.make_row
  const int64_t *topk_idx;   // [T][K]; -1, or any expert below capacity * E; a row may have one expert twice
  const float *topk_weights; // [T][K]; NULL: PER_EXPERT and PACKED dispatches, and combines of UNWEIGHTED, can be
                             // judged without weights
  const uint8_t *payload;    // OPAQUE: [T][row_bytes] what travels
  const uint8_t *payload_scales; // and its scales, [T][scale_bytes]
  // A dispatch that uses a kept route: this source has its places, but they are empty, because it masks the rank under
  // judgement, or has left the view (`outside`).
  bool empty, outside;
};

// What a combine was asked for besides the weighted sum of the experts' outputs. All 0: nothing else.
struct oracle_answer {
  // WEFT_EP_COMBINE_UNWEIGHTED; in RANK_MAJOR: the caller added its experts' outputs without weights.
  bool unweighted;
  // oracle_expert_fn computes rows of ranks: it is called once for each rank that has any of the token's experts, with
  // the rank as the expert argument, and returns the row that the rank sent back. For RANK_MAJOR rows of any kind.
  bool by_rank;
  const uint16_t *bias[2];  // bf16 [T][H], of the rank under judgement; NULL: none
  const float *row_weights; // [T][K] what the rank of each selection returned for it; 0 if it returned none
  const float *out_weights; // [T][K] the weights that arrived; NULL: not judged
};

// Makes the row x[token] of a source, bf16 [H], where oracle_source.x is NULL.
typedef void (*oracle_row_fn)(void *arg, int32_t rank, uint32_t token, uint16_t *row);

struct oracle_case {
  uint32_t hidden, topk, experts_per_rank, capacity;
  enum weft_ep_dtype dtype;
  const struct oracle_source *sources; // the ranks of the operation's view and those outside of it, ascending
  uint32_t num_sources;
  enum weft_ep_combine_dtype combine_dtype;
  uint32_t row_bytes, scale_bytes; // OPAQUE
  // Only the values of each `sample`-th token are judged: tokens sample_first, sample_first + sample, and so on, modulo
  // `sample`. Places, counts, indices and weights are judged for all tokens. 0, 1: the values of all tokens are judged
  // too.
  uint32_t sample, sample_first;
  // THROUGHPUT: ranks that were lost when only a part of their rows had arrived. Dispatch, for those that are also in
  // `lost`: src_token shows which tokens arrived, so range, src_rank and src_token are needed; the places of the other
  // tokens must be empty. Combine: the list of the missing shows which contributions arrived, so it has to be complete.
  const int32_t *partial;
  uint32_t num_partial;
  const struct oracle_answer *answer; // NULL: only the weighted sum
  // NULL: sources have their x. Else rows are made when they are judged, so that judging a sample of many large rows
  // does not need the memory and the time for all rows.
  oracle_row_fn make_row;
  void *row_arg;
};

// A verdict: ok, or a text with indices and values that describes the first error.
struct oracle_verdict {
  bool ok;
  double worst_diff; // combine: oracle_calc_diff() of `out` and the expected values, as far as they were judged
  char what[256];    // "" when ok
};

// Judges what `rank` received. Sources in `lost` (num_lost ranks, ascending) must have brought nothing, unless they are
// in `partial`. Checks counts, order (source rank, then token, then place in top-k), where the parts of PACKED begin
// and end, every src_rank, src_token, range, local_expert, weight, slot and expert_end that was asked for, the rows
// between parts with ZERO_PADDING, and every value. bf16 and opaque bytes are compared bit by bit; fp8 scales and codes
// are compared bit by bit with the judge's own cast. For a source that brought nothing, `range` must have the count 0;
// its begin is not judged. If `info` is not NULL, its numbers of ranks, rows, rows needed and losses are checked, and
// the list of the lost.
struct oracle_verdict oracle_check_dispatch(const struct oracle_case *test, int32_t rank,
                                            const struct weft_ep_recv_args *recv, const struct weft_ep_info *info,
                                            const int32_t *lost, uint32_t num_lost);

// Computes the output of `expert` for one row, [H] as double before its rounding to bf16; the oracle rounds it. `row`
// is the input of the expert, as double [H]: the dispatched row, or for fp8 its cast converted back to bf16 as
// oracle_uncast() does.
typedef void (*oracle_expert_fn)(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

// Judges what `rank` combined: `out` bf16 [T][H] of its own tokens. Each value is compared with the weighted sum in
// double, within the rounding of bf16 outputs, of one row of each rank in the form in which it travels, and of one bf16
// result (sums.c derives the bound). In RANK_MAJOR the caller has made those rows: from outputs rounded to bf16, with
// products and sums in f32. The selections of experts on `missing_ranks`, or on ranks outside the view, bring nothing,
// and the result must list exactly these. With `renormalize` each token is scaled by (all its weights) / (the weights
// that arrived), or by 1 if these add up to 0. A token with no contribution is 0, or the sum of its biases. If `result`
// is NULL, its list is not judged. test->answer says what else was asked for; returned weights are judged bit by bit.
struct oracle_verdict oracle_check_combine(const struct oracle_case *test, int32_t rank, const uint16_t *out,
                                           const struct weft_ep_result *result, oracle_expert_fn expert, void *arg,
                                           const int32_t *missing_ranks, uint32_t num_missing_ranks, bool renormalize);

// 1 - 2 sum(ab) / sum(a^2 + b^2) in double on values shifted by +1: the measure of the field's elastic tests. 0 for
// equal values, NaN if any value is NaN.
double oracle_calc_diff(const double *a, const double *b, size_t count);

// bf16 and e4m3 in double. Rounding is to nearest even; bf16 overflows to infinity, e4m3 saturates at 448. NaN becomes
// 0x7FC0, or 0x7F with its sign.
double oracle_bf16(uint16_t bits);
uint16_t oracle_to_bf16(double value);
double oracle_e4m3(uint8_t bits);
uint8_t oracle_to_e4m3(double value);

// The cast of a row as kernels.h defines it, for an fp8 `dtype`: q[H], scales[H/128].
void oracle_cast(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, enum weft_ep_dtype dtype);

// Packs a row's scales, powers of two, as they travel with WEFT_EP_FP8_UE8M0. Returns the number of bytes, at most
// H/128 + 3.
size_t oracle_pack_scales(uint8_t *packed, const float *scales, uint32_t hidden);

// The inverse: bf16 values, as double [H]. Each is the f32 product of code and scale, rounded to bf16.
void oracle_uncast(double *row, const uint8_t *q, const float *scales, uint32_t hidden);

#endif
