// The judge of dispatch accepts right results, refuses all others, and says where the fault is.
#include "cmocka_all.h"
#include "ep/oracle/support/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_POW2, WEFT_EP_FP8_UE8M0};
static const enum weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_RANK_MAJOR};

static void accept(const struct model *m) {
  struct oracle_verdict verdict = model_judge_dispatch(m);
  if (!verdict.ok)
    fail_msg("refused: %s", verdict.what);
  assert_string_equal(verdict.what, "");
}

static void refuse(const struct model *m, const char *place) {
  struct oracle_verdict verdict = model_judge_dispatch(m);
  if (verdict.ok)
    fail_msg("accepted, though wrong at: %s", place);
  if (!strstr(verdict.what, place))
    fail_msg("refused, but it says \"%s\" instead of \"%s\"", verdict.what, place);
}

static void accepts_what_is_right(void **state) {
  (void)state;
  for (size_t d = 0; d < 4; d++)
    for (size_t l = 0; l < 2; l++)
      for (int32_t lost = -1; lost < MODEL_CAPACITY; lost++) {
        if (lost == 1 || lost == 4 || lost == 5 || lost == 7 || lost == MODEL_JUDGED)
          continue; // not in the view; and nobody loses itself
        struct model *m = model_new(dtypes[d], layouts[l], lost);
        accept(m);
        m->recv.src_rank = m->recv.src_token = NULL;
        m->recv.range = NULL;
        m->recv.local_expert = NULL;
        m->recv.weights = NULL;
        accept(m);
        free(m);
      }
}

static void refuses_a_flipped_bit_in_any_value(void **state) {
  (void)state;
  for (size_t d = 0; d < 4; d++)
    for (size_t l = 0; l < 2; l++) {
      struct model *m = model_new(dtypes[d], layouts[l], -1);
      int rows = l == 0 ? m->counts[1] : (int)m->info.num_rows;
      assert_true(rows > 3);
      for (int row = 0; row < rows; row++)
        for (int i = row % 8; i < MODEL_HIDDEN; i += 8) {
          int part = l == 0 ? 1 : 0;
          int at = (part * MODEL_ROWS + row) * MODEL_HIDDEN + i;
          char place[64];
          snprintf(place, sizeof place, "x[%d] is", i);
          if (dtypes[d] == WEFT_EP_BF16)
            m->rows.bf16[at] ^= 1;
          else
            m->rows.fp8[at] ^= 1;
          refuse(m, place);
          snprintf(place, sizeof place, l == 0 ? "local expert 1, row %d (" : "dispatch: row %d (", row);
          refuse(m, place);
          if (dtypes[d] == WEFT_EP_BF16)
            m->rows.bf16[at] ^= 1;
          else
            m->rows.fp8[at] ^= 1;
        }
      accept(m);
      free(m);
    }
}

static void refuses_a_scale_off_by_its_last_bit(void **state) {
  (void)state;
  for (size_t d = 1; d < 3; d++) {
    struct model *m = model_new(dtypes[d], WEFT_EP_PER_EXPERT, -1);
    uint32_t bits;
    memcpy(&bits, &m->scales[3], sizeof bits);
    bits ^= 1;
    memcpy(&m->scales[3], &bits, sizeof bits);
    refuse(m, "local expert 0, row 1");
    refuse(m, "scales[1] is");
    free(m);
  }
}

// Of a block's byte, and of the bytes that fill up the word.
static void refuses_any_other_packed_scale(void **state) {
  (void)state;
  struct model *m = model_new(WEFT_EP_FP8_UE8M0, WEFT_EP_PER_EXPERT, -1);
  accept(m);
  for (int byte = 0; byte < 4; byte++) {
    uint8_t *packed = (uint8_t *)m->scales + 4; // of row 1
    char place[64];
    snprintf(place, sizeof place, "scales[0], byte %d is", byte);
    packed[byte] ^= 1;
    refuse(m, "local expert 0, row 1");
    refuse(m, place);
    packed[byte] ^= 1;
  }
  accept(m);
  free(m);
}

static void swap_rows(struct model *m, int a, int b, bool sources_too) {
  uint16_t row[MODEL_HIDDEN];
  uint16_t *x = m->rows.bf16;
  memcpy(row, x + a * MODEL_HIDDEN, sizeof row);
  memcpy(x + a * MODEL_HIDDEN, x + b * MODEL_HIDDEN, sizeof row);
  memcpy(x + b * MODEL_HIDDEN, row, sizeof row);
  if (sources_too) {
    int32_t token = m->src_token[a];
    m->src_token[a] = m->src_token[b];
    m->src_token[b] = token;
  }
}

