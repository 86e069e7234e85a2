// The judges handle ranks that were lost when a part of their rows had arrived: these rows must be right, and the rest
// must be empty or listed as missing.
#include <stdio.h>
#include <stdlib.h>

#include "ep/oracle/support/judged.h"

enum { BROKEN = 6, BROKEN_INDEX = 3, ALL = (1 << MODEL_TOKENS) - 1 };

static const enum weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_RANK_MAJOR, WEFT_EP_PACKED};

// Tokens that came: none, the first, some, every other, all.
static const uint32_t parts[] = {0, 1, 0x1F, 0x155, ALL};

static struct model *broken(enum weft_ep_dtype dtype, enum weft_ep_layout layout, uint32_t came) {
  struct model *m = model_new(dtype, layout, -1);
  model_break(m, BROKEN, came, came);
  model_dispatch(m);
  model_combine(m);
  return m;
}

static void accepts_any_part_of_a_lost_rank(void **state) {
  (void)state;
  static const enum weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_UE8M0, WEFT_EP_OPAQUE};
  for (size_t d = 0; d < 4; d++)
    for (size_t l = 0; l < 3; l++)
      for (size_t p = 0; p < 5; p++)
        for (int renormalize = 0; renormalize < 2; renormalize++) {
          struct model *m = broken(dtypes[d], layouts[l], parts[p]);
          m->renormalize = renormalize;
          model_combine(m);
          judged_accept(m, model_judge_dispatch);
          judged_accept(m, model_judge_combine);
          free(m);
        }
}

static void accepts_that_nothing_came_at_all(void **state) {
  (void)state;
  for (size_t l = 0; l < 3; l++) {
    struct model *m = broken(WEFT_EP_BF16, layouts[l], 0);
    m->partial = false;
    model_dispatch(m);
    judged_accept(m, model_judge_dispatch);
    free(m);
  }
}

// The same rows of a rank that is not listed as lost in mid-flow, or not listed as lost at all.
static void refuses_empty_places_of_any_other_rank(void **state) {
  (void)state;
  for (size_t l = 0; l < 3; l++) {
    struct model *m = broken(WEFT_EP_BF16, layouts[l], 0x1F);
    m->test.num_partial = 0;
    judged_refuse(m, model_judge_dispatch, "counts[");
    m->test.num_partial = 1;
    m->num_lost = 0;
    m->info.num_lost = 0;
    judged_refuse(m, model_judge_dispatch, "src_token is -1");
    free(m);
  }
}

static int first_empty(const struct model *m) {
  for (int row = 0; row < MODEL_EXPERTS * MODEL_ROWS; row++)
    if (m->src_rank[row] == BROKEN && m->src_token[row] == -1)
      return row;
  fail_msg("the model has no empty place");
  return -1;
}

static void refuses_anything_in_a_place_that_is_empty(void **state) {
  (void)state;
  for (size_t l = 0; l < 3; l++) {
    struct model *m = broken(WEFT_EP_FP8, layouts[l], 0x1F);
    int row = first_empty(m);
    m->rows.fp8[row * MODEL_HIDDEN + 77] = 1;
    judged_refuse(m, model_judge_dispatch, "(of rank 6, not arrived): byte 77 of x is 0x01");
    m->rows.fp8[row * MODEL_HIDDEN + 77] = 0;
    m->scales[row * MODEL_BLOCKS + 1] = 1;
    judged_refuse(m, model_judge_dispatch, "not arrived): scales[1] is 0x3f800000");
    m->scales[row * MODEL_BLOCKS + 1] = 0;
    m->src_rank[row] = 2;
    judged_refuse(m, model_judge_dispatch, "not arrived): src_rank is 2");
    m->src_rank[row] = BROKEN;
    m->src_token[row] = 0;
    judged_refuse(m, model_judge_dispatch, "not arrived): src_token is 0");
    m->src_token[row] = -1;
    if (layouts[l] == WEFT_EP_RANK_MAJOR) {
      m->local_expert[row * MODEL_TOPK] = 0;
      judged_refuse(m, model_judge_dispatch, "not arrived): local_expert[0] is 0");
      m->local_expert[row * MODEL_TOPK] = -1;
      m->weights[row * MODEL_TOPK + 2] = 0.5f;
      judged_refuse(m, model_judge_dispatch, "not arrived): weights[2] is");
      m->weights[row * MODEL_TOPK + 2] = 0;
    }
    judged_accept(m, model_judge_dispatch);
    free(m);
  }
}

static void refuses_a_slot_of_a_token_that_did_not_come(void **state) {
  (void)state;
  struct model *m = broken(WEFT_EP_BF16, WEFT_EP_PACKED, 0x1F);
  int pairs = 0;
  for (int s = 0; s < MODEL_RANKS; s++)
    for (uint32_t t = 0; t < m->sources[s].num_tokens; t++) {
      bool any = false;
      for (uint32_t k = 0; k < MODEL_TOPK; k++)
        any |= m->topk_idx[s][t * MODEL_TOPK + k] / MODEL_EXPERTS == MODEL_JUDGED;
      pairs += any;
    }
  int at = (pairs - 1) * MODEL_TOPK + 1; // the last pair is one of the last rank's that did not come
  m->slot[at] = 2;
  judged_refuse(m, model_judge_dispatch, "(rank 6, not arrived) is 2, should be -1");
  m->slot[at] = -1;
  judged_accept(m, model_judge_dispatch);
  free(m);
}

