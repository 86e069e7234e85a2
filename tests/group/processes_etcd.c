// 64 processes claim 64 ranks at once on a real etcd.
#include "cmocka_all.h"
#include "group/support/processes.h"
#include "support/etcd.h"
#include <stdio.h>

static void sixty_four_processes_claim_without_duplicate_or_gap(void **state) {
  struct support_etcd etcd = {0};
  (void)state;
  support_etcd_require();
  assert_true(support_etcd_start(&etcd));
  processes_claim_all(etcd.url);
  processes_expect_empty(etcd.url);
  support_etcd_stop(&etcd);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sixty_four_processes_claim_without_duplicate_or_gap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
