// The judge of combine checks biases, sums without weights, rows of ranks and returned weights, and finds each fault in
// them.
#include <stdio.h>
#include <stdlib.h>

#include "ep/oracle/support/judged.h"

static void accept(const struct model *m) {
  judged_accept(m, model_judge_combine);
}

static void refuse(const struct model *m, const char *place) {
  judged_refuse(m, model_judge_combine, place);
}

static struct model *new_model(int32_t lost) {
  return model_new(WEFT_EP_BF16, WEFT_EP_PER_EXPERT, lost);
}

// The answers that a combine may be asked for: bits of what there is.
enum { BIAS_0 = 1, BIAS_1 = 2, UNWEIGHTED = 4, BY_RANK = 8, CODED = 16, RENORMALIZED = 32, ANSWERS = 64 };

static void ask(struct model *m, int answer) {
  m->answer = (struct oracle_answer){.unweighted = answer & UNWEIGHTED, .by_rank = answer & BY_RANK};
  m->answer.bias[0] = answer & BIAS_0 ? m->bias[0] : NULL;
  m->answer.bias[1] = answer & BIAS_1 ? m->bias[1] : NULL;
  m->test.combine_dtype = answer & CODED ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
  m->renormalize = answer & RENORMALIZED;
  model_combine(m);
}

static void accepts_every_answer_that_may_be_asked_for(void **state) {
  (void)state;
  static const enum weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_OPAQUE};
  for (size_t d = 0; d < 3; d++)
    for (int lost = -1; lost <= 6; lost += 7) {
      struct model *m = model_new(dtypes[d], WEFT_EP_PER_EXPERT, lost);
      for (int answer = 0; answer < ANSWERS; answer++) {
        ask(m, answer);
        accept(m);
      }
      free(m);
    }
}

// What was asked for was not done, or another thing was.
static void refuses_each_answer_in_the_place_of_another(void **state) {
  (void)state;
  struct model *m = new_model(0);
  for (int asked = 0; asked < ANSWERS; asked++)
    for (int bit = 1; bit < ANSWERS; bit <<= 1) {
      if (bit == CODED || (bit == RENORMALIZED && asked & UNWEIGHTED && asked & CODED))
        continue; // what is coded is within the bound of what is not, or nearly
      if (bit == UNWEIGHTED && asked & BY_RANK)
        continue; // no weights are left to leave out, but those of renormalisation
      ask(m, asked);
      ask(m, asked ^ bit);
      struct oracle_answer other = m->answer;
      m->answer.bias[0] = asked & BIAS_0 ? m->bias[0] : NULL;
      m->answer.bias[1] = asked & BIAS_1 ? m->bias[1] : NULL;
      m->answer.unweighted = asked & UNWEIGHTED;
      m->answer.by_rank = asked & BY_RANK;
      m->renormalize = asked & RENORMALIZED;
      refuse(m, ", column");
      m->answer = other;
    }
  free(m);
}

// Tokens without contribution have their biases: one exactly, two rounded once.
static void wants_the_biases_of_a_token_without_contribution(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  ask(m, BIAS_1);
  size_t first = (size_t)4 * MODEL_HIDDEN; // of the token for nobody
  assert_memory_equal(m->out + first, m->bias[1] + first, MODEL_HIDDEN * sizeof *m->out);
  for (size_t i = 0; i < MODEL_HIDDEN; i++) {
    m->out[first + i] ^= 1;
    refuse(m, "token 4, column");
    m->out[first + i] ^= 1;
  }
  ask(m, BIAS_0 | BIAS_1);
  for (size_t i = 0; i < MODEL_HIDDEN; i++) {
    m->out[first + i] ^= 2;
    refuse(m, "token 4, column");
    m->out[first + i] ^= 2;
  }
  accept(m);
  free(m);
}

// bf16 before the biases, which is one rounding more.
static void refuses_biases_added_to_what_was_rounded_before(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  ask(m, 0);
  uint16_t sums[MODEL_TOKENS * MODEL_HIDDEN];
  memcpy(sums, m->out, sizeof sums);
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++) // large, so that the sum's last places are lost
    m->bias[0][i] = 0xC000 | (m->bias[0][i] & 0x7F);
  ask(m, BIAS_0);
  accept(m);
  int wrong = 0;
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++) {
    uint16_t right = m->out[i];
    m->out[i] = oracle_to_bf16(oracle_bf16(sums[i]) * 1.02 + oracle_bf16(m->bias[0][i]));
    wrong += !model_judge_combine(m).ok;
    m->out[i] = right;
  }
  assert_true(wrong > MODEL_TOKENS * MODEL_HIDDEN / 10);
  free(m);
}

