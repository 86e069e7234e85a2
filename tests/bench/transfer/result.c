// What a worker reports of its lanes, and the times of several workers together.
#include <stdlib.h>

#include "base/time/ticks.h"
#include "bench/transfer/gather.h"
#include "cmocka_all.h"

enum { BEGIN_NS = 1000000, ITERATIONS = 3 };

// A tick is taken for `ppm` millionths more than the nanosecond that it is.
static void take(int ppm, struct transfer_result *result) {
  uint64_t started[] = {0, 1000000000, 2000000000}, ended[] = {1000000000, 2000000000, 3000000000},
           posted[] = {0, 0, 0};
  struct transfer_lane lane = {.started = started, .ended = ended, .posted = posted, .begin_ns = BEGIN_NS};
  struct transfer_rowing rowing = {.load = {.block = 4096, .batch = 1, .group = 1, .iterations = ITERATIONS}};
  lane.end_ns = BEGIN_NS + ended[ITERATIONS - 1] + 50; // a reading of the clock later
  rowing.initiates = rowing.only_initiator = true;
  rowing.lanes = &lane;
  rowing.num_lanes = 1;
  ticks_rate.ns_of_tick = (UINT64_C(1) << 32) + (int64_t)(UINT64_C(1) << 32) / 1000000 * ppm;
  assert_int_equal(transfer_result_take(&rowing, result), 0);
}

// Else the only initiator of a row would have done less than it did, by a part of one iteration of few, or of all of
// one.
static void iterations_end_within_their_loop(void **state) {
  static const int ppms[] = {-50, 0, 1, 50};
  (void)state;
  for (size_t i = 0; i < sizeof ppms / sizeof *ppms; i++) {
    struct transfer_result result;
    take(ppms[i], &result);
    assert_int_equal(result.begin_ns, BEGIN_NS);
    for (int k = 0; k < ITERATIONS; k++)
      assert_in_range(result.ends[k], result.begin_ns + 1, result.end_ns);
    assert_true(result.ends[0] < result.ends[1] && result.ends[1] < result.ends[2]);
    transfer_result_free(&result);
  }
}

// One lane after the other would look like one lane that becomes slower: intervals of comparisons would be far too
// wide.
static void lanes_are_taken_by_turns(void **state) {
  (void)state;
  enum { LANES = 2 };
  uint64_t started[] = {0, 100, 200}, fast[] = {10, 111, 212}, slow[] = {50, 151, 252}, posted[] = {1, 0, 201},
           prep[] = {7, 8, 9};
  struct transfer_lane lanes[LANES] = {{.started = started, .ended = fast, .posted = posted, .prep = prep},
                                       {.started = started, .ended = slow, .posted = posted, .prep = prep}};
  struct transfer_rowing rowing = {.load = {.block = 4096, .batch = 1, .group = 1, .iterations = ITERATIONS}};
  const uint64_t latency[] = {10, 50, 11, 51, 12, 52}, transfer[] = {9, 49, 11, 51}, made[] = {7, 7, 8, 9};
  struct transfer_result result;
  for (int i = 0; i < LANES; i++) {
    lanes[i].begin_ns = BEGIN_NS + (uint64_t)i;
    lanes[i].end_ns = BEGIN_NS + 1000 * (uint64_t)(1 + i);
  }
  lanes[0].num_prep = 1;
  lanes[1].num_prep = 3;
  rowing.initiates = true;
  rowing.lanes = lanes;
  rowing.num_lanes = LANES;
  ticks_rate.ns_of_tick = UINT64_C(1) << 32;
  assert_int_equal(transfer_result_take(&rowing, &result), 0);
  assert_int_equal(result.times.count, 6);
  assert_memory_equal(result.times.latency, latency, sizeof latency);
  assert_int_equal(result.times.num_post, 4); // of the second iterations it was not measured
  assert_memory_equal(result.times.transfer, transfer, sizeof transfer);
  assert_int_equal(result.times.num_prep, 4);
  assert_memory_equal(result.times.prep, made, sizeof made);
  assert_true(result.begin_ns == BEGIN_NS && result.end_ns == BEGIN_NS + 2000);
  transfer_result_free(&result);
}

static void workers_are_taken_by_turns(void **state) {
  (void)state;
  json_t *said[] = {json_pack("{s:[i, i, i]}", "latency", 1, 2, 3), json_object(),
                    json_pack("{s:[i, i]}", "latency", 11, 12)};
  const uint64_t expected[] = {1, 11, 2, 12, 3};
  uint64_t *values = NULL;
  size_t count = 0;
  assert_int_equal(transfer_gather_merge(&values, &count, said, 3, "latency"), 0);
  assert_int_equal(count, 5);
  assert_memory_equal(values, expected, sizeof expected);
  free(values);
  for (int i = 0; i < 3; i++)
    json_decref(said[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(iterations_end_within_their_loop),
                                     cmocka_unit_test(lanes_are_taken_by_turns),
                                     cmocka_unit_test(workers_are_taken_by_turns)};
  return cmocka_run_group_tests_name("times of a worker", tests, NULL, NULL);
}
