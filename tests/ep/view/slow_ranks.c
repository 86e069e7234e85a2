// Ranks that are slow but alive are not reported lost.
#include <poll.h>
#include <stdint.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum { RANKS = 4, SEED = 7 };

// How a rank is slow; each scenario runs so many operations with such a time limit.
struct fault_scenario {
  uint32_t ranks, operations, timeout_ms;
  void (*at)(struct rank *rank, enum rank_step step); // delays
  void (*before)(struct rank *rank);                  // each operation
  bool late_weights;
};

static void be_slow(uint32_t ms) {
  uint64_t until = clock_deadline_ms(ms); // what is tested is that this time passes
  while (!clock_passed(until))
    poll(NULL, 0, clock_left_ms(until));
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1, 2, 3};
  const struct fault_scenario *scenario = arg;
  if (!rank_open(rank, &rank->setup, rank->index, founders, scenario->ranks) || !rank_activate(rank))
    return false;
  for (uint32_t i = 0; i < scenario->operations; i++) {
    if (scenario->before)
      scenario->before(rank);
    if (!rank_operate(rank))
      return false;
    if (rank->info.num_lost > 0 || rank->result.num_missing > 0)
      return rank_fail(rank, "%u ranks and %u selections were lost, though all ranks live", rank->info.num_lost,
                       rank->result.num_missing);
  }
  return true;
}

static void run_scenario(struct fault_scenario scenario) {
  struct processes processes;
  bool good = true;
  processes_start(
      &processes, scenario.ranks,
      &(struct setup){
          .timeout_ms = scenario.timeout_ms, .apart = true, .at = scenario.at, .late_weights = scenario.late_weights},
      live, &scenario);
  for (uint32_t i = 0; i < scenario.ranks; i++)
    good &= processes_expect(&processes, i, 0);
  processes_end(&processes);
  assert_true(good);
}

// In a quarter of the operations each rank draws a step after which it is slow by a tenth of the time limit.
static void tenth_at_random(struct rank *rank, enum rank_step step) {
  uint64_t op = weft_ep_next_op(rank->ep) - 1;
  uint64_t drawn = random_mix(random_mix(SEED + op) + (uint64_t)rank->index);
  if (drawn % 4 == 0 && (drawn >> 8) % 4 == (uint64_t)step)
    be_slow(rank->setup.timeout_ms / 10);
}

static void slow_by_a_tenth_at_random_places(void **state) {
  (void)state;
  run_scenario((struct fault_scenario){.ranks = 4, .operations = 50, .timeout_ms = 2000, .at = tenth_at_random});
  run_scenario((struct fault_scenario){
      .ranks = 3, .operations = 20, .timeout_ms = 2000, .at = tenth_at_random, .late_weights = true});
}

static void nine_tenths_before_dispatch(struct rank *rank) {
  if (rank->index == 1)
    be_slow(rank->setup.timeout_ms / 10 * 9);
}

static void nine_tenths_before_combine(struct rank *rank, enum rank_step step) {
  if (rank->index == 1 && step == RANK_HEARD)
    be_slow(rank->setup.timeout_ms / 10 * 9);
}

static void slow_by_nine_tenths_in_every_operation(void **state) {
  (void)state;
  run_scenario(
      (struct fault_scenario){.ranks = 3, .operations = 2, .timeout_ms = 7000, .before = nine_tenths_before_dispatch});
  run_scenario(
      (struct fault_scenario){.ranks = 3, .operations = 1, .timeout_ms = 7000, .at = nine_tenths_before_combine});
}

// Rank 2 answers rank 0, and rank 1 six tenths of the time limit later; rank 1 is slow for as long again before it
// sends its next dispatch, for which rank 0 has waited from the start: it waits for a rank that waits for another.
static void be_slow_between_peers(struct rank *rank) {
  be_slow(rank->setup.timeout_ms / 10 * 6);
}

static void chain_at(struct rank *rank, enum rank_step step) {
  place_reach(rank, step);
  if (rank->index == 1 && step == RANK_ENDED && weft_ep_next_op(rank->ep) % 2 == 0)
    be_slow(rank->setup.timeout_ms / 10 * 6);
}

static void chain_before(struct rank *rank) {
  if (rank->index == 2 && weft_ep_next_op(rank->ep) % 2 == 1)
    place_arm(rank, PLACE_COMBINE_PEERS, be_slow_between_peers);
}

static void a_chain_of_slow_ranks(void **state) {
  (void)state;
  run_scenario(
      (struct fault_scenario){.ranks = 3, .operations = 4, .timeout_ms = 5000, .at = chain_at, .before = chain_before});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slow_by_a_tenth_at_random_places),
      cmocka_unit_test(slow_by_nine_tenths_in_every_operation),
      cmocka_unit_test(a_chain_of_slow_ranks),
  };
  return cmocka_run_group_tests_name("ep_slow_ranks", tests, NULL, NULL);
}
