// The judge of combine: each value of each token against the weighted sum in double.
//
// How far may a right result be from the exact sum? u = 2^-24 is the rounding of f32; h(v) is half the distance of the
// bf16 numbers around v, at most 2^-8 |v|. An expert's output y is rounded to bf16; the judge does the same, so that
// costs nothing. Then, with g(n) = n u / (1 - n u), the error of n f32 roundings in a row (Higham, Accuracy and
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
// any
//   other way (by_rank) is bf16 and exact: d = 0 before it is coded.
// - Each bias is one more f32 sum: with b of them g(b) of all that is added. Without contribution the first is exact.
// - The result is rounded to bf16: h once more; not if it is one bias or nothing.
//
// The judge itself computes with 2^-53 where f32 has 2^-24: all g(n) have room for that.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ep/oracle/format.h"
#include "ep/oracle/judge.h"

#define F32_ROUNDING        0x1p-24
#define LOGFMT10_STEPS      510
#define LOGFMT10_CUT        0x1p-32
#define LOGFMT10_ARITHMETIC 0x1p-15

// What a rank brings to the tokens of the one under judgement.
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
  double *row;        // what its experts saw
  double *y;          // what one expert gave
  double *rank_sum;   // P
  double *rank_size;  // sum |w y|
  double *row_spread; // d
  double *sum;        // S
  double *spread;     // D
  double *size;       // sum of (|P| + d)
};

enum { ARRAYS = 8 };

static double error_of(uint32_t operations) {
  double u = operations * F32_ROUNDING;
  return u / (1 - u);
}

// The rank whose expert a selection is for, -1 for none.
static int32_t rank_of(const struct combine *combine, int64_t expert) {
  return expert < 0 ? -1 : (int32_t)(expert / combine->test->experts_per_rank);
}

