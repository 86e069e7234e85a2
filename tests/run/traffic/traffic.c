// A single rank in its group: its operations pass the judge, and operations that are corrupted afterwards fail.
#include "cmocka_all.h"
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "run/traffic/internal.h"

enum { TIMEOUT_MS = 60000 };

struct rig {
  struct run_config config;
  weft_store_t *store;
  weft_ep_t *ep;
  struct buffer_home home;
  struct traffic *traffic;
};

// `gpu`: the operations' buffers lie in what a plug-in takes for the memory of a GPU (fake_gpus.c).
static void open_rig(struct rig *rig, enum weft_ep_dtype dtype, enum weft_ep_layout layout, bool gpu) {
  *rig = (struct rig){.config = {.num_tokens = 9,
                                 .experts_per_rank = 3,
                                 .hidden = 256,
                                 .topk = 4,
                                 .dtype = dtype,
                                 .layout = layout,
                                 .seed = 5}};
  assert_int_equal(weft_store_open_local(&rig->store), 0);
  struct weft_ep_options options = {.size = sizeof options,
                                    .store = rig->store,
                                    .rank = 2,
                                    .capacity = 4,
                                    .max_tokens = rig->config.num_tokens,
                                    .hidden = rig->config.hidden,
                                    .topk = rig->config.topk,
                                    .experts_per_rank = rig->config.experts_per_rank,
                                    .dtype = dtype};
  assert_int_equal(weft_ep_open(&rig->ep, &options, TIMEOUT_MS), 0);
  assert_int_equal(weft_ep_activate(rig->ep, TIMEOUT_MS), 0);
  assert_int_equal(buffer_home_open(&rig->home, gpu ? 0 : -1), 0);
  assert_int_equal(traffic_open(&rig->traffic, rig->ep, &rig->config, &rig->home, options.capacity, 1), 0);
  assert_int_equal(traffic_rehearse(rig->traffic), 0); // leaves nothing that a judge finds
}

static void close_rig(struct rig *rig) {
  traffic_close(rig->traffic);
  buffer_home_close(&rig->home);
  weft_ep_close(rig->ep);
  weft_store_close(rig->store);
}

static int judge(struct rig *rig, const struct traffic_op *op) {
  double worst = 0;
  return traffic_judge(rig->traffic, op, NULL, 0, &worst);
}

// Runs and judges enough operations to have each kind.
static void every_kind_passes(enum weft_ep_dtype dtype, enum weft_ep_layout layout, bool gpu) {
  struct rig rig;
  struct traffic_op op;
  unsigned kinds = 0;
  open_rig(&rig, dtype, layout, gpu);
  for (uint64_t i = 0; i < 16; i++) {
    enum pattern_kind announced = traffic_next_kind(rig.traffic);
    assert_int_equal(traffic_run(rig.traffic, true, &op), 0);
    if (judge(&rig, &op))
      fail_msg("operation %d: %s", (int)i, weft_last_error());
    assert_int_equal(op.op, i);
    assert_int_equal(op.kind, announced);
    assert_int_equal(op.num_ranks, 1);
    assert_int_equal(op.ranks[0], 2);
    assert_int_equal(op.settled, i > 0);
    kinds |= 1u << op.kind;
  }
  assert_int_equal(kinds, 7);
  close_rig(&rig);
}

static void operations_of_every_kind_and_form_pass(void **state) {
  (void)state;
  for (enum weft_ep_dtype dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++) {
    every_kind_passes(dtype, WEFT_EP_PER_EXPERT, false);
    every_kind_passes(dtype, WEFT_EP_RANK_MAJOR, false);
    every_kind_passes(dtype, WEFT_EP_PACKED, false);
  }
}

// --- forms ---

static struct traffic_form form_of(enum weft_ep_layout layout, enum traffic_way way) {
  return (struct traffic_form){.way = way,
                               .biases = 2,
                               .unweighted = layout == WEFT_EP_PER_EXPERT,
                               .weights_back = layout != WEFT_EP_PER_EXPERT,
                               .zero_padding = layout == WEFT_EP_PACKED};
}

