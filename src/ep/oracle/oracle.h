// The judge of dispatch and combine: plain, in double precision. It shares nothing with the engine but the layout of
// the public arguments (weft/ep.h). Used by the tests and by the plan runner on every rank. [any] thread: no state of
// its own.
//
// Every value that is dispatched must be finite and every right result too: NaN and infinities never pass a combine.
#ifndef EP_ORACLE_ORACLE_H
#define EP_ORACLE_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/ep_limits.h"

// What one rank dispatched in the operation under judgement. A source that masked the rank under judgement is written
// with 0 tokens when that rank's dispatch is judged.
struct oracle_source {
  int32_t rank;
  uint32_t num_tokens;
  const uint16_t *x;         // bf16 [T][H]; OPAQUE: what the experts see, for the combine; NULL: oracle_case.make_row
  const int64_t *topk_idx;   // [T][K]; -1 or any expert below capacity * E; one expert may stand twice in a row
  const float *topk_weights; // [T][K]; NULL: PER_EXPERT and PACKED dispatches can be judged without, and combines of
                             // UNWEIGHTED
  const uint8_t *payload;    // OPAQUE: [T][row_bytes] what travels,
  const uint8_t *payload_scales; // and its scales, [T][scale_bytes]
  // A dispatch that goes by a kept route: the places of this source are there, and nothing in them, because it masks
  // the rank under judgement, or has left the view (`outside`).
  bool empty, outside;
};

// What a combine was asked for besides the weighted sum of experts' outputs. All 0: nothing.
struct oracle_answer {
  // WEFT_EP_COMBINE_UNWEIGHTED; in RANK_MAJOR: the caller added its experts' outputs without weights.
  bool unweighted;
  // The experts stand for ranks: oracle_expert_fn is called once for each rank that has any of the token's experts,
  // with the rank in the place of the expert, and gives the row that the rank sent back. For RANK_MAJOR rows of any
  // kind.
  bool by_rank;
  const uint16_t *bias[2];  // bf16 [T][H], of the rank under judgement; NULL: none
  const float *row_weights; // [T][K] what the rank of each selection gave for it; 0 where it gave none
  const float *out_weights; // [T][K] what came of them; NULL: not judged
};

// Makes the row x[token] of a source, bf16 [H], where oracle_source.x is NULL.
typedef void (*oracle_row_fn)(void *arg, int32_t rank, uint32_t token, uint16_t *row);

struct oracle_case {
  uint32_t hidden, topk, experts_per_rank, capacity;
  enum weft_ep_dtype dtype;
  const struct oracle_source *sources; // the ranks of the operation's view, ascending, and those outside
  uint32_t num_sources;
  enum weft_ep_combine_dtype combine_dtype;
  uint32_t row_bytes, scale_bytes; // OPAQUE
  // The values of one token in `sample` are judged: of tokens sample_first, sample_first + sample, and so on, modulo
  // `sample`. Places, counts, indices and weights are judged of all. 0, 1: the values of all tokens too.
  uint32_t sample, sample_first;
  // THROUGHPUT: ranks that were lost when a part of their rows had come. Dispatch, for those that are in `lost` too:
  // which tokens came is told by src_token, so range, src_rank and src_token have to be there; the places of the others
  // must be empty. Combine: which contributions came is told by the list of the missing, which has to be whole.
  const int32_t *partial;
  uint32_t num_partial;
  const struct oracle_answer *answer; // NULL: the weighted sum, and no more
  // NULL: sources have their x. Else rows are made when they are judged, so that a sample of many large ones takes
  // neither the memory nor the time of all.
  oracle_row_fn make_row;
  void *row_arg;
};

// A verdict: ok, or the first thing that is wrong, in words with indices and values.
struct oracle_verdict {
  bool ok;
  double worst_diff; // combine: oracle_calc_diff of all of `out` and what it should be, as far as it was judged
  char what[256];    // "" when ok
};

// Judges what `rank` received. Sources in `lost` (num_lost ranks, ascending) must have brought nothing, unless they are
// in `partial`. Checks counts, order (source rank, then token, then place in top-k), where the parts of PACKED begin
// and end, every src_rank, src_token, range, local_expert, weight, slot and expert_end that was asked for, the rows
// between parts with ZERO_PADDING, and every value: bf16 and opaque bytes bit by bit; fp8 scales and codes bit by bit
// against a cast of its own. Of a source that brought nothing, `range` must have the count 0; its begin is not judged.
// `info` may be NULL; otherwise its numbers of ranks, rows, rows needed and losses, and the list of the lost, are
// checked.
struct oracle_verdict oracle_check_dispatch(const struct oracle_case *test, int32_t rank,
                                            const struct weft_ep_recv_args *recv, const struct weft_ep_info *info,
                                            const int32_t *lost, uint32_t num_lost);

// Output that `expert` gave for one row, [H] as double before its rounding to bf16; the oracle rounds it. `row` is what
// the expert saw, as double [H]: the dispatched row, or for fp8 its cast brought back to bf16 as oracle_uncast() does.
typedef void (*oracle_expert_fn)(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

// Judges what `rank` combined: `out` bf16 [T][H] of its own tokens, each value against the weighted sum in double,
// within the rounding that bf16 outputs, one row of each rank as it travels and one bf16 result allow (sums.c
// derives the bound). In RANK_MAJOR the caller has made those rows: from outputs rounded to bf16, with products and
// sums in f32. The selections of experts on `missing_ranks`, or on ranks outside the view, bring nothing, and the
// result must list just these; with `renormalize`, each token is scaled by (all its weights) / (the weights that came),
// by 1 where these add up to 0. A token with no contribution is 0, or the sum of its biases. `result` may be NULL: its
// list is not judged then. test->answer says what else was asked for; weights that came back are judged bit by bit.
struct oracle_verdict oracle_check_combine(const struct oracle_case *test, int32_t rank, const uint16_t *out,
                                           const struct weft_ep_result *result, oracle_expert_fn expert, void *arg,
                                           const int32_t *missing_ranks, uint32_t num_missing_ranks, bool renormalize);

// 1 - 2 sum(ab) / sum(a^2 + b^2) in double on values shifted by +1: the measure of the field's elastic tests. 0 for
// equal values, NaN if there is one among them.
double oracle_calc_diff(const double *a, const double *b, size_t count);

// bf16 and e4m3 in double. Rounding is to nearest even; bf16 overflows to infinity, e4m3 saturates at 448. NaN becomes
// 0x7FC0, or 0x7F with its sign.
double oracle_bf16(uint16_t bits);
uint16_t oracle_to_bf16(double value);
double oracle_e4m3(uint8_t bits);
uint8_t oracle_to_e4m3(double value);

// The cast of a row as kernels.h defines it, `dtype` one of the fp8 ones: q[H], scales[H/128].
void oracle_cast(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, enum weft_ep_dtype dtype);

// A row's scales, powers of two, as they travel with WEFT_EP_FP8_UE8M0. Returns their bytes, at most H/128 + 3.
size_t oracle_pack_scales(uint8_t *packed, const float *scales, uint32_t hidden);

// The way back: bf16 values, as double [H]. Each is the f32 product of code and scale, rounded to bf16.
void oracle_uncast(double *row, const uint8_t *q, const float *scales, uint32_t hidden);

#endif
