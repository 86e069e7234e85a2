// The invariants of pattern.h.
#include "ep/oracle/pattern.h"
#include "cmocka_all.h"
#include "ep/oracle/oracle.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 300, HIDDEN = 384, TOPK = 8, EXPERTS = 3, PLAIN_OP = 1 };

struct data {
  uint16_t x[TOKENS * HIDDEN];
  int64_t topk_idx[TOKENS * TOPK];
  float weights[TOKENS * TOPK];
};

static const int32_t active[] = {0, 2, 7, 11};
static const struct pattern plain = {
    .seed = 1, .num_tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts_per_rank = EXPERTS};

static struct data *fill(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t num_active) {
  struct data *data = calloc(1, sizeof *data);
  assert_non_null(data);
  uint32_t tokens = pattern_fill(pattern, op, rank, active, num_active, data->x, data->topk_idx, data->weights);
  assert_int_equal(tokens, pattern_tokens(pattern, op, rank));
  return data;
}

static bool same(struct data *a, struct data *b) {
  bool equal = memcmp(a, b, sizeof *a) == 0;
  free(a);
  free(b);
  return equal;
}

static void is_the_same_for_all_and_new_for_each_operation_and_rank(void **state) {
  (void)state;
  struct pattern other_seed = plain;
  other_seed.seed = 2;
  assert_true(same(fill(&plain, PLAIN_OP, 2, 4), fill(&plain, PLAIN_OP, 2, 4)));
  assert_false(same(fill(&plain, PLAIN_OP, 2, 4), fill(&plain, PLAIN_OP + 1, 2, 4)));
  assert_false(same(fill(&plain, PLAIN_OP, 2, 4), fill(&plain, PLAIN_OP, 7, 4)));
  assert_false(same(fill(&plain, PLAIN_OP, 2, 4), fill(&other_seed, PLAIN_OP, 2, 4)));
}

static void does_not_change_its_rows_with_the_view(void **state) {
  (void)state;
  struct data *all = fill(&plain, PLAIN_OP, 2, 4), *fewer = fill(&plain, PLAIN_OP, 2, 3);
  assert_memory_equal(all->x, fewer->x, sizeof all->x);
  assert_memory_not_equal(all->topk_idx, fewer->topk_idx, sizeof all->topk_idx);
  free(all);
  free(fewer);
}

// Rows of a pool stand before an operation is known: each takes a run of them, and no two tokens the same.
static void takes_a_run_of_a_pool_that_is_made_before(void **state) {
  (void)state;
  struct pattern pooled = plain;
  pooled.pool = 2 * TOKENS + 1;
  uint16_t *pool = malloc((size_t)(pooled.pool + TOKENS) * HIDDEN * sizeof *pool);
  assert_non_null(pool);
  pattern_pool_fill(&pooled, 2, 0, pooled.pool + TOKENS, pool);
  assert_memory_equal(pool, pool + (size_t)pooled.pool * HIDDEN, TOKENS * HIDDEN * sizeof *pool);
  for (uint64_t op = PLAIN_OP; op < PLAIN_OP + 3; op++) {
    struct data *data = fill(&pooled, op, 2, 4);
    assert_memory_equal(data->x, pool + (size_t)pattern_pool_start(&pooled, op, 2) * HIDDEN, sizeof data->x);
    for (uint32_t t = 1; t < TOKENS; t++)
      assert_memory_not_equal(data->x, data->x + (size_t)t * HIDDEN, HIDDEN * sizeof *data->x);
    free(data);
  }
  assert_false(same(fill(&pooled, PLAIN_OP, 2, 4), fill(&pooled, PLAIN_OP + 1, 2, 4)));
  assert_false(same(fill(&pooled, PLAIN_OP, 2, 4), fill(&pooled, PLAIN_OP, 7, 4)));
  free(pool);
}

static void makes_one_row_like_all(void **state) {
  (void)state;
  struct pattern pattern = plain;
  for (uint64_t op = 0; op < 8; op++) {
    pattern.pool = op % 2 ? 0 : 2 * TOKENS + 1;
    struct data *data = fill(&pattern, op, 2, 4), *routed = calloc(1, sizeof *routed);
    uint16_t row[HIDDEN];
    for (uint32_t t = 0; t < TOKENS; t += 7) {
      pattern_row(&pattern, op, 2, t, row);
      assert_memory_equal(row, data->x + (size_t)t * HIDDEN, sizeof row);
    }
    assert_int_equal(pattern_fill(&pattern, op, 2, active, 4, NULL, routed->topk_idx, routed->weights), TOKENS);
    assert_memory_equal(routed->topk_idx, data->topk_idx, sizeof data->topk_idx);
    assert_memory_equal(routed->weights, data->weights, sizeof data->weights);
    free(routed);
    free(data);
  }
}

