// The judge of dispatch checks packed rows, opaque bytes, kept places and samples, and finds each fault in them.
#include <stdio.h>
#include <stdlib.h>

#include "ep/oracle/support/judged.h"

static const enum weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_POW2, WEFT_EP_FP8_UE8M0,
                                            WEFT_EP_OPAQUE};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static void accept(const struct model *m) {
  judged_accept(m, model_judge_dispatch);
}

static void refuse(const struct model *m, const char *place) {
  judged_refuse(m, model_judge_dispatch, place);
}

static struct model *packed(enum weft_ep_dtype dtype) {
  return model_new(dtype, WEFT_EP_PACKED, -1);
}

static void accepts_packed_rows_of_any_type_and_alignment(void **state) {
  (void)state;
  static const uint32_t alignments[] = {0, 1, 2, 3, 16, 31};
  for (size_t d = 0; d < DTYPES; d++)
    for (size_t a = 0; a < sizeof alignments / sizeof *alignments; a++)
      for (int lost = -1; lost <= 6; lost += 7) {
        struct model *m = model_new(dtypes[d], WEFT_EP_PACKED, lost);
        m->recv.alignment = alignments[a] ? alignments[a] : 1; // 0 means 1
        model_dispatch(m);
        m->recv.alignment = alignments[a];
        accept(m);
        m->recv.flags = 0;
        m->recv.slot = m->recv.expert_end = m->recv.src_rank = m->recv.src_token = NULL;
        m->recv.range = NULL;
        accept(m);
        free(m);
      }
}

static void refuses_rows_packed_by_another_alignment(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_BF16);
  m->recv.alignment = 8;
  refuse(m, "rows_needed is");
  m->info.rows_needed = (uint32_t)(m->expert_end[2] + 7) / 8 * 8;
  m->recv.alignment = 5;
  m->info.rows_needed = 0;
  refuse(m, "rows_needed is 0, should be");
  free(m);
}

static void refuses_a_wrong_end_of_an_expert(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_FP8);
  for (int e = 0; e < MODEL_EXPERTS; e++)
    for (int change = -1; change <= 1; change += 2) {
      char place[32];
      snprintf(place, sizeof place, "expert_end[%d] is", e);
      m->expert_end[e] += change;
      refuse(m, place);
      m->expert_end[e] -= change;
    }
  accept(m);
  free(m);
}

// Each entry of slot: another row, none in the place of a row, a row in the place of none.
static void refuses_any_wrong_slot(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_BF16);
  int pairs = 0;
  for (int i = 0; i < MODEL_EXPERTS * MODEL_ROWS * MODEL_TOPK; i++)
    pairs = m->slot[i] >= 0 ? i / MODEL_TOPK + 1 : pairs;
  assert_true(pairs > 10);
  for (int i = 0; i < pairs * MODEL_TOPK; i++) {
    char place[32];
    int32_t right = m->slot[i];
    snprintf(place, sizeof place, "slot[%d][%d] (", i / MODEL_TOPK, i % MODEL_TOPK);
    m->slot[i] = right + 1;
    refuse(m, place);
    m->slot[i] = right < 0 ? 3 : -1;
    refuse(m, place);
    m->slot[i] = right;
  }
  accept(m);
  free(m);
}

static void refuses_any_flipped_bit_of_packed_rows(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_BF16);
  for (int e = 0; e < MODEL_EXPERTS; e++)
    for (int row = m->expert_end[e] - m->counts[e]; row < m->expert_end[e]; row++) {
      char place[64];
      snprintf(place, sizeof place, "local expert %d, row %d (token", e, row - m->expert_end[e] + m->counts[e]);
      m->rows.bf16[row * MODEL_HIDDEN + row] ^= 1;
      refuse(m, place);
      m->rows.bf16[row * MODEL_HIDDEN + row] ^= 1;
      m->src_token[row]++;
      refuse(m, place);
      m->src_token[row]--;
      m->src_rank[row]++;
      refuse(m, "src_rank is");
      m->src_rank[row]--;
    }
  m->range[MODEL_CAPACITY + 6]++;
  refuse(m, "range of rank 6 in part 1");
  free(m);
}