// Of a rank that answered in part, whether the list has a selection of it among those of this token, which begin at the
// entry that is next when none of its selections were checked.
static bool is_missing(const struct combine *combine, int32_t rank, uint32_t token, uint32_t first) {
  const struct weft_ep_result *result = combine->result;
  for (uint32_t i = first; i < result->num_missing && result->missing[i].token == (int64_t)token; i++)
    if (rank_of(combine, result->missing[i].expert) == rank)
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

// The ends of the magnitudes of 128 values that are within `d` of P. False: the lower one may be any.
static bool find_ends(const struct combine *combine, const double *d, uint32_t start, double *most, double *least) {
  *most = 0;
  *least = INFINITY;
  for (uint32_t i = start; i < start + WEFT_EP_BLOCK; i++) {
    double size = fabs(combine->rank_sum[i]);
    if (combine->rank_size[i] == 0)
      continue; // surely zero, which has a code of its own
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

// What is off in a rank's row before it is coded, from `n` selections.
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

// The weight of a selection in sums, and in renormalisation.
static double weight_of(const struct combine *combine, uint32_t token, uint32_t k) {
  return combine->answer->unweighted ? 1
                                     : (double)combine->source->topk_weights[(size_t)token * combine->test->topk + k];
}

// Forms the row of the rank that selection `first` of a token is the first for. Takes its selections out of `from`.
static void add_rank_of(struct combine *combine, uint32_t token, uint32_t first, bool from[EP_MAX_TOPK]) {
  uint32_t topk = combine->test->topk, hidden = combine->test->hidden, selections = 0;
  const int64_t *experts = combine->source->topk_idx + (size_t)token * topk;
  int32_t rank = rank_of(combine, experts[first]);
  memset(combine->rank_sum, 0, hidden * sizeof(double));
  memset(combine->rank_size, 0, hidden * sizeof(double));
  for (uint32_t k = first; k < topk; k++) {
    if (rank_of(combine, experts[k]) != rank)
      continue;
    if (!combine->answer->by_rank)
      add_selection(combine, experts[k], weight_of(combine, token, k));
    else if (selections == 0)
      add_selection(combine, rank, 1);
    from[k] = false;
    selections++;
  }
  add_rank(combine, selections);
}

// Forms the sums of a token, of selections that came. Returns the number of ranks that brought something.
static uint32_t add_token(struct combine *combine, uint32_t token, const bool came[EP_MAX_TOPK]) {
  uint32_t num_ranks = 0;
  size_t bytes = combine->test->hidden * sizeof(double);
  bool from[EP_MAX_TOPK];
  memcpy(from, came, sizeof from);
  memset(combine->sum, 0, bytes);
  memset(combine->spread, 0, bytes);
  memset(combine->size, 0, bytes);
  for (uint32_t first = 0; first < combine->test->topk; first++) {
    if (!from[first])
      continue;
    if (num_ranks++ == 0)
      see_row(combine, token);
    add_rank_of(combine, token, first, from);
  }
  return num_ranks;
}

// The factor of renormalisation, and the bound of its relative error, that of the product with it included.
static double factor_of(const struct combine *combine, uint32_t token, const bool came_of[EP_MAX_TOPK],
                        double *relative) {
  uint32_t topk = combine->test->topk;
  double all = 0, all_size = 0, came = 0, came_size = 0;
  bool missing = false;
  *relative = 0;
  for (uint32_t k = 0; combine->renormalize && k < topk; k++) {
    if (combine->source->topk_idx[(size_t)token * topk + k] < 0)
      continue;
    double weight = weight_of(combine, token, k);
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
  uint32_t hidden = combine->test->hidden;
  size_t first = (size_t)token * hidden;
  double relative, factor = factor_of(combine, token, came, &relative), error = 0, squares = 0;
  double adding = num_ranks > 0 ? error_of(num_ranks - 1) : 0;
  uint32_t added = (num_ranks > 0) + (combine->answer->bias[0] != NULL) + (combine->answer->bias[1] != NULL);
  bool biased = combine->answer->bias[0] || combine->answer->bias[1];
  double biasing = biased ? error_of(added - 1) : 0;
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
    uint16_t bits = combine->out[first + i];
    double is = format_bf16_value(bits);
    if (!(fabs(is - right) <= bound)) // NaN does not pass
      return oracle_wrong(combine->verdict,
                          "combine: token %u, column %u is 0x%04x (%.9g), should be %.9g within %.3g (%u ranks added)",
                          token, i, bits, is, right, bound, num_ranks);
    error += (is - right) * (is - right);
    squares += (is + 1) * (is + 1) + (right + 1) * (right + 1);
  }
  combine->error += error;
  combine->squares += squares;
  return true;
}

// The weight that came back for a selection.
static bool check_weight(const struct combine *combine, uint32_t token, uint32_t k, bool came) {
  const struct oracle_answer *answer = combine->answer;
  size_t at = (size_t)token * combine->test->topk + k;
  if (!answer->out_weights)
    return true;
  float right = came && answer->row_weights ? answer->row_weights[at] : 0;
  if (answer->out_weights[at] == right)
    return true;
  return oracle_wrong(combine->verdict, "combine: out_weights[%u][%u] is %a, should be %a%s", token, k,
                      (double)answer->out_weights[at], (double)right, came ? "" : " (nothing came)");
}

static bool check_token(struct combine *combine, uint32_t token) {
  bool came[EP_MAX_TOPK] = {false};
  uint32_t first = combine->num_missing;
  for (uint32_t k = 0; k < combine->test->topk; k++) {
    int64_t expert = combine->source->topk_idx[(size_t)token * combine->test->topk + k];
    int32_t rank = rank_of(combine, expert);
    enum brings brings = rank < 0 || (uint32_t)rank >= combine->test->capacity ? BRINGS_NOTHING : combine->brings[rank];
    came[k] = brings == BRINGS_ALL || (brings == BRINGS_SOME && !is_missing(combine, rank, token, first));
    if (rank >= 0 && !came[k] && !check_missing(combine, token, k, expert))
      return false;
    if (!check_weight(combine, token, k, came[k]))
      return false;
  }
  return !oracle_sampled(combine->test, token) || check_values(combine, token, add_token(combine, token, came), came);
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
    return oracle_wrong(combine->verdict, "case: no whole list of what is missing, to tell what a lost rank brought");
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