// A route is filled, dispatched by twice, and combined by alone, all with biases and what else the layout has. What is
// spoilt of a combine that passed is refused.
static void every_form_passes(enum weft_ep_dtype dtype, enum weft_ep_layout layout, bool gpu) {
  static const enum traffic_way ways[] = {TRAFFIC_FILLING, TRAFFIC_KEPT,    TRAFFIC_KEPT,         TRAFFIC_COMBINE_ROUTE,
                                          TRAFFIC_ROUTED,  TRAFFIC_FILLING, TRAFFIC_COMBINE_ROUTE};
  struct rig rig;
  struct traffic_op op;
  struct traffic *traffic;
  double worst = 0;
  open_rig(&rig, dtype, layout, gpu);
  struct run_config config = rig.config;
  config.layout = layout;
  config.alignment = layout == WEFT_EP_PACKED ? 5 : 0;
  assert_int_equal(traffic_open_variant(&traffic, rig.traffic, &config), 0);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    struct traffic_form form = form_of(layout, ways[i]);
    traffic_set_form(traffic, &form);
    if (traffic_run(traffic, true, &op) || traffic_judge(traffic, &op, NULL, 0, &worst))
      fail_msg("form %zu of layout %d: %s", i, (int)layout, weft_last_error());
    assert_int_equal(op.input_op == op.op, ways[i] == TRAFFIC_FILLING || ways[i] == TRAFFIC_ROUTED);
    if (traffic->input.num_tokens == 0)
      continue;
    ((uint16_t *)traffic->pairs[PAIR_OUT].place)[1] ^= 0x4000;
    assert_int_equal(traffic_judge(traffic, &op, NULL, 0, &worst), WEFT_ERR_DATA);
    ((uint16_t *)traffic->pairs[PAIR_OUT].place)[1] ^= 0x4000;
    if (layout != WEFT_EP_RANK_MAJOR)
      continue;
    ((float *)traffic->pairs[PAIR_OUT_WEIGHTS].place)[2] += 1;
    assert_int_equal(traffic_judge(traffic, &op, NULL, 0, &worst), WEFT_ERR_DATA);
    assert_non_null(strstr(weft_last_error(), "out_weights"));
    ((float *)traffic->pairs[PAIR_OUT_WEIGHTS].place)[2] -= 1;
  }
  // Nobody has joined, so the route is not refused, and that is reported.
  assert_int_equal(traffic_check_refused(traffic), WEFT_ERR_DATA);
  assert_non_null(strstr(weft_last_error(), "want CONFLICT"));
  traffic_close(traffic);
  close_rig(&rig);
}

static void operations_of_every_form_pass(void **state) {
  (void)state;
  for (enum weft_ep_dtype dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++)
    for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_PACKED; layout++)
      every_form_passes(dtype, (enum weft_ep_layout)layout, false);
}

static void a_spoilt_operation_is_refused(void **state) {
  (void)state;
  struct rig rig;
  struct traffic_op op;
  open_rig(&rig, WEFT_EP_BF16, WEFT_EP_PER_EXPERT, false);
  do
    assert_int_equal(traffic_run(rig.traffic, true, &op), 0);
  while (op.kind != PATTERN_PLAIN);
  assert_int_equal(judge(&rig, &op), 0);
  uint16_t *received = rig.traffic->recv.x, *out = rig.traffic->out;
  received[0] ^= 1;
  assert_int_equal(judge(&rig, &op), WEFT_ERR_DATA);
  assert_non_null(strstr(weft_last_error(), "dispatch of operation"));
  received[0] ^= 1;
  out[3] ^= 0x0200; // a high bit of the fraction's
  assert_int_equal(judge(&rig, &op), WEFT_ERR_DATA);
  out[3] ^= 0x0200;
  out[300] ^= 0x8000;
  assert_int_equal(judge(&rig, &op), WEFT_ERR_DATA);
  assert_non_null(strstr(weft_last_error(), "combine of operation"));
  out[300] ^= 0x8000;
  int32_t missing = 2; // everything came
  double worst = 0;
  assert_int_equal(traffic_judge(rig.traffic, &op, &missing, 1, &worst), WEFT_ERR_DATA);
  assert_int_equal(judge(&rig, &op), 0);
  close_rig(&rig);
}

// The rows stand there before the number of an operation is known: an operation only finds its part of them.
static void rows_are_made_before_the_first_operation(void **state) {
  (void)state;
  struct rig rig;
  struct traffic_op op;
  open_rig(&rig, WEFT_EP_BF16, WEFT_EP_PER_EXPERT, false);
  const struct traffic_pool *pool = &rig.traffic->pool;
  size_t values = (2 * rig.config.num_tokens + pool->rows) * rig.config.hidden;
  uint16_t *before = malloc(values * sizeof *before);
  assert_non_null(before);
  memcpy(before, pool->host, values * sizeof *before);
  for (int i = 0; i < 16; i++) {
    assert_int_equal(traffic_run(rig.traffic, false, &op), 0);
    assert_in_range(rig.traffic->x - pool->host, 0, values - rig.config.num_tokens * rig.config.hidden);
  }
  assert_memory_equal(before, pool->host, values * sizeof *before);
  free(before);
  close_rig(&rig);
}