static void has_one_constant_and_one_scaled_operation_in_any_eight(void **state) {
  (void)state;
  for (uint64_t first = 0; first < 50; first++) {
    int kinds[3] = {0};
    for (uint64_t op = first; op < first + 8; op++)
      kinds[pattern_kind_of(op)]++;
    assert_true(kinds[PATTERN_CONSTANT] == 1 && kinds[PATTERN_SCALED] == 1);
  }
}

static void gives_the_rows_of_the_elastic_test(void **state) {
  (void)state;
  struct pattern uneven = plain;
  uneven.uneven = true;
  uint64_t op = 0;
  while (pattern_kind_of(op) != PATTERN_CONSTANT)
    op++;
  struct data *data = fill(&uneven, op, 11, 4);
  assert_int_equal(pattern_tokens(&uneven, op, 11), TOKENS);
  for (int i = 0; i < TOKENS * HIDDEN; i++) {
    double right = i % HIDDEN < HIDDEN - 128 ? 11 - 128 : i / HIDDEN % 256;
    assert_true(oracle_bf16(data->x[i]) == right);
  }
  free(data);
}

static void gives_finite_rows_with_scales_of_their_own(void **state) {
  (void)state;
  struct data *data = fill(&plain, PLAIN_OP, 0, 4);
  uint8_t q[HIDDEN];
  float scales[HIDDEN / 128];
  int equal = 0, equal_pow2 = 0, negative = 0;
  for (int t = 0; t < TOKENS; t++) {
    oracle_cast(q, scales, data->x + t * HIDDEN, HIDDEN, WEFT_EP_FP8);
    equal += scales[0] == scales[1];
    oracle_cast(q, scales, data->x + t * HIDDEN, HIDDEN, WEFT_EP_FP8_POW2);
    equal_pow2 += scales[0] == scales[1];
    for (int other = 0; other < t; other++)
      assert_memory_not_equal(data->x + t * HIDDEN, data->x + other * HIDDEN, HIDDEN * sizeof *data->x);
  }
  for (int i = 0; i < TOKENS * HIDDEN; i++) {
    assert_true(fabs(oracle_bf16(data->x[i])) < 64);
    negative += data->x[i] >> 15;
  }
  assert_true(equal < TOKENS / 5 && equal_pow2 < TOKENS / 3);
  assert_true(abs(negative - TOKENS * HIDDEN / 2) < TOKENS * HIDDEN / 50);
  free(data);
}

static bool is_active(int64_t rank, uint32_t num_active) {
  for (uint32_t i = 0; i < num_active; i++)
    if (active[i] == rank)
      return true;
  return false;
}

static void routes_to_distinct_experts_of_active_ranks(void **state) {
  (void)state;
  for (uint32_t num_active = 1; num_active <= 4; num_active++) {
    struct data *data = fill(&plain, PLAIN_OP, 0, num_active);
    uint32_t total = num_active * EXPERTS;
    int uses[12 * EXPERTS] = {0};
    for (int t = 0; t < TOKENS; t++)
      for (uint32_t k = 0; k < TOPK; k++) {
        int64_t expert = data->topk_idx[t * TOPK + (int)k];
        assert_int_equal(expert == -1, k >= total);
        if (expert == -1)
          continue;
        assert_true(is_active(expert / EXPERTS, num_active));
        uses[expert]++;
        for (uint32_t other = 0; other < k; other++)
          assert_true(data->topk_idx[t * TOPK + (int)other] != expert);
      }
    int right = TOKENS * (int)(total < TOPK ? total : TOPK) / (int)total;
    for (int expert = 0; expert < 12 * EXPERTS; expert++)
      if (is_active(expert / EXPERTS, num_active))
        assert_uint_in_range(uses[expert], right * 3 / 4, right * 5 / 4);
    free(data);
  }
}

static void gives_positive_weights_and_drops_the_share_that_is_asked_for(void **state) {
  (void)state;
  static const float shares[] = {0, 0.25f, 1};
  for (size_t s = 0; s < 3; s++) {
    struct pattern dropping = plain;
    dropping.drop = shares[s];
    struct data *data = fill(&dropping, PLAIN_OP, 0, 4);
    int dropped = 0;
    for (int i = 0; i < TOKENS * TOPK; i++) {
      dropped += data->topk_idx[i] == -1;
      assert_true(data->weights[i] >= 0.125f && data->weights[i] < 1);
    }
    int right = (int)((float)(TOKENS * TOPK) * shares[s]);
    assert_true(s == 1 ? abs(dropped - right) < TOKENS * TOPK / 20 : dropped == right);
    free(data);
  }
}

