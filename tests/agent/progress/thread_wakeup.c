// The agent's thread sleeps, is woken, and somebody else progresses the agent before it runs: it wakes all the same.
#include "cmocka_all.h"

#include "agent/agent.h"
#include "support/wait.h"

enum { TIMES = 300 };

static bool is_asleep(void *arg) {
  weft_agent_t *agent = arg;
  return atomic_load(&agent->asleep);
}

static void test_a_thread_wakes_whoever_progresses(void **state) {
  (void)state;
  weft_agent_t *agent;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = "a";
  options.transports = "shm";
  assert_int_equal(weft_agent_open(&agent, &options), 0);
  for (int i = 0; i < TIMES; i++) {
    if (!support_wait(is_asleep, agent, SUPPORT_DEADLINE_MS))
      fail_msg("the thread does not wake, round %d", i); // it cannot be stopped either
    agent_wake(agent);
    assert_int_equal(weft_agent_progress(agent, NULL), 0);
  }
  weft_agent_close(agent);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_thread_wakes_whoever_progresses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
