// post, poll and their callees allocate nothing, take no lock, and read no environment variable. The test counts in the
// calling thread; the agent's own thread does the housekeeping.
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "base/time/clock.h"
#include "support/allocations.h"
#include "support/wait.h"

static struct pair pair;

static void post_and_poll(uint64_t length, bool notify, bool with) {
  pair_open(&pair, "shm", NULL, NULL);
  struct weft_transfer_options how = WEFT_TRANSFER_OPTIONS_INIT;
  if (notify) {
    how.notification = "note";
    how.notification_size = 4;
    how.max_notification = with ? 8 : 0;
  }
  struct weft_post post = WEFT_POST_INIT;
  post.flags = WEFT_POST_COMPLETION;
  post.notification = notify ? "own" : NULL;
  post.notification_size = notify ? 3 : 0;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, length, &how);
  struct allocations sum = {0};
  for (uint32_t round = 0; round < 100; round++) {
    if (round >= 10) // the first ones may warm something up
      allocations_begin();
    int rc = with ? weft_transfer_post_with(transfer, &post) : weft_transfer_post(transfer);
    int polled = 1;
    for (uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS); polled == 1 && !clock_passed(until);)
      polled = weft_transfer_poll(transfer);
    if (round >= 10)
      allocations_end(&sum);
    assert_int_equal(rc, 0);
    assert_int_equal(polled, 0);
    char text[8];
    if (notify)
      assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), with ? 3 : 4);
    struct weft_completion done;
    uint32_t count = 0;
    while (with && count == 0)
      assert_int_equal(weft_agent_completions(pair.a.agent, &done, 1, &count), 0);
  }
  assert_int_equal(sum.own + sum.others, 0);
  assert_int_equal(sum.maps, 0);
  assert_int_equal(sum.locks, 0);
  assert_int_equal(sum.getenvs, 0);
  pair_free(transfer);
  pair_close(&pair);
}

static void nothing_with_shm(void **state) {
  (void)state;
  post_and_poll(64, false, false);
  post_and_poll(PAIR_BYTES, false, false);
  post_and_poll(64, true, false);
  post_and_poll(64, false, true);
  post_and_poll(64, true, true);
}

static void nothing_to_oneself(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, "shm", NULL, &options);
  weft_dlist_t *local = pair_list(&pair.a, &pair.a, 0, 4096), *remote = pair_list(&pair.a, &pair.a, 8192, 4096);
  weft_transfer_t *transfer;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  struct allocations sum = {0};
  allocations_begin();
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_poll(transfer), 0);
  allocations_end(&sum);
  assert_int_equal(sum.own + sum.others + sum.maps + sum.locks + sum.getenvs, 0);
  pair_free(transfer);
  pair_close(&pair);
}

// Memory that runs out: each allocation of set-up fails once; what was not made leaves nothing.
static void set_up_without_memory(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, "shm", NULL, &options);
  pair_free(pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL)); // what stays is there
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = pair.a.memory;
  memory.length = 4096;
  uint32_t failures = 0;
  for (uint64_t n = 1;; n++) {
    int64_t before = allocations_live();
    weft_region_t region = 0;
    weft_dlist_t *local = NULL, *remote = NULL;
    weft_transfer_t *transfer = NULL;
    struct weft_descriptor here = {(uintptr_t)pair.a.memory, 64, 0}, there = {(uintptr_t)pair.b.memory, 64, 0};
    allocations_fail(n);
    int rc = weft_agent_register(pair.a.agent, &memory, &region);
    if (rc == 0)
      rc = weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &here, 1, &local);
    if (rc == 0)
      rc = weft_dlist_create(pair.a.agent, pair.a.peer, &there, 1, &remote);
    if (rc == 0)
      rc = weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer);
    bool failed = allocations_failed();
    allocations_fail(0);
    if (rc != 0)
      assert_true(failed);
    failures += rc != 0;
    weft_transfer_free(transfer);
    weft_dlist_free(local);
    weft_dlist_free(remote);
    if (region != 0)
      assert_int_equal(weft_agent_deregister(pair.a.agent, region), 0);
    if (!failed)
      break;
    assert_uint_in_range(allocations_live() - before, 0, 2); // tables may have grown, a sentence may be kept
  }
  assert_true(failures > 5);
  pair_close(&pair);
}

int main(void) {
  if (!allocations_counted()) {
    puts("skipped: a build with a sanitizer counts no allocations");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_with_shm),
      cmocka_unit_test(nothing_to_oneself),
      cmocka_unit_test(set_up_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