static void varies_the_tokens_over_all_numbers(void **state) {
  (void)state;
  struct pattern uneven = plain;
  uneven.uneven = true;
  uneven.num_tokens = 5;
  bool seen[6] = {false};
  for (uint64_t op = 0; op < 400; op++)
    seen[pattern_tokens(&uneven, op, 3)] = true;
  for (int n = 0; n < 6; n++)
    assert_true(seen[n]);
}

static void scales_by_factors_that_are_distinct_and_exact(void **state) {
  (void)state;
  for (int64_t expert = 0; expert < 1000; expert++) {
    double factor = pattern_expert_factor(expert);
    assert_true(factor >= 0.5 && factor < 2);
    assert_true(oracle_bf16(oracle_to_bf16(factor)) == factor);
    for (int64_t near = expert + 1; near < expert + 256; near++)
      assert_true(pattern_expert_factor(near) != factor);
  }
  double row[] = {1, -3}, out[2];
  enum pattern_kind kind = PATTERN_SCALED;
  pattern_expert(&kind, 5, row, 2, out);
  assert_true(out[0] == pattern_expert_factor(5) && out[1] == -3 * pattern_expert_factor(5));
  kind = PATTERN_PLAIN;
  pattern_expert(&kind, 5, row, 2, out);
  assert_true(out[0] == 1 && out[1] == -3);
}

static struct pattern shaped(enum pattern_shape shape) {
  struct pattern pattern = plain;
  pattern.shape = shape;
  return pattern;
}

static void has_one_hot_expert_of_all_ranks(void **state) {
  (void)state;
  struct pattern pattern = shaped(PATTERN_HOT);
  int64_t hot = pattern_hot_expert(&pattern, PLAIN_OP, active, 4);
  for (int32_t rank = 0; rank < 12; rank += 11) {
    struct data *data = fill(&pattern, PLAIN_OP, rank, 4);
    int uses[12 * EXPERTS] = {0};
    for (int i = 0; i < TOKENS * TOPK; i++) {
      assert_true(is_active(data->topk_idx[i] / EXPERTS, 4));
      uses[data->topk_idx[i]]++;
      for (int other = i / TOPK * TOPK; other < i; other++)
        assert_true(data->topk_idx[i] != data->topk_idx[other]);
    }
    for (int expert = 0; expert < 12 * EXPERTS; expert++)
      assert_true(expert == hot ? uses[expert] > TOKENS * 7 / 10 : uses[expert] <= TOKENS);
    free(data);
  }
}

static void has_tokens_for_one_expert_only(void **state) {
  (void)state;
  struct pattern pattern = shaped(PATTERN_ONE_EXPERT);
  int64_t hot = pattern_hot_expert(&pattern, PLAIN_OP, active, 4);
  struct data *data = fill(&pattern, PLAIN_OP, 7, 4);
  bool places[TOPK] = {false};
  for (int t = 0; t < TOKENS; t++) {
    int selected = 0;
    for (int k = 0; k < TOPK; k++) {
      int64_t expert = data->topk_idx[t * TOPK + k];
      assert_true(expert == -1 || expert == hot);
      selected += expert == hot;
      places[k] |= expert == hot;
    }
    assert_int_equal(selected, 1);
  }
  for (int k = 0; k < TOPK; k++)
    assert_true(places[k]);
  free(data);
}

static void has_tokens_for_few_ranks_only(void **state) {
  (void)state;
  struct pattern pattern = shaped(PATTERN_FEW_RANKS);
  uint64_t all = 0;
  for (uint64_t op = 0; op < 40; op++) {
    struct data *data = fill(&pattern, op, 2, 4);
    uint64_t seen = 0;
    for (int i = 0; i < TOKENS * TOPK; i++)
      seen |= data->topk_idx[i] < 0 ? 0 : 1u << data->topk_idx[i] / EXPERTS;
    assert_uint_in_range(__builtin_popcountll(seen), 1, 2);
    all |= seen;
    free(data);
  }
  assert_int_equal(all, 1u << 0 | 1u << 2 | 1u << 7 | 1u << 11);
}

