// An agent's thread runs on the processors that WEFT_CPUS names. Other threads are not moved.
#include "cmocka_all.h"
#include "support/first_processor.h"

#include <weft/agent.h>

static struct first_processor processor;

// Whether a thread runs on the first processor alone. The test's own does not.
static bool is_there(void) {
  uint32_t there, anywhere;
  first_processor_count(&processor, &there, &anywhere);
  return there > 0;
}

static void test_the_thread_is_where_it_was_asked_to_be(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  cpu_set_t own;
  options.name = "near";
  options.transports = "shm";
  assert_false(is_there());
  assert_int_equal(weft_agent_open(&agent, &options), 0);
  bool there = is_there();
  assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
  weft_agent_close(agent);
  assert_true(there);
  assert_true(CPU_EQUAL(&own, &processor.allowed));
}

int main(void) {
  if (!first_processor_ask(&processor))
    return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_thread_is_where_it_was_asked_to_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
