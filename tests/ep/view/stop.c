// SIGSTOP for longer than the deadline, then SIGCONT, at every point of an operation; support/fault_scenario.h says
// what must follow.
#include <string.h>

#include "cmocka_all.h"

#include "ep/view/support/fault_scenario.h"

enum { TIMEOUT_MS = 2000, LEASE_S = 5 }; // a live rank must send within this time on a busy machine, too

static void stop_at(enum place place) {
  fault_scenario_run(&(struct fault_scenario){.setup = {.timeout_ms = TIMEOUT_MS},
                                              .ranks = 4,
                                              .victims = 1u << place % 4,
                                              .place = place,
                                              .blow = SCENARIO_STOP});
}

#define STOP_AT(name, place)                                                                                           \
  static void name(void **state) {                                                                                     \
    (void)state;                                                                                                       \
    stop_at(place);                                                                                                    \
  }

STOP_AT(stopped_before_the_first_row_of_a_dispatch, PLACE_DISPATCH_FIRST_ROW)
STOP_AT(stopped_between_rows_of_a_dispatch, PLACE_DISPATCH_ROWS)
STOP_AT(stopped_between_peers_of_a_dispatch, PLACE_DISPATCH_PEERS)
STOP_AT(stopped_after_all_flags_of_a_dispatch, PLACE_DISPATCH_SENT)
STOP_AT(stopped_between_dispatch_and_combine, PLACE_DISPATCH_HEARD)
STOP_AT(stopped_before_the_first_row_of_a_combine, PLACE_COMBINE_FIRST_ROW)
STOP_AT(stopped_between_rows_of_a_combine, PLACE_COMBINE_ROWS)
STOP_AT(stopped_between_peers_of_a_combine, PLACE_COMBINE_PEERS)
STOP_AT(stopped_after_all_flags_of_a_combine, PLACE_COMBINE_SENT)
STOP_AT(stopped_between_operations, PLACE_BETWEEN)

// In a dispatch the one that is left doubts itself and reports nobody: they are put out when their leases run out. In a
// combine it reports them.
static void two_of_three_stopped_at_once(void **state) {
  (void)state;
  static const enum place places[] = {PLACE_BETWEEN, PLACE_COMBINE_FIRST_ROW};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    fault_scenario_run(&(struct fault_scenario){.setup = {.timeout_ms = TIMEOUT_MS, .lease_s = LEASE_S},
                                                .ranks = 3,
                                                .victims = 6,
                                                .place = places[i],
                                                .blow = SCENARIO_STOP});
}

// Both halves, or the one that the argument names: between hosts each takes a while.
int main(int argc, char **argv) {
  const struct CMUnitTest dispatch[] = {
      cmocka_unit_test(stopped_before_the_first_row_of_a_dispatch),
      cmocka_unit_test(stopped_between_rows_of_a_dispatch),
      cmocka_unit_test(stopped_between_peers_of_a_dispatch),
      cmocka_unit_test(stopped_after_all_flags_of_a_dispatch),
      cmocka_unit_test(stopped_between_dispatch_and_combine),
  };
  const struct CMUnitTest combine[] = {
      cmocka_unit_test(stopped_before_the_first_row_of_a_combine),
      cmocka_unit_test(stopped_between_rows_of_a_combine),
      cmocka_unit_test(stopped_between_peers_of_a_combine),
      cmocka_unit_test(stopped_after_all_flags_of_a_combine),
      cmocka_unit_test(stopped_between_operations),
      cmocka_unit_test(two_of_three_stopped_at_once),
  };
  const char *half = argc > 1 ? argv[1] : "";
  int failed = 0;
  if (strcmp(half, "combine") != 0)
    failed += cmocka_run_group_tests_name("ep_stop dispatch", dispatch, NULL, NULL);
  if (strcmp(half, "dispatch") != 0)
    failed += cmocka_run_group_tests_name("ep_stop combine", combine, NULL, NULL);
  return failed;
}