static void leaves_some_ranks_without_tokens(void **state) {
  (void)state;
  struct pattern pattern = shaped(PATTERN_EMPTY_RANKS);
  int empty = 0;
  for (uint64_t op = 0; op < 100; op++)
    for (int i = 0; i < 4; i++) {
      uint32_t tokens = pattern_tokens(&pattern, op, active[i]);
      assert_true(tokens == 0 || tokens == TOKENS);
      empty += tokens == 0;
    }
  assert_uint_in_range(empty, 150, 250);
}

static void draws_any_shape_and_no_other(void **state) {
  (void)state;
  struct pattern pattern = shaped(PATTERN_ANY_SHAPE);
  int seen[PATTERN_ANY_SHAPE] = {0};
  for (uint64_t op = 0; op < 200; op++) {
    enum pattern_shape shape = pattern_shape_of(&pattern, op);
    assert_true(shape < PATTERN_ANY_SHAPE);
    seen[shape]++;
    struct pattern alone = shaped(shape);
    assert_true(op > 5 || same(fill(&pattern, op, 2, 4), fill(&alone, op, 2, 4)));
  }
  for (int shape = 0; shape < PATTERN_ANY_SHAPE; shape++)
    assert_uint_in_range(seen[shape], 20, 60);
}

static void gives_biases_weights_and_bytes_of_their_own(void **state) {
  (void)state;
  uint16_t bias[4][2 * HIDDEN];
  pattern_bias(&plain, PLAIN_OP, 2, 0, 2, bias[0]);
  pattern_bias(&plain, PLAIN_OP, 2, 1, 2, bias[1]);
  pattern_bias(&plain, PLAIN_OP, 7, 0, 2, bias[2]);
  pattern_bias(&plain, PLAIN_OP + 1, 2, 0, 2, bias[3]);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++)
      assert_memory_not_equal(bias[i], bias[j], sizeof bias[i]);
  for (int i = 0; i < 2 * HIDDEN; i++)
    assert_true(fabs(oracle_bf16(bias[0][i])) < 64);
  int negative = 0;
  for (uint32_t i = 0; i < 400; i++) {
    float weight = pattern_row_weight(&plain, PLAIN_OP, 2, 7, i / TOPK, i % TOPK);
    assert_true(weight != 0 && fabsf(weight) <= 1);
    assert_true(weight != pattern_row_weight(&plain, PLAIN_OP, 7, 2, i / TOPK, i % TOPK));
    assert_true(weight != pattern_row_weight(&plain, PLAIN_OP, 2, 7, i / TOPK, i % TOPK + 1));
    negative += weight < 0;
  }
  assert_uint_in_range(negative, 150, 250);
  uint8_t row[3][100], scales[3][12];
  memset(row, 0, sizeof row);
  pattern_payload(&plain, PLAIN_OP, 2, 5, 99, 12, row[0], scales[0]);
  pattern_payload(&plain, PLAIN_OP, 2, 5, 99, 12, row[1], scales[1]);
  pattern_payload(&plain, PLAIN_OP, 2, 6, 99, 12, row[2], scales[2]);
  assert_memory_equal(row[0], row[1], 100);
  assert_memory_equal(scales[0], scales[1], 12);
  assert_memory_not_equal(row[0], row[2], 99);
  assert_memory_not_equal(scales[0], scales[2], 12);
  assert_memory_not_equal(row[0], scales[0], 12);
  assert_int_equal(row[0][99], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_the_same_for_all_and_new_for_each_operation_and_rank),
      cmocka_unit_test(does_not_change_its_rows_with_the_view),
      cmocka_unit_test(takes_a_run_of_a_pool_that_is_made_before),
      cmocka_unit_test(makes_one_row_like_all),
      cmocka_unit_test(has_one_constant_and_one_scaled_operation_in_any_eight),
      cmocka_unit_test(gives_the_rows_of_the_elastic_test),
      cmocka_unit_test(gives_finite_rows_with_scales_of_their_own),
      cmocka_unit_test(routes_to_distinct_experts_of_active_ranks),
      cmocka_unit_test(gives_positive_weights_and_drops_the_share_that_is_asked_for),
      cmocka_unit_test(varies_the_tokens_over_all_numbers),
      cmocka_unit_test(scales_by_factors_that_are_distinct_and_exact),
      cmocka_unit_test(has_one_hot_expert_of_all_ranks),
      cmocka_unit_test(has_tokens_for_one_expert_only),
      cmocka_unit_test(has_tokens_for_few_ranks_only),
      cmocka_unit_test(leaves_some_ranks_without_tokens),
      cmocka_unit_test(draws_any_shape_and_no_other),
      cmocka_unit_test(gives_biases_weights_and_bytes_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
