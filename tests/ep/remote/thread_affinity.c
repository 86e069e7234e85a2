// The threads that drive the transport between hosts run on the processors that WEFT_CPUS names; other threads of the
// ranks are not moved. Two ranks of this process are configured as on two hosts.
#include "cmocka_all.h"

#include "ep/support/rank.h"
#include "support/first_processor.h"

enum { RANKS = 2 };

static struct first_processor processor;

// Between two operations: the other rank is there until it has had the second one.
static void operate_and_look(struct rank *rank, void *arg) {
  (void)arg;
  uint32_t there, anywhere;
  if (!rank_operate_n(rank, 5))
    return;
  if (rank->index == 0) {
    first_processor_count(&processor, &there, &anywhere);
    if (there != RANKS || anywhere < RANKS)
      rank_fail(rank, "%u threads are where they were asked to be, %u anywhere", there, anywhere);
  }
  rank_operate_n(rank, 1);
}

static void test_net_threads_are_where_they_were_asked_to_be(void **state) {
  (void)state;
  static const int32_t all[RANKS] = {0, 1};
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, RANKS, operate_and_look, NULL);
  weft_store_close(setup.store);
}

int main(void) {
  if (!first_processor_ask(&processor))
    return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_net_threads_are_where_they_were_asked_to_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
