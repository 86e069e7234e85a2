// The judge of combine: compares each value of a token with the weighted sum in double. It has separate memory for
// that.
//
// How far may a correct result be from the exact sum? u = 2^-24 is the rounding of f32; h(v) is half the distance of
// the bf16 numbers around v, at most 2^-8 |v|. An expert's output y is rounded to bf16; the judge does the same, so
// that costs nothing. Then, with g(n) = n u / (1 - n u), the error of n f32 roundings in a row (Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd ed., section 3.1):
//
// - A rank with n selections of the token forms P = sum of w y: n products and n - 1 sums. It is off by at most
//   e = g(n) * sum |w y|, and by 2^-150 for each product that is denormal. The rounding to bf16 adds h(|P| + e).
//   Together d = e + h(|P| + e).
// - As logfmt10 (device/logfmt10.h), what was rounded, P', is coded: its magnitude as one of 511 evenly spaced in the
//   logarithm between the ends of its 128 values, at least 2^-32 of the upper one. The nearest is off by at most
//   (r - 1) / (r + 1) of |P'|, r the ratio of two neighbours; f32 logarithms add less than 2^-15 of it. What lies below
//   the lower end, where that was cut, is off by half of the lower end; below 2^-126, by all of itself. The rounding of
//   the decoded value to bf16 adds h of it once more. The ends are known from |P| + d and |P| - d; if a P' may be zero
//   or next to it, the range may be as wide as can be.
// - The source adds the rows of R ranks. The d add up to D, and the R - 1 sums add g(R - 1) * sum of (|P| + d).
// - If something is missing and renormalised, the total S is scaled by an f32 factor f, the quotient of two sums of at
//   most K weights. Each is off by g(K) of itself, times its condition sum |w| / |sum w|. The quotient and the product
//   round once each: |f| (|S| + D) * (g(K) * (both conditions) + 2 u). The terms of second order are less than the one
//   rounding by which K exceeds the K - 1 sums of K weights.
// - UNWEIGHTED there are no products: n - 1 sums, and a lone bf16 output travels as it is. A row that a rank made in
//   any other way (by_rank) is bf16 and exact: d = 0 before it is coded.
// - Each bias is one more f32 sum: with b of them g(b) of all that is added. Without contribution the first is exact.
// - The result is rounded to bf16: h once more; not if it is one bias or nothing.
//
// The judge itself computes with 2^-53 where f32 has 2^-24: all g(n) have room for that.
#include <math.h>
#include <string.h>

#include "ep/oracle/format.h"
#include "ep/oracle/sums.h"

#define F32_ROUNDING        0x1p-24
#define LOGFMT10_STEPS      510
#define LOGFMT10_CUT        0x1p-32
#define LOGFMT10_ARITHMETIC 0x1p-15

static double error_of(uint32_t operations) {
  double u = operations * F32_ROUNDING;
  return u / (1 - u);
}

static void see_row(struct combine *combine, uint32_t token) {
  uint32_t hidden = combine->test->hidden;
  uint16_t made[EP_MAX_HIDDEN];
  const uint16_t *x = oracle_row(combine->test, combine->source, token, made);
  if (combine->test->dtype == WEFT_EP_BF16 || combine->test->dtype == WEFT_EP_OPAQUE) {
    for (uint32_t i = 0; i < hidden; i++)
      combine->row[i] = format_bf16_value(x[i]);
    return;
  }
  uint8_t q[EP_MAX_HIDDEN];
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  oracle_cast(q, scales, x, hidden, combine->test->dtype);
  oracle_uncast(combine->row, q, scales, hidden);
}

// Finds the ends of the magnitudes of 128 values that are within `d` of P. False: the lower end may be any.
static bool find_ends(const struct combine *combine, const double *d, uint32_t start, double *most, double *least) {
  *most = 0;
  *least = INFINITY;
  for (uint32_t i = start; i < start + WEFT_EP_BLOCK; i++) {
    double size = fabs(combine->rank_sum[i]);
    if (combine->rank_size[i] == 0)
      continue; // certainly zero, which has a separate code
    *most = fmax(*most, size + d[i]);
    *least = fmin(*least, size - d[i]);
  }
  bool known = *least >= 0x1p-126 && *least >= *most * LOGFMT10_CUT;
  *least = fmax(fmax(*least, *most * LOGFMT10_CUT), 0x1p-126);
  return known;
}