static void refuses_padding_that_is_not_zero_only_where_zero_was_asked_for(void **state) {
  (void)state;
  for (size_t d = 0; d < DTYPES; d++) {
    struct model *m = packed(dtypes[d]);
    int row = m->expert_end[2];
    assert_true(row < (int)m->info.rows_needed); // there is padding behind the last part, and
    int other = m->expert_end[0] % 4 != 0 ? m->expert_end[0] : m->expert_end[1];
    assert_true(other % 4 != 0); // between two
    size_t bytes = dtypes[d] == WEFT_EP_BF16 ? MODEL_HIDDEN * 2 : dtypes[d] == WEFT_EP_OPAQUE ? 96 : MODEL_HIDDEN;
    uint8_t *last = (uint8_t *)&m->rows + (size_t)(row + 1) * bytes - 1;
    *last = 1;
    refuse(m, "local expert 2, row");
    refuse(m, "(between the parts): byte");
    *last = 0;
    m->src_rank[other] = 0;
    refuse(m, "src_rank is 0, should be -1");
    m->src_rank[other] = -1;
    m->src_token[other] = 5;
    refuse(m, "src_token is 5, should be -1");
    m->src_token[other] = -1;
    if (dtypes[d] != WEFT_EP_BF16) {
      size_t scales = dtypes[d] == WEFT_EP_FP8_UE8M0 ? 4 : MODEL_BLOCKS * 4;
      ((uint8_t *)m->scales)[(size_t)other * scales] = 1;
      refuse(m, "scales[0] is 0x00000001, should be 0");
      ((uint8_t *)m->scales)[(size_t)other * scales] = 0;
    }
    accept(m);
    *last = 1;
    m->recv.flags = 0;
    accept(m);
    free(m);
  }
}

static void refuses_packed_rows_beyond_the_room(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_BF16);
  m->recv.rows = m->info.rows_needed;
  accept(m);
  m->recv.rows--;
  refuse(m, "there is room for");
  free(m);
}

static void refuses_wrong_rows_needed_of_any_layout(void **state) {
  (void)state;
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_PACKED; layout++) {
    struct model *m = model_new(WEFT_EP_BF16, (enum weft_ep_layout)layout, -1);
    m->info.rows_needed++;
    refuse(m, "rows_needed is");
    free(m);
  }
}

static void judges_each_opaque_byte(void **state) {
  (void)state;
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_PACKED; layout++) {
    struct model *m = model_new(WEFT_EP_OPAQUE, (enum weft_ep_layout)layout, -1);
    accept(m);
    for (int i = 0; i < MODEL_ROW_BYTES; i++) {
      char place[32];
      snprintf(place, sizeof place, "byte %d of x is", i);
      m->rows.opaque[2 * MODEL_ROW_BYTES + i] ^= 0x10;
      refuse(m, place);
      m->rows.opaque[2 * MODEL_ROW_BYTES + i] ^= 0x10;
    }
    for (int i = 0; i < MODEL_SCALE_BYTES; i++) {
      char place[32];
      snprintf(place, sizeof place, "scales[%d], byte %d is", i / 4, i % 4);
      ((uint8_t *)m->scales)[MODEL_SCALE_BYTES + i] ^= 0x80;
      refuse(m, place);
      ((uint8_t *)m->scales)[MODEL_SCALE_BYTES + i] ^= 0x80;
    }
    accept(m);
    m->recv.scales = NULL;
    refuse(m, "no x, counts or scales");
    m->test.scale_bytes = 0; // then there are none
    accept(m);
    m->sources[0].payload = NULL;
    refuse(m, "no payload or scales");
    m->test.row_bytes = 0;
    refuse(m, "opaque rows of 0 bytes");
    free(m);
  }
}

static void put_at_places(struct model *m) {
  for (uint32_t row = 0; row < m->info.num_rows; row++) {
    int s = 0;
    while (m->sources[s].rank != m->src_rank[row])
      s++;
    for (int k = 0; k < MODEL_TOPK; k++) {
      int at = m->src_token[row] * MODEL_TOPK + k;
      int64_t local = m->topk_idx[s][at] - MODEL_JUDGED * MODEL_EXPERTS;
      bool here = local >= 0 && local < MODEL_EXPERTS;
      m->local_expert[row * MODEL_TOPK + (uint32_t)k] = here ? (int32_t)local : -1;
      m->weights[row * MODEL_TOPK + (uint32_t)k] = here ? m->topk_weights[s][at] : 0;
    }
  }
}

