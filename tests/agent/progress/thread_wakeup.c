// The agent's thread sleeps and is woken, and another thread progresses the agent before it runs: it still wakes up. It
// also sleeps no longer than the deadline of a transfer that was posted while it was awake.
#include <poll.h>

#include "cmocka_all.h"

#include "agent/agent.h"
#include "agent/support/pair.h"
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

// It looks at deadlines when it wakes; the post comes behind that, and within the time that it spins.
static void test_a_deadline_is_kept_that_comes_before_the_thread_sleeps(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.spin_us = 5000;
  options.heartbeat_ms = options.peer_timeout_ms = 3600000; // nothing else is due for minutes
  struct pair pair;
  pair_open(&pair, "fault:1:stick=100:shm", NULL, &options);
  struct weft_transfer_options limit = WEFT_TRANSFER_OPTIONS_INIT;
  limit.timeout_ms = 20;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, &limit);
  for (int i = 0; i < 20; i++) {
    assert_true(support_wait(is_asleep, pair.a.agent, SUPPORT_DEADLINE_MS));
    agent_wake(pair.a.agent);
    poll(NULL, 0, 2);
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), WEFT_ERR_TIMEOUT);
  }
  pair_free(transfer);
  pair_close(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_thread_wakes_whoever_progresses),
      cmocka_unit_test(test_a_deadline_is_kept_that_comes_before_the_thread_sleeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