// Adds to `d` what coding as logfmt10 may add.
static void add_coding(const struct combine *combine, double *d) {
  for (uint32_t start = 0; start < combine->test->hidden; start += WEFT_EP_BLOCK) {
    double most, least;
    bool known = find_ends(combine, d, start, &most, &least);
    double ratio = exp2(log2(fmax(most / least, 1)) / LOGFMT10_STEPS);
    double relative = (ratio - 1) / (ratio + 1) + LOGFMT10_ARITHMETIC;
    for (uint32_t i = start; i < start + WEFT_EP_BLOCK; i++) {
      double size = fabs(combine->rank_sum[i]) + d[i];
      double off = size * relative + 0x1p-126;
      if (!known && size - 2 * d[i] < least)
        off = fmax(off, least * (0.5 + LOGFMT10_ARITHMETIC));
      d[i] += off + format_bf16_step(size + off) / 2;
    }
  }
}

static void add_selection(struct combine *combine, int64_t expert, double weight) {
  uint32_t hidden = combine->test->hidden;
  const double *restrict y = combine->y;
  double *restrict sum = combine->rank_sum, *restrict size = combine->rank_size;
  combine->expert(combine->arg, expert, combine->row, hidden, combine->y);
  for (uint32_t i = 0; i < hidden; i++) {
    double product = weight * format_bf16_round(y[i]);
    sum[i] += product;
    size[i] += fabs(product);
  }
}

// The error bound of a rank's row of `n` selections before it is coded.
static void spread_row(struct combine *combine, uint32_t n) {
  const struct oracle_answer *answer = combine->answer;
  uint32_t hidden = combine->test->hidden;
  const double *restrict rank_sum = combine->rank_sum, *restrict rank_size = combine->rank_size;
  double *restrict d = combine->row_spread;
  if (answer->by_rank || (answer->unweighted && n == 1)) {
    memset(d, 0, hidden * sizeof *d);
    return;
  }
  double relative = error_of(answer->unweighted ? n - 1 : n), denormal = n * 0x1p-150;
  for (uint32_t i = 0; i < hidden; i++) {
    double e = relative * rank_size[i] + denormal;
    d[i] = e + format_bf16_step(fabs(rank_sum[i]) + e) / 2;
  }
}

// Adds what one rank sends back for the token, from `n` selections.
static void add_rank(struct combine *combine, uint32_t n) {
  uint32_t hidden = combine->test->hidden;
  const double *restrict rank_sum = combine->rank_sum;
  double *restrict sum = combine->sum, *restrict spread = combine->spread, *restrict size = combine->size;
  double *restrict d = combine->row_spread;
  spread_row(combine, n);
  if (combine->test->combine_dtype == WEFT_EP_COMBINE_LOGFMT10)
    add_coding(combine, d);
  for (uint32_t i = 0; i < hidden; i++) {
    sum[i] += rank_sum[i];
    spread[i] += d[i];
    size[i] += fabs(rank_sum[i]) + d[i];
  }
}

// Computes the row of the rank whose first selection in the token is `first`. Removes the rank's selections from
// `from`.
static void add_rank_of(struct combine *combine, uint32_t token, uint32_t first, bool from[EP_MAX_TOPK]) {
  uint32_t topk = combine->test->topk, hidden = combine->test->hidden, selections = 0;
  const int64_t *experts = combine->source->topk_idx + (size_t)token * topk;
  int32_t rank = oracle_rank_of(combine, experts[first]);
  for (uint32_t i = 0; i < hidden; i++)
    combine->rank_sum[i] = combine->rank_size[i] = 0;
  for (uint32_t k = first; k < topk; k++) {
    if (oracle_rank_of(combine, experts[k]) != rank)
      continue;
    if (!combine->answer->by_rank)
      add_selection(combine, experts[k], oracle_weight_of(combine, token, k));
    else if (selections == 0)
      add_selection(combine, rank, 1);
    from[k] = false;
    selections++;
  }
  add_rank(combine, selections);
}