static void refuses_a_changed_row_among_those_that_came(void **state) {
  (void)state;
  for (size_t l = 0; l < 3; l++) {
    struct model *m = broken(WEFT_EP_BF16, layouts[l], 0x1F);
    int row = 0;
    while (m->src_rank[row] != BROKEN)
      row++;
    m->rows.bf16[row * MODEL_HIDDEN + 3] ^= 1;
    judged_refuse(m, model_judge_dispatch, "x[3] is");
    m->rows.bf16[row * MODEL_HIDDEN + 3] ^= 1;
    m->range[BROKEN]++;
    judged_refuse(m, model_judge_dispatch, "range of rank 6 in part 0");
    m->range[BROKEN]--;
    free(m);
  }
}

// A token came to one of its experts' parts and not to another.
static void refuses_half_a_token(void **state) {
  (void)state;
  struct model *m = broken(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, ALL);
  for (int token = 0; token < MODEL_TOKENS; token++) {
    int at[MODEL_EXPERTS], parts_of_it = 0;
    for (int e = 0; e < MODEL_EXPERTS; e++)
      for (int row = e * MODEL_ROWS; row < e * MODEL_ROWS + m->counts[e]; row++)
        if (m->src_rank[row] == BROKEN && m->src_token[row] == token) {
          at[parts_of_it++] = row;
          break;
        }
    for (int i = 0; i < parts_of_it && parts_of_it > 1; i++) {
      m->src_token[at[i]] = -1;
      judged_refuse(m, model_judge_dispatch, "src_token is");
      m->src_token[at[i]] = token;
    }
  }
  judged_accept(m, model_judge_dispatch);
  free(m);
}

static void needs_the_lists_of_what_came(void **state) {
  (void)state;
  struct model *m = broken(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, 1);
  m->recv.src_token = NULL;
  judged_refuse(m, model_judge_dispatch, "without range, src_rank or src_token");
  m->result.missing_cap = m->result.num_missing - 1;
  judged_refuse(m, model_judge_combine, "the list of missing selections is not complete");
  free(m);
}

// A contribution that is listed and was added, one that was not and is not listed, and a list in another order.
static void refuses_a_list_that_disagrees_with_the_sums(void **state) {
  (void)state;
  struct model *m = broken(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, 1);
  assert_true(m->result.num_missing > 2);
  uint32_t last = m->result.num_missing - 1;
  int32_t token = m->missing[last].token;
  assert_int_equal(m->missing[last].expert / MODEL_EXPERTS, BROKEN);
  m->result.num_missing--;
  judged_refuse(m, model_judge_combine,
                last > 0 && m->missing[last - 1].token == token ? "num_missing" : "column 0 is");
  m->result.num_missing++;
  m->missing[last].k++;
  judged_refuse(m, model_judge_combine, "missing[");
  m->missing[last].k--;
  judged_accept(m, model_judge_combine);
  m->answered[BROKEN_INDEX] |= 1u << token; // it was added
  struct weft_ep_result result = m->result;
  struct weft_ep_missing missing[MODEL_TOKENS * MODEL_TOPK];
  memcpy(missing, m->missing, sizeof missing);
  model_combine(m);
  judged_accept(m, model_judge_combine);
  m->result = result;
  memcpy(m->missing, missing, sizeof missing);
  char place[32];
  snprintf(place, sizeof place, "token %d, column 0 is", token);
  judged_refuse(m, model_judge_combine, place);
  free(m);
}

// What a route keeps of a rank that has left, or that masks this one: places, and nothing in them.
static void knows_the_places_that_a_route_keeps(void **state) {
  (void)state;
  for (size_t l = 0; l < 3; l++)
    for (int outside = 0; outside < 2; outside++) {
      struct model *m = broken(WEFT_EP_FP8, layouts[l], 0);
      m->num_lost = m->info.num_lost = m->test.num_partial = 0;
      judged_refuse(m, model_judge_dispatch, "src_token is -1");
      m->sources[BROKEN_INDEX].empty = !outside;
      m->sources[BROKEN_INDEX].outside = outside;
      m->info.num_ranks -= (uint32_t)outside;
      judged_accept(m, model_judge_dispatch);
      m->recv.range = NULL;
      judged_accept(m, model_judge_dispatch);
      m->src_token[first_empty(m)] = 0;
      judged_refuse(m, model_judge_dispatch, "not arrived): src_token is 0");
      m->info.num_ranks++;
      judged_refuse(m, model_judge_dispatch, "num_ranks is");
      m->partial = false; // the combine misses it, if it has left
      m->lost[m->num_lost++] = BROKEN;
      model_combine(m);
      m->num_lost = 0;
      if (outside)
        judged_accept(m, model_judge_combine);
      else
        judged_refuse(m, model_judge_combine, "column 0 is");
      free(m);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_any_part_of_a_lost_rank),
      cmocka_unit_test(accepts_that_nothing_came_at_all),
      cmocka_unit_test(refuses_empty_places_of_any_other_rank),
      cmocka_unit_test(refuses_anything_in_a_place_that_is_empty),
      cmocka_unit_test(refuses_a_slot_of_a_token_that_did_not_come),
      cmocka_unit_test(refuses_a_changed_row_among_those_that_came),
      cmocka_unit_test(refuses_half_a_token),
      cmocka_unit_test(needs_the_lists_of_what_came),
      cmocka_unit_test(refuses_a_list_that_disagrees_with_the_sums),
      cmocka_unit_test(knows_the_places_that_a_route_keeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
