// What the judge of weft bench ep finds: a single rank, whose buffers are corrupted after an operation.
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "bench/ep/rank.h"
#include "cmocka_all.h"

static const struct bench_ep_config config = {
    .common = {.timeout_ms = 5000, .startup_timeout_s = 20}, .check = true, .iterations = 4, .warmup = 1, .seed = 7};
static struct bench_ep_point point;
static struct bench_ep_rank rank;

static int open_rank(void **state) {
  (void)state;
  point = (struct bench_ep_point){.tokens = 8,
                                  .hidden = 256,
                                  .topk = 2,
                                  .ranks = 1,
                                  .experts = 4,
                                  .dtype = WEFT_EP_BF16,
                                  .combine_dtype = WEFT_EP_COMBINE_BF16,
                                  .layout = WEFT_EP_PER_EXPERT,
                                  .loop = BENCH_EP_PARTS};
  rank = (struct bench_ep_rank){.config = &config, .point = &point, .gpu = -1};
  rank.board = calloc(1, bench_ep_board_size(1, config.iterations));
  assert_non_null(rank.board);
  rank.board->iterations = config.iterations;
  assert_int_equal(weft_store_open_local(&rank.store.client), 0);
  assert_int_equal(bench_ep_group_open(&rank, 0), 0);
  return 0;
}

static int close_rank(void **state) {
  (void)state;
  bench_ep_group_close(&rank);
  weft_store_close(rank.store.client);
  free(rank.board);
  return 0;
}

static void refuse(const char *says) {
  assert_int_equal(bench_ep_judge_last(&rank), WEFT_ERR_DATA);
  if (!strstr(weft_last_error(), says))
    fail_msg("\"%s\" is not in \"%s\"", says, weft_last_error());
}

static void what_is_right_is_counted(void **state) {
  (void)state;
  assert_int_equal(bench_ep_rehearse(&rank), 0);
  assert_int_equal(rank.result.checked, 1);
  assert_int_equal(rank.result.pairs, 16);
  bench_ep_note_bytes(&rank);
  assert_int_equal(rank.result.logical[0], 16 * (2 * 256 + 16));
  assert_int_equal(rank.result.logical[1], 16 * 2 * 256);
  assert_int_equal(rank.result.wire[0] + rank.result.wire[1], 0);
}

static void the_last_timed_operation_is_right(void **state) {
  (void)state;
  assert_int_equal(bench_ep_rehearse(&rank), 0);
  assert_int_equal(bench_ep_loop_host(&rank), 0);
  assert_int_equal(rank.result.count, 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_true(bench_ep_times(rank.board, 0, 0)[i] > 0 && bench_ep_times(rank.board, 0, 1)[i] > 0);
  assert_int_equal(bench_ep_judge_last(&rank), 0);
  assert_int_equal(rank.result.checked, 2);
}

static void a_value_that_came_wrong_is_found(void **state) {
  (void)state;
  assert_int_equal(bench_ep_rehearse(&rank), 0);
  for (uint32_t e = 0; e < 4; e++)
    if (rank.traffic->recv.counts[e] > 0)
      ((uint16_t *)rank.traffic->recv.x)[(size_t)e * rank.traffic->rows * 256 + 17] ^= 1;
  refuse("dispatch of operation 0 is wrong at rank 0");
}

static void a_sum_that_is_wrong_is_found(void **state) {
  (void)state;
  assert_int_equal(bench_ep_rehearse(&rank), 0);
  rank.traffic->out[5 * 256 + 3] ^= 0x0040;
  refuse("combine of operation 0 is wrong at rank 0");
}

static void a_stop_ends_the_loop(void **state) {
  (void)state;
  assert_int_equal(bench_ep_rehearse(&rank), 0);
  atomic_store(&rank.board->stop, true);
  assert_int_equal(bench_ep_loop_host(&rank), 0);
  assert_in_range(rank.result.count, 0, 2); // of 4: the mark travels with the next operation
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_rank, close_rank)
  const struct CMUnitTest tests[] = {
      TEST(what_is_right_is_counted),
      TEST(the_last_timed_operation_is_right),
      TEST(a_value_that_came_wrong_is_found),
      TEST(a_sum_that_is_wrong_is_found),
      TEST(a_stop_ends_the_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