// Computes the sums of a token from the selections that arrived. Returns the number of ranks that brought something.
static uint32_t add_token(struct combine *combine, uint32_t token, const bool came[EP_MAX_TOPK]) {
  uint32_t num_ranks = 0;
  bool from[EP_MAX_TOPK];
  memcpy(from, came, sizeof from);
  for (uint32_t i = 0; i < combine->test->hidden; i++)
    combine->sum[i] = combine->spread[i] = combine->size[i] = 0;
  for (uint32_t first = 0; first < combine->test->topk; first++) {
    if (!from[first])
      continue;
    if (num_ranks++ == 0)
      see_row(combine, token);
    add_rank_of(combine, token, first, from);
  }
  return num_ranks;
}

// The factor of renormalisation, and the bound of its relative error, including that of the product with it.
static double factor_of(const struct combine *combine, uint32_t token, const bool came_of[EP_MAX_TOPK],
                        double *relative) {
  uint32_t topk = combine->test->topk;
  double all = 0, all_size = 0, came = 0, came_size = 0;
  bool missing = false;
  *relative = 0;
  for (uint32_t k = 0; combine->renormalize && k < topk; k++) {
    if (combine->source->topk_idx[(size_t)token * topk + k] < 0)
      continue;
    double weight = oracle_weight_of(combine, token, k);
    all += weight;
    all_size += fabs(weight);
    came += came_of[k] ? weight : 0;
    came_size += came_of[k] ? fabs(weight) : 0;
    missing |= !came_of[k];
  }
  if (!missing || came == 0)
    return 1;
  double conditions = came_size / fabs(came) + (all == 0 ? 0 : all_size / fabs(all));
  *relative = error_of(topk) * conditions + 2 * F32_ROUNDING;
  return all / came;
}

// The biases of a value: their sum, and the sum of their magnitudes.
static double bias_of(const struct combine *combine, size_t at, double *size) {
  double sum = 0;
  *size = 0;
  for (int i = 0; i < 2; i++)
    if (combine->answer->bias[i]) {
      double bias = format_bf16_value(combine->answer->bias[i][at]);
      sum += bias;
      *size += fabs(bias);
    }
  return sum;
}

static bool check_values(struct combine *combine, uint32_t token, uint32_t num_ranks, const bool came[EP_MAX_TOPK]) {
  uint16_t out[EP_MAX_HIDDEN];
  uint32_t hidden = combine->test->hidden;
  size_t first = (size_t)token * hidden;
  double relative, factor = factor_of(combine, token, came, &relative), error = 0, squares = 0;
  double adding = num_ranks > 0 ? error_of(num_ranks - 1) : 0;
  uint32_t added = (num_ranks > 0) + (combine->answer->bias[0] != NULL) + (combine->answer->bias[1] != NULL);
  bool biased = combine->answer->bias[0] || combine->answer->bias[1];
  double biasing = biased ? error_of(added - 1) : 0;
  memcpy(out, combine->out + first, hidden * sizeof *out);
  for (uint32_t i = 0; i < hidden; i++) {
    double spread = combine->spread[i] + adding * combine->size[i];
    double right = factor * combine->sum[i];
    double bound = fabs(factor) * (spread + (fabs(combine->sum[i]) + spread) * relative);
    if (biased) {
      double size, bias = bias_of(combine, first + i, &size);
      bound += biasing * (fabs(right) + bound + size);
      right += bias;
    }
    bound += num_ranks > 0 || added > 1 ? format_bf16_step(fabs(right) + bound) / 2 : 0;
    double is = format_bf16_value(out[i]);
    if (!(fabs(is - right) <= bound)) // NaN does not pass
      return oracle_wrong(combine->verdict,
                          "combine: token %u, column %u is 0x%04x (%.9g), should be %.9g within %.3g (%u ranks added)",
                          token, i, out[i], is, right, bound, num_ranks);
    error += (is - right) * (is - right);
    squares += (is + 1) * (is + 1) + (right + 1) * (right + 1);
  }
  combine->error += error;
  combine->squares += squares;
  return true;
}

bool oracle_check_sums(struct combine *combine, uint32_t token, const bool came[EP_MAX_TOPK]) {
  return check_values(combine, token, add_token(combine, token, came), came);
}
