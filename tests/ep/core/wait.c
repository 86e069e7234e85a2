// How the owner of a rank waits.
#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"

enum { DEADLINE_MS = 20000, TIMEOUT_MS = 1600, STOPPED_NS = 1000000 };

// Nobody is awaited at the moment, and what is waited for comes by a ring. If the time in which the rank was stopped
// moved the end of time, each sleep would end at once, and the rank take a processor.
static void a_wait_without_a_deadline_sleeps(void **state) {
  (void)state;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  struct ep_pause pause = {0};
  weft_store_t *store;
  weft_ep_t *ep;
  assert_int_equal(weft_store_open_local(&store), 0);
  options.store = store;
  options.rank = 0;
  options.capacity = 2;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.op_timeout_ms = TIMEOUT_MS;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), 0);
  do
    assert_true(ep_pause(ep, &pause, UINT64_MAX));
  while (!pause.armed);
  pause.absent_ns = STOPPED_NS;
  uint64_t begun_ns = clock_ns();
  assert_true(ep_pause(ep, &pause, UINT64_MAX));
  assert_true(clock_ns() - begun_ns >= ep_heartbeat_ns(ep) / 2);
  ep_pause_end(ep, &pause);
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wait_without_a_deadline_sleeps),
  };
  return cmocka_run_group_tests_name("ep_wait", tests, NULL, NULL);
}
