// Workers in separate processes on a real etcd.
#include "cmocka_all.h"
#include "meet/processes.h"
#include "support/etcd.h"

static struct support_etcd etcd;

static int start(void **state) {
  (void)state;
  return support_etcd_start(&etcd) ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  support_etcd_stop(&etcd);
  return 0;
}

static void sixty_four_get_ranks_without_gap_or_duplicate(void **state) {
  (void)state;
  meet_many(etcd.url);
}

static void a_killed_process_is_named_and_leaves_nothing(void **state) {
  (void)state;
  meet_kills(etcd.url);
}

static void a_run_that_was_killed_is_replaced(void **state) {
  (void)state;
  meet_restarts(etcd.url);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sixty_four_get_ranks_without_gap_or_duplicate),
      cmocka_unit_test(a_killed_process_is_named_and_leaves_nothing),
      cmocka_unit_test(a_run_that_was_killed_is_replaced),
  };
  support_etcd_require();
  return cmocka_run_group_tests(tests, start, end);
}