// One token's row and the next one's, of the same source: nothing but the order is wrong.
static void refuses_rows_out_of_order(void **state) {
  (void)state;
  for (size_t l = 0; l < 2; l++) {
    struct model *m = model_new(WEFT_EP_BF16, layouts[l], -1);
    int a = 0;
    while (m->src_rank[a] != m->src_rank[a + 1] || m->src_token[a] == m->src_token[a + 1])
      a++;
    swap_rows(m, a, a + 1, true);
    refuse(m, "src_token is");
    swap_rows(m, a, a + 1, true);
    accept(m);
    swap_rows(m, a, a + 1, false);
    refuse(m, "x[0] is");
    free(m);
  }
}

static void refuses_a_row_too_few_or_too_many(void **state) {
  (void)state;
  for (size_t l = 0; l < 2; l++)
    for (int change = -1; change <= 1; change += 2) {
      struct model *m = model_new(WEFT_EP_FP8, layouts[l], -1);
      m->counts[1] += change;
      refuse(m, "counts[1] is");
      m->counts[1] -= change;
      m->info.num_rows += (uint32_t)change;
      refuse(m, "num_rows is");
      free(m);
    }
}

// The token stands twice for the expert that it has selected twice.
static void wants_a_row_for_each_of_two_equal_selections(void **state) {
  (void)state;
  struct model *m = model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, -1);
  for (int k = 0; k < MODEL_TOPK; k++) // token 0 of rank 0, all five to one expert
    m->topk_idx[0][k] = MODEL_JUDGED * MODEL_EXPERTS;
  refuse(m, "counts[0] is");
  model_dispatch(m);
  accept(m);
  for (int row = 0; row < MODEL_TOPK; row++)
    assert_true(m->src_rank[row] == 0 && m->src_token[row] == 0);
  free(m);
}

static void refuses_a_wrong_source_range_expert_or_weight(void **state) {
  (void)state;
  for (size_t l = 0; l < 2; l++) {
    struct model *m = model_new(WEFT_EP_BF16, layouts[l], 0);
    m->src_rank[1]++;
    refuse(m, "row 1 (token");
    refuse(m, "src_rank is 3");
    m->src_rank[1]--;
    m->range[MODEL_JUDGED] += (int64_t)1 << 32;
    refuse(m, "range of rank 2 in part 0 is 1 +");
    m->range[MODEL_JUDGED] -= (int64_t)1 << 32;
    m->range[6] -= 1;
    refuse(m, "range of rank 6");
    m->range[6] += 1;
    m->range[5] = 1; // not in the view
    refuse(m, "range of rank 5");
    m->range[5] = 0;
    m->range[0] = 1; // lost
    refuse(m, "range of rank 0");
    m->range[0] = 0;
    accept(m);
    if (layouts[l] == WEFT_EP_RANK_MAJOR) {
      m->local_expert[MODEL_TOPK + 4] = 0;
      refuse(m, "row 1 (token");
      refuse(m, "local_expert[4] is 0, should be -1");
      m->local_expert[MODEL_TOPK + 4] = -1;
      m->weights[2 * MODEL_TOPK] *= 1.0000001f;
      refuse(m, "weights[0] is");
    }
    free(m);
  }
}

static void refuses_rows_of_a_lost_rank(void **state) {
  (void)state;
  struct model *m = model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, -1);
  m->lost[m->num_lost++] = 6;
  refuse(m, "counts[0] is");
  free(m);
  m = model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, 6);
  m->info.num_lost = 0;
  refuse(m, "num_lost is 0, should be 1");
  m->info.num_lost = 1;
  m->lost_out[0] = 3;
  refuse(m, "lost[0] is rank 3, should be 6");
  free(m);
}

static void refuses_more_rows_than_there_is_room_for(void **state) {
  (void)state;
  for (size_t l = 0; l < 2; l++) {
    struct model *m = model_new(WEFT_EP_BF16, layouts[l], -1);
    m->recv.rows = 2;
    refuse(m, "there is room for 2");
    free(m);
  }
}

static void refuses_a_case_that_is_none(void **state) {
  (void)state;
  struct model *m = model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, -1);
  m->test.hidden = 100;
  refuse(m, "hidden is 100");
  m->test.hidden = MODEL_HIDDEN;
  m->sources[1].rank = 7;
  refuse(m, "source rank 3 follows rank 7");
  m->sources[1].rank = 2;
  m->recv.counts = NULL;
  refuse(m, "no x, counts");
  free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_what_is_right),
      cmocka_unit_test(refuses_a_flipped_bit_in_any_value),
      cmocka_unit_test(refuses_a_scale_off_by_its_last_bit),
      cmocka_unit_test(refuses_any_other_packed_scale),
      cmocka_unit_test(refuses_rows_out_of_order),
      cmocka_unit_test(refuses_a_row_too_few_or_too_many),
      cmocka_unit_test(wants_a_row_for_each_of_two_equal_selections),
      cmocka_unit_test(refuses_a_wrong_source_range_expert_or_weight),
      cmocka_unit_test(refuses_rows_of_a_lost_rank),
      cmocka_unit_test(refuses_more_rows_than_there_is_room_for),
      cmocka_unit_test(refuses_a_case_that_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
