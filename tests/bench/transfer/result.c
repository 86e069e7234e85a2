// What a worker reports of its lanes.
#include <stdlib.h>

#include "base/time/ticks.h"
#include "bench/transfer/row.h"
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(iterations_end_within_their_loop)};
  return cmocka_run_group_tests_name("times of a worker", tests, NULL, NULL);
}
