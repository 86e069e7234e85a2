// The judge of combine accepts results within rounding, refuses all others, and says where the fault is.
#include "cmocka_all.h"
#include "ep/oracle/support/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_POW2, WEFT_EP_FP8_UE8M0};

static void accept(const struct model *m) {
  struct oracle_verdict verdict = model_judge_combine(m);
  if (!verdict.ok)
    fail_msg("refused: %s", verdict.what);
  assert_true(verdict.worst_diff > 0 && verdict.worst_diff < 1e-5);
}

static void refuse(const struct model *m, const char *place) {
  struct oracle_verdict verdict = model_judge_combine(m);
  if (verdict.ok)
    fail_msg("accepted, though wrong at: %s", place);
  if (!strstr(verdict.what, place))
    fail_msg("refused, but it says \"%s\" instead of \"%s\"", verdict.what, place);
}

static struct model *new_model(int32_t lost) {
  return model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, lost);
}

static void accepts_what_is_right(void **state) {
  (void)state;
  for (size_t d = 0; d < 4; d++)
    for (int lost = -1; lost <= 6; lost += 1)
      for (int renormalize = 0; renormalize < 2; renormalize++) {
        struct model *m = model_new(dtypes[d], WEFT_EP_PER_EXPERT, lost);
        m->renormalize = renormalize;
        model_combine(m);
        accept(m);
        free(m);
      }
}

// The sums of the engine without its roundings: a result in double, rounded once. And with cancelling signs.
static void accepts_a_result_rounded_once_and_sums_that_cancel(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++) {
    double sum = 0;
    for (int k = 0; k < MODEL_TOPK; k++) {
      int64_t expert = m->topk_idx[1][i / MODEL_HIDDEN * MODEL_TOPK + k];
      if (expert < 0 || expert / MODEL_EXPERTS == 5)
        continue;
      double y = oracle_bf16(oracle_to_bf16(oracle_bf16(m->x[1][i]) * (1 + (double)expert / 16)));
      sum += y * (double)m->topk_weights[1][i / MODEL_HIDDEN * MODEL_TOPK + k];
    }
    m->out[i] = oracle_to_bf16(sum);
  }
  accept(m);
  for (int k = 0; k < MODEL_TOKENS * MODEL_TOPK; k += 2)
    m->topk_weights[1][k] *= -1;
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i += 3)
    m->x[1][i] ^= 0x8000;
  model_combine(m);
  accept(m);
  free(m);
}

// The rows and weights are positive, so that no sum is smaller than its parts: the bound is less than two units of the
// last place, and a right result cannot be four off.
static void refuses_any_value_four_units_off(void **state) {
  (void)state;
  for (size_t d = 0; d < 4; d++) {
    struct model *m = model_new(dtypes[d], WEFT_EP_PER_EXPERT, -1);
    for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i += 5) {
      char place[64];
      snprintf(place, sizeof place, "token %d, column %d is", i / MODEL_HIDDEN, i % MODEL_HIDDEN);
      m->out[i] ^= 4;
      refuse(m, place);
      m->out[i] ^= 4 | 0x8000;
      if (m->out[i] != 0x8000) // of a token with no contribution
        refuse(m, place);
      m->out[i] ^= 0x8000;
    }
    accept(m);
    free(m);
  }
}

// One selection of weight 1: the right result is a bf16 number, and the two roundings leave room for one unit of its
// last place.
static void refuses_a_lone_contribution_two_units_off(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  for (int k = 0; k < MODEL_TOPK; k++)
    m->topk_idx[1][k] = k == 2 ? 7 : -1;
  m->topk_weights[1][2] = 1;
  model_combine(m);
  accept(m);
  for (int i = 0; i < MODEL_HIDDEN; i++) {
    m->out[i] ^= 2;
    refuse(m, "token 0, column");
    m->out[i] ^= 2;
  }
  free(m);
}

static struct model *new_coded_model(enum weft_ep_dtype dtype) {
  struct model *m = model_new(dtype, WEFT_EP_PER_EXPERT, -1);
  m->test.combine_dtype = WEFT_EP_COMBINE_LOGFMT10;
  model_combine(m);
  return m;
}

// The rows span 2^6 at most, so that coding leaves room for a value's 246th part, two units of its last place; the
// roundings leave two more. Eight are too many.
static void accepts_rows_coded_as_logfmt10_and_no_others(void **state) {
  (void)state;
  for (size_t d = 0; d < 4; d++) {
    struct model *m = new_coded_model(dtypes[d]);
    accept(m);
    for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i += 5) {
      char place[64];
      snprintf(place, sizeof place, "token %d, column %d is", i / MODEL_HIDDEN, i % MODEL_HIDDEN);
      m->out[i] ^= 8;
      refuse(m, place);
      m->out[i] ^= 8;
    }
    free(m);
  }
}

static void knows_ranges_of_logfmt10_with_zeros_signs_and_cuts(void **state) {
  (void)state;
  struct model *m = new_coded_model(WEFT_EP_BF16);
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++) {
    m->x[1][i] ^= i % 3 == 0 ? 0x8000 : 0;
    if (i / 128 % 3 == 1 && i % 7 == 0)
      m->x[1][i] = 0;
    if (i / 128 % 3 == 2) // from 2^0 to 2^38 and more
      m->x[1][i] = (uint16_t)((m->x[1][i] & 0x807F) | (0x3F80 + i % 39 * 128));
  }
  model_combine(m);
  struct oracle_verdict verdict = model_judge_combine(m);
  if (!verdict.ok)
    fail_msg("refused: %s", verdict.what);
  m->test.combine_dtype = WEFT_EP_COMBINE_BF16; // which would not have done that
  refuse(m, "should be");
  free(m);
}