// A row that a rank made travels as it is: with one rank there is nothing to round, and one unit off is too many.
static void refuses_a_lone_row_of_a_rank_one_unit_off(void **state) {
  (void)state;
  for (int answer = UNWEIGHTED; answer <= BY_RANK; answer += UNWEIGHTED) {
    struct model *m = new_model(-1);
    for (int k = 0; k < MODEL_TOPK; k++)
      m->topk_idx[1][k] = k == 2 ? 7 : -1;
    ask(m, answer);
    accept(m);
    for (int i = 0; i < MODEL_HIDDEN; i++) {
      m->out[i] ^= 1;
      bool power = (m->out[i] & 0x7F) == 0x7F; // the next below a power of two is half as far
      if (!power)
        refuse(m, "token 0, column");
      m->out[i] ^= 1;
    }
    free(m);
  }
}

// Once for each rank, however many of its experts a token has selected; and of a rank that is lost nothing.
static void calls_once_for_each_rank(void **state) {
  (void)state;
  struct model *m = new_model(-1);
  for (int k = 0; k < MODEL_TOPK; k++)
    m->topk_idx[1][k] = k < 3 ? 7 : 18;
  ask(m, BY_RANK);
  accept(m);
  for (int i = 0; i < MODEL_HIDDEN; i++) {
    double row = oracle_bf16(m->x[1][i]);
    double two = oracle_bf16(oracle_to_bf16(row * (1 + 2.0 / 16))),
           six = oracle_bf16(oracle_to_bf16(row * (1 + 6.0 / 16)));
    assert_int_equal(m->out[i], oracle_to_bf16(two + six));
  }
  free(m);
}

static void judges_each_weight_that_comes_back(void **state) {
  (void)state;
  for (int lost = -1; lost <= 6; lost += 7) {
    struct model *m = new_model(lost);
    ask(m, 0);
    m->answer.row_weights = m->row_weights;
    m->answer.out_weights = m->out_weights;
    accept(m);
    for (int i = 0; i < MODEL_TOKENS * MODEL_TOPK; i++) {
      char place[32];
      snprintf(place, sizeof place, "out_weights[%d][%d] is", i / MODEL_TOPK, i % MODEL_TOPK);
      float right = m->out_weights[i];
      m->out_weights[i] = right == 0 ? 0x1p-149f : right * 1.0000001f;
      refuse(m, place);
      m->out_weights[i] = 0.0f / (float)(lost - lost); // NaN
      refuse(m, place);
      m->out_weights[i] = right;
    }
    m->answer.row_weights = NULL; // nobody gave any
    refuse(m, "out_weights[");
    memset(m->out_weights, 0, sizeof m->out_weights);
    accept(m);
    free(m);
  }
}

static void does_without_weights_where_none_count(void **state) {
  (void)state;
  struct model *m = new_model(6);
  ask(m, UNWEIGHTED | RENORMALIZED);
  m->sources[1].topk_weights = NULL;
  accept(m);
  ask(m, BY_RANK);
  accept(m);
  ask(m, BY_RANK | RENORMALIZED);
  refuse(m, "no out or topk_weights");
  m->answer.by_rank = m->renormalize = false;
  refuse(m, "no out or topk_weights");
  free(m);
}

static void judges_the_values_of_a_sample_and_all_that_is_missing(void **state) {
  (void)state;
  struct model *m = new_model(6);
  m->answer.row_weights = m->row_weights;
  m->answer.out_weights = m->out_weights;
  m->test.sample = 4;
  m->test.sample_first = 6;
  for (int t = 0; t < MODEL_TOKENS; t++) {
    uint16_t right = m->out[t * MODEL_HIDDEN + 8];
    m->out[t * MODEL_HIDDEN + 8] = 0x7FC0;
    if (t % 4 == 2)
      refuse(m, "column 8 is");
    else
      accept(m);
    m->out[t * MODEL_HIDDEN + 8] = right;
    m->out_weights[t * MODEL_TOPK + 1] += 0.5f;
    refuse(m, "out_weights[");
    m->out_weights[t * MODEL_TOPK + 1] = m->row_weights[t * MODEL_TOPK + 1];
    model_combine(m);
  }
  m->missing[m->result.num_missing - 1].k--;
  refuse(m, "missing[");
  free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_every_answer_that_may_be_asked_for),
      cmocka_unit_test(refuses_each_answer_in_the_place_of_another),
      cmocka_unit_test(wants_the_biases_of_a_token_without_contribution),
      cmocka_unit_test(refuses_biases_added_to_what_was_rounded_before),
      cmocka_unit_test(refuses_a_lone_row_of_a_rank_one_unit_off),
      cmocka_unit_test(calls_once_for_each_rank),
      cmocka_unit_test(judges_each_weight_that_comes_back),
      cmocka_unit_test(does_without_weights_where_none_count),
      cmocka_unit_test(judges_the_values_of_a_sample_and_all_that_is_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