static void rows_for_others_are_one_a_token_and_rank(void **state) {
  (void)state;
  struct rig rig;
  struct traffic_op op;
  open_rig(&rig, WEFT_EP_BF16, WEFT_EP_PER_EXPERT, false);
  assert_int_equal(traffic_run(rig.traffic, false, &op), 0);
  assert_int_equal(traffic_remote_rows(rig.traffic), 0); // alone
  static const int64_t topk[] = {6,  7,  0,  2, /* own 6..8, rank 0 twice: 1 */ 3,
                                 0,  9,  4, /* ranks 1, 0, 3: 3 */
                                 -1, -1, -1, 8, /* none */ -1,
                                 11, -1, 10 /* rank 3: 1 */};
  rig.traffic->input.num_tokens = 4;
  memcpy(rig.traffic->input.topk, topk, sizeof topk);
  assert_int_equal(traffic_remote_rows(rig.traffic), 5);
  uint64_t rows[4] = {0, 10, 0, 0}; // they are added to
  traffic_add_rows(rig.traffic, rows);
  const uint64_t expected[4] = {2, 11, 2, 2};
  assert_memory_equal(rows, expected, sizeof rows);
  close_rig(&rig);
}

// The plug-in stands in this variable; false: it was not built here.
static bool has_fake_gpus(void) {
  const char *path = getenv("WEFT_FAKE_GPUS");
  return path && setenv("WEFT_CUDA_PLUGIN", path, 1) == 0;
}

static void the_same_passes_through_copies(void **state) {
  (void)state;
  if (!has_fake_gpus())
    skip();
  for (enum weft_ep_dtype dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++) {
    every_kind_passes(dtype, WEFT_EP_PER_EXPERT, true);
    every_kind_passes(dtype, WEFT_EP_RANK_MAJOR, true);
    for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_PACKED; layout++)
      every_form_passes(dtype, (enum weft_ep_layout)layout, true);
  }
}

// Whatever is spoilt where the operation worked is found in the copies.
static void what_is_spoilt_on_a_gpu_is_refused(void **state) {
  (void)state;
  if (!has_fake_gpus())
    skip();
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_RANK_MAJOR; layout++) {
    for (int i = 0; i < 24; i++) {
      struct rig rig;
      struct traffic_op op;
      open_rig(&rig, WEFT_EP_FP8, (enum weft_ep_layout)layout, true);
      for (int k = 0; k <= i / 3; k++)
        assert_int_equal(traffic_run(rig.traffic, true, &op), 0);
      static const int pairs[] = {PAIR_X, PAIR_COUNTS, PAIR_OUT};
      uint8_t *spoilt = rig.traffic->pairs[pairs[i % 3]].place;
      bool empty = op.kind == PATTERN_SCALED && rig.traffic->input.num_tokens == 0;
      spoilt[1] ^= 0x40;
      rig.traffic->has_copies = false; // where the experts were asked, it was taken before
      if (!empty && judge(&rig, &op) != WEFT_ERR_DATA)
        fail_msg("operation %d, layout %d, buffer %d: not refused", (int)op.op, layout, i % 3);
      spoilt[1] ^= 0x40;
      rig.traffic->has_copies = false;
      if (judge(&rig, &op))
        fail_msg("operation %d, layout %d, buffer %d: %s", (int)op.op, layout, i % 3, weft_last_error());
      close_rig(&rig);
    }
  }
}

static void an_operation_may_be_judged_after_it_ran_unpoisoned(void **state) {
  (void)state;
  if (!has_fake_gpus())
    skip();
  struct rig rig;
  struct traffic_op op;
  unsigned in_step = 0;
  open_rig(&rig, WEFT_EP_FP8_POW2, WEFT_EP_PER_EXPERT, true);
  for (int i = 0; i < 32; i++) {
    assert_int_equal(traffic_run(rig.traffic, i % 5 == 0, &op), 0);
    in_step += op.kind == PATTERN_PLAIN && op.in_step;
    assert_true(op.kind == PATTERN_PLAIN || !op.in_step);
    if (i % 3 == 0)
      assert_int_equal(judge(&rig, &op), 0);
  }
  assert_int_equal(in_step, 24); // all of them: none waits for rows that are made
  close_rig(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operations_of_every_kind_and_form_pass),
      cmocka_unit_test(operations_of_every_form_pass),
      cmocka_unit_test(a_spoilt_operation_is_refused),
      cmocka_unit_test(the_same_passes_through_copies),
      cmocka_unit_test(what_is_spoilt_on_a_gpu_is_refused),
      cmocka_unit_test(an_operation_may_be_judged_after_it_ran_unpoisoned),
      cmocka_unit_test(rows_are_made_before_the_first_operation),
      cmocka_unit_test(rows_for_others_are_one_a_token_and_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
