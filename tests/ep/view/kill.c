// SIGKILL at every point of an operation; support/fault_scenario.h says what must follow.
#include "cmocka_all.h"

#include "ep/view/support/fault_scenario.h"

static void kill_at(enum place place) {
  for (int32_t victim = 0; victim < 4; victim += 3) // the lowest rank proposes first, and serves its peers in order
    fault_scenario_run(&(struct fault_scenario){.ranks = 4, .victims = 1u << victim, .place = place});
}

#define KILL_AT(name, place)                                                                                           \
  static void name(void **state) {                                                                                     \
    (void)state;                                                                                                       \
    kill_at(place);                                                                                                    \
  }

KILL_AT(killed_before_the_first_row_of_a_dispatch, PLACE_DISPATCH_FIRST_ROW)
KILL_AT(killed_between_rows_of_a_dispatch, PLACE_DISPATCH_ROWS)
KILL_AT(killed_between_peers_of_a_dispatch, PLACE_DISPATCH_PEERS)
KILL_AT(killed_after_all_flags_of_a_dispatch, PLACE_DISPATCH_SENT)
KILL_AT(killed_between_dispatch_and_combine, PLACE_DISPATCH_HEARD)
KILL_AT(killed_before_the_first_row_of_a_combine, PLACE_COMBINE_FIRST_ROW)
KILL_AT(killed_between_rows_of_a_combine, PLACE_COMBINE_ROWS)
KILL_AT(killed_between_peers_of_a_combine, PLACE_COMBINE_PEERS)
KILL_AT(killed_after_all_flags_of_a_combine, PLACE_COMBINE_SENT)
KILL_AT(killed_between_operations, PLACE_BETWEEN)

static void two_killed_at_once(void **state) {
  (void)state;
  static const enum place places[] = {PLACE_DISPATCH_ROWS, PLACE_DISPATCH_PEERS, PLACE_COMBINE_PEERS, PLACE_BETWEEN};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    fault_scenario_run(&(struct fault_scenario){.ranks = 5, .victims = 1u << 0 | 1u << (1 + i), .place = places[i]});
}

static void killed_with_late_weights_fp8_and_rows_by_rank(void **state) {
  (void)state;
  static const enum place places[] = {PLACE_DISPATCH_PEERS, PLACE_DISPATCH_HEARD, PLACE_COMBINE_PEERS};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    fault_scenario_run(&(struct fault_scenario){
        .setup = {.late_weights = true, .renormalize = true}, .ranks = 3, .victims = 2, .place = places[i]});
    fault_scenario_run(&(struct fault_scenario){
        .setup = {.dtype = WEFT_EP_FP8, .layout = WEFT_EP_RANK_MAJOR}, .ranks = 3, .victims = 4, .place = places[i]});
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_before_the_first_row_of_a_dispatch),
      cmocka_unit_test(killed_between_rows_of_a_dispatch),
      cmocka_unit_test(killed_between_peers_of_a_dispatch),
      cmocka_unit_test(killed_after_all_flags_of_a_dispatch),
      cmocka_unit_test(killed_between_dispatch_and_combine),
      cmocka_unit_test(killed_before_the_first_row_of_a_combine),
      cmocka_unit_test(killed_between_rows_of_a_combine),
      cmocka_unit_test(killed_between_peers_of_a_combine),
      cmocka_unit_test(killed_after_all_flags_of_a_combine),
      cmocka_unit_test(killed_between_operations),
      cmocka_unit_test(two_killed_at_once),
      cmocka_unit_test(killed_with_late_weights_fp8_and_rows_by_rank),
  };
  return cmocka_run_group_tests_name("ep_kill", tests, NULL, NULL);
}