static void refuses_nan_and_infinity(void **state) {
  (void)state;
  static const uint16_t bad[] = {0x7FC0, 0xFFC0, 0x7F80, 0xFF80, 0x7F81};
  struct model *m = new_model(-1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint16_t right = m->out[2 * MODEL_HIDDEN + 17];
    m->out[2 * MODEL_HIDDEN + 17] = bad[i];
    refuse(m, "token 2, column 17 is");
    m->out[2 * MODEL_HIDDEN + 17] = right;
  }
  m->x[1][5] = 0x7FC0; // the right result is NaN itself
  model_combine(m);
  refuse(m, "token 0, column 5 is");
  free(m);
}

static void refuses_swapped_tokens(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  uint16_t row[MODEL_HIDDEN];
  memcpy(row, m->out, sizeof row);
  memcpy(m->out, m->out + MODEL_HIDDEN, sizeof row);
  memcpy(m->out + MODEL_HIDDEN, row, sizeof row);
  refuse(m, "token 0, column 0 is");
  free(m);
}

static void refuses_anything_for_a_token_without_contribution(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  m->out[4 * MODEL_HIDDEN + 9] = 1; // the smallest number there is
  refuse(m, "token 4, column 9 is 0x0001");
  free(m);
}

// Each with an input that the result does not answer to.
static void refuses_a_wrong_weight_expert_or_selection(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  m->topk_weights[1][7 * MODEL_TOPK + 1] *= 1.1f;
  refuse(m, "token 7, column");
  free(m);
  m = new_model(-1);
  m->topk_idx[1][2 * MODEL_TOPK] += m->topk_idx[1][2 * MODEL_TOPK] % MODEL_EXPERTS == 0 ? 1 : -1;
  refuse(m, "token 2, column");
  free(m);
  m = new_model(-1);
  m->topk_idx[1][1] = -1; // came, though nobody asked
  refuse(m, "token 0, column");
  free(m);
}

static void refuses_a_contribution_lost_in_silence(void **state) {
  (void)state;
  struct model *m = new_model(6);
  m->num_lost = 0; // as if rank 6 had answered
  m->result.num_missing = 1;
  m->missing[0] = (struct weft_ep_missing){.token = 6, .k = 0, .expert = 5 * MODEL_EXPERTS + 1};
  refuse(m, "column 0 is");
  free(m);
}

static void refuses_a_wrong_list_of_missing_selections(void **state) {
  (void)state;
  struct model *m = new_model(6);
  assert_true(m->result.num_missing > 3);
  m->result.num_missing--;
  refuse(m, "num_missing is");
  m->result.num_missing += 2;
  refuse(m, "num_missing is");
  m->result.num_missing--;
  m->missing[2].k++;
  refuse(m, "missing[2] is");
  m->missing[2].k--;
  m->missing[0].expert++;
  refuse(m, "missing[0] is");
  m->missing[0].expert--;
  struct weft_ep_missing first = m->missing[0];
  m->missing[0] = m->missing[1];
  m->missing[1] = first;
  refuse(m, "missing[0] is");
  m->result.missing_cap = 0; // asked for none of them
  accept(m);
  free(m);
}

static void refuses_renormalisation_that_was_not_asked_for_or_not_done(void **state) {
  (void)state;
  for (int done = 0; done < 2; done++) {
    struct model *m = new_model(0);
    m->renormalize = done;
    model_combine(m);
    accept(m);
    m->renormalize = !done;
    refuse(m, "column 0 is");
    free(m);
  }
}

static void refuses_a_rank_that_is_not_in_the_view(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  struct oracle_verdict verdict =
      oracle_check_combine(&m->test, 1, m->out, &m->result, model_expert, NULL, NULL, 0, false);
  assert_false(verdict.ok);
  assert_string_equal(verdict.what, "case: rank 1 is not among the sources");
  free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_what_is_right),
      cmocka_unit_test(accepts_a_result_rounded_once_and_sums_that_cancel),
      cmocka_unit_test(refuses_any_value_four_units_off),
      cmocka_unit_test(refuses_a_lone_contribution_two_units_off),
      cmocka_unit_test(accepts_rows_coded_as_logfmt10_and_no_others),
      cmocka_unit_test(knows_ranges_of_logfmt10_with_zeros_signs_and_cuts),
      cmocka_unit_test(refuses_nan_and_infinity),
      cmocka_unit_test(refuses_swapped_tokens),
      cmocka_unit_test(refuses_anything_for_a_token_without_contribution),
      cmocka_unit_test(refuses_a_wrong_weight_expert_or_selection),
      cmocka_unit_test(refuses_a_contribution_lost_in_silence),
      cmocka_unit_test(refuses_a_wrong_list_of_missing_selections),
      cmocka_unit_test(refuses_renormalisation_that_was_not_asked_for_or_not_done),
      cmocka_unit_test(refuses_a_rank_that_is_not_in_the_view),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
