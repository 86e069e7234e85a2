// The tests in which a rank is struck (strikes.h), for dispatches without and with a route: which rank, when, and how
// each process has to end.
#ifndef TESTS_EP_REMOTE_SCENARIOS_H
#define TESTS_EP_REMOTE_SCENARIOS_H

#include "ep/remote/support/strikes.h"

// Runs a scenario of `ranks` ranks, each of which runs `live`, and checks how they end. The setup's time limit is set
// here.
void scenario_run(struct scenario scene, uint32_t ranks, struct setup setup, process_body live);

// Runs one scenario in the way of the test: the test sets it before its scenarios run.
extern void (*scenario_of_test)(struct scenario scene);

void a_carrier_dies_before_its_rows_have_arrived(void **state);
void a_carrier_dies_before_its_rows_are_read(void **state);
void a_carrier_is_stopped_before_its_rows_have_arrived(void **state);
void a_source_dies_when_one_rank_has_its_piece(void **state);
void a_reader_dies(void **state);
void a_reader_is_stopped_past_the_deadline(void **state);
void a_source_that_lies_is_excluded(void **state);

#define SCENARIOS                                                                                                      \
  cmocka_unit_test(a_carrier_dies_before_its_rows_have_arrived),                                                       \
      cmocka_unit_test(a_carrier_dies_before_its_rows_are_read),                                                       \
      cmocka_unit_test(a_carrier_is_stopped_before_its_rows_have_arrived),                                             \
      cmocka_unit_test(a_source_dies_when_one_rank_has_its_piece), cmocka_unit_test(a_reader_dies),                    \
      cmocka_unit_test(a_reader_is_stopped_past_the_deadline), cmocka_unit_test(a_source_that_lies_is_excluded)

#endif