static void wants_places_kept_when_asked_for(void **state) {
  (void)state;
  struct model *m = model_new(WEFT_EP_BF16, WEFT_EP_RANK_MAJOR, -1);
  m->recv.flags = WEFT_EP_RECV_KEEP_PLACES;
  refuse(m, "local_expert[");
  put_at_places(m);
  accept(m);
  for (uint32_t i = 0; i < m->info.num_rows * MODEL_TOPK; i++) {
    m->local_expert[i] = m->local_expert[i] < 0 ? 0 : -1;
    refuse(m, "local_expert[");
    m->local_expert[i] = m->local_expert[i] < 0 ? 0 : -1;
    put_at_places(m);
    m->weights[i] += 0.25f;
    refuse(m, "weights[");
    put_at_places(m);
  }
  m->recv.flags = 0;
  refuse(m, "local_expert[");
  free(m);
}

// Of a sample, other rows' values are not looked at; their places are.
static void judges_the_values_of_a_sample_and_all_places(void **state) {
  (void)state;
  struct model *m = packed(WEFT_EP_FP8);
  m->test.sample = 3;
  for (uint32_t first = 0; first < 7; first++) {
    m->test.sample_first = first;
    for (int e = 0; e < MODEL_EXPERTS; e++)
      for (int row = m->expert_end[e] - m->counts[e]; row < m->expert_end[e]; row++) {
        m->rows.fp8[row * MODEL_HIDDEN + 200] ^= 0x40;
        if ((uint32_t)m->src_token[row] % 3 == first % 3)
          refuse(m, "x[200] is");
        else
          accept(m);
        m->rows.fp8[row * MODEL_HIDDEN + 200] ^= 0x40;
        m->src_token[row]++;
        refuse(m, "src_token is");
        m->src_token[row]--;
      }
  }
  free(m);
}

struct rows {
  struct model *m;
  int made;
};

static void make_row(void *arg, int32_t rank, uint32_t token, uint16_t *row) {
  struct rows *rows = arg;
  rows->made++;
  for (int s = 0; s < MODEL_RANKS; s++)
    if (rows->m->sources[s].rank == rank)
      memcpy(row, &rows->m->x[s][token * MODEL_HIDDEN], MODEL_HIDDEN * sizeof *row);
}

// Rows that are made as they are judged are judged like those that are there, and only those of the sample are made.
static void makes_rows_when_they_are_judged(void **state) {
  (void)state;
  for (size_t d = 0; d < 2; d++)
    for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_PACKED; layout++) {
      struct model *m = model_new(dtypes[d], (enum weft_ep_layout)layout, -1);
      struct rows rows = {.m = m};
      for (int s = 0; s < MODEL_RANKS; s++)
        m->sources[s].x = NULL;
      refuse(m, "has tokens, but no x");
      m->test.make_row = make_row;
      m->test.row_arg = &rows;
      accept(m);
      judged_accept(m, model_judge_combine);
      int all = rows.made;
      m->test.sample = 3;
      rows.made = 0;
      accept(m);
      judged_accept(m, model_judge_combine);
      assert_true(rows.made > 0 && rows.made < all / 2);
      m->test.sample = 0;
      ((uint8_t *)&m->rows)[5] ^= 1;
      refuse(m, "x[");
      ((uint8_t *)&m->rows)[5] ^= 1;
      m->out[7] ^= 0x40;
      judged_refuse(m, model_judge_combine, "column 7 is");
      free(m);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_packed_rows_of_any_type_and_alignment),
      cmocka_unit_test(refuses_rows_packed_by_another_alignment),
      cmocka_unit_test(refuses_a_wrong_end_of_an_expert),
      cmocka_unit_test(refuses_any_wrong_slot),
      cmocka_unit_test(refuses_any_flipped_bit_of_packed_rows),
      cmocka_unit_test(refuses_padding_that_is_not_zero_only_where_zero_was_asked_for),
      cmocka_unit_test(refuses_packed_rows_beyond_the_room),
      cmocka_unit_test(refuses_wrong_rows_needed_of_any_layout),
      cmocka_unit_test(judges_each_opaque_byte),
      cmocka_unit_test(wants_places_kept_when_asked_for),
      cmocka_unit_test(judges_the_values_of_a_sample_and_all_places),
      cmocka_unit_test(makes_rows_when_they_are_judged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
