// SIGSTOP for longer than the deadline, then SIGCONT, at every place of an operation; story.h says what must follow.
#include "cmocka_all.h"

#include "story.h"

static void stop_at(enum place place) {
  story_tell(&(struct story){
      .setup = {.timeout_ms = 800}, .ranks = 4, .victims = 1u << place % 4, .place = place, .blow = STORY_STOP});
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stopped_before_the_first_row_of_a_dispatch),
      cmocka_unit_test(stopped_between_rows_of_a_dispatch),
      cmocka_unit_test(stopped_between_peers_of_a_dispatch),
      cmocka_unit_test(stopped_after_all_flags_of_a_dispatch),
      cmocka_unit_test(stopped_between_dispatch_and_combine),
      cmocka_unit_test(stopped_before_the_first_row_of_a_combine),
      cmocka_unit_test(stopped_between_rows_of_a_combine),
      cmocka_unit_test(stopped_between_peers_of_a_combine),
      cmocka_unit_test(stopped_after_all_flags_of_a_combine),
      cmocka_unit_test(stopped_between_operations),
  };
  return cmocka_run_group_tests_name("ep_stop", tests, NULL, NULL);
}
