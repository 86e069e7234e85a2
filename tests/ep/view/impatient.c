// Ranks whose calls have next to no time, and that call again: they come and go as others do, whatever an earlier call
// has left on its way. Some give up and close meanwhile.
#include <pthread.h>
#include <stdatomic.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/support/rank.h"
#include "support/sanitized.h"

enum { VISITORS = 3, VISITS = SUPPORT_SANITIZED ? 8 : 20, MOST_MS = 4, DEADLINE_MS = 60000 };

struct visitor {
  struct rank rank;
  const struct setup *setup;
  int32_t index;
  pthread_t thread;
  uint64_t random;
  uint32_t calls, timeouts, given_up; // how many
};

struct host {
  struct rank rank;
  pthread_t thread;
  uint64_t random;
  uint32_t taken; // changes that have the visitor in the view
  atomic_bool over;
};

// Makes a call until it does not end with TIMEOUT, or `most` times (0: any number). It gets up to MOST_MS, and after
// each eight calls twice as much: a handshake that a call has given up begins anew.
static int insist(struct visitor *visitor, uint32_t most, int (*call)(struct rank *rank, uint32_t timeout_ms)) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  int rc = WEFT_ERR_TIMEOUT;
  for (uint32_t i = 0; rc == WEFT_ERR_TIMEOUT && (most == 0 || i < most) && !clock_passed(deadline_ns); i++) {
    uint32_t most_ms = MOST_MS << (i < 64 ? i / 8 : 8);
    rc = call(&visitor->rank, (uint32_t)(random_next(&visitor->random) % (most_ms + 1)));
    visitor->calls++;
    visitor->timeouts += rc == WEFT_ERR_TIMEOUT;
  }
  return rc;
}

static int activate(struct rank *rank, uint32_t timeout_ms) {
  return weft_ep_activate(rank->ep, timeout_ms);
}

static int offer(struct rank *rank, uint32_t timeout_ms) {
  return weft_ep_offer(rank->ep, timeout_ms);
}

static int await_start(struct rank *rank, uint32_t timeout_ms) {
  return weft_ep_await_start(rank->ep, timeout_ms, NULL);
}

static int leave(struct rank *rank, uint32_t timeout_ms) {
  return weft_ep_disconnect(rank->ep, &rank->index, 1, timeout_ms);
}

// Every fourth visitor gives up after a call or two. Every third one offers itself; then it joins, or waits until rank
// 0 takes it in.
static bool come(struct visitor *visitor, bool *gave_up) {
  struct rank *rank = &visitor->rank;
  uint64_t drawn = random_next(&visitor->random);
  uint32_t most = drawn % 4 == 0 ? 1 + (uint32_t)(drawn >> 8) % 2 : 0;
  bool offers = (drawn >> 16) % 3 == 0, waits = offers && (drawn >> 24) % 2;
  int rc = offers ? insist(visitor, most, offer) : 0;
  if (rc == 0)
    rc = insist(visitor, most, waits ? await_start : activate);
  *gave_up = rc == WEFT_ERR_TIMEOUT && most > 0;
  return rc == 0 || *gave_up || rank_fail(rank, "%s", weft_last_error());
}

static bool visit(struct visitor *visitor) {
  struct rank *rank = &visitor->rank;
  bool gave_up;
  if (!rank_open(rank, visitor->setup, visitor->index, NULL, 0) || !come(visitor, &gave_up))
    return false;
  if (gave_up) {
    visitor->given_up++;
    return true;
  }
  if (!rank_operate_n(rank, 1 + (uint32_t)(random_next(&visitor->random) % 4)))
    return false;
  if (insist(visitor, 0, leave) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  while (weft_ep_is_active(rank->ep))
    if (!rank_operate(rank))
      return false;
  return true;
}

static void *come_and_go(void *arg) {
  struct visitor *visitor = arg;
  bool good = true;
  for (uint32_t i = 0; i < VISITS && good; i++) {
    good = visit(visitor);
    rank_close(&visitor->rank);
  }
  return NULL;
}

// Takes in a visitor that has offered itself, if there is one.
static bool take_in(struct host *host) {
  int32_t visitor = 1 + (int32_t)(random_next(&host->random) % VISITORS);
  struct weft_ep_change_args change = {.size = sizeof change, .add = &visitor, .num_add = 1};
  int rc = weft_ep_change(host->rank.ep, &change, (uint32_t)(random_next(&host->random) % 2));
  host->taken += rc == 0;
  return rc == 0 || rc == WEFT_ERR_TIMEOUT || rank_fail(&host->rank, "%s", weft_last_error());
}

static void *stay(void *arg) {
  struct host *host = arg;
  while (!atomic_load(&host->over) && rank_operate_n(&host->rank, 3) && take_in(host))
    ;
  return NULL;
}

static void calls_that_are_made_again_and_again_come_to_their_end(void **state) {
  (void)state;
  struct setup setup = {.tokens = 4, .hidden = 128, .topk = 2, .capacity = 1 + VISITORS, .deaths = true};
  static struct host host;
  static struct visitor visitors[VISITORS];
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  assert_true(rank_open(&host.rank, &setup, 0, NULL, 0) && rank_activate(&host.rank));
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  host.random = random_mix(seed + VISITORS);
  assert_int_equal(pthread_create(&host.thread, NULL, stay, &host), 0);
  for (int32_t i = 0; i < VISITORS; i++) {
    visitors[i] = (struct visitor){.setup = &setup, .index = 1 + i, .random = random_mix(seed + (uint64_t)i)};
    assert_int_equal(pthread_create(&visitors[i].thread, NULL, come_and_go, &visitors[i]), 0);
  }
  uint32_t calls = 0, timeouts = 0, given_up = 0;
  for (int i = 0; i < VISITORS; i++) {
    pthread_join(visitors[i].thread, NULL);
    calls += visitors[i].calls;
    timeouts += visitors[i].timeouts;
    given_up += visitors[i].given_up;
  }
  atomic_store(&host.over, true);
  pthread_join(host.thread, NULL);
  rank_close(&host.rank);
  weft_store_close(setup.store);
  print_message("%u calls, of which %u had no time; %u visits were given up; rank 0 found %u visitors in the view\n",
                calls, timeouts, given_up, host.taken);
  for (int i = 0; i < VISITORS; i++)
    if (visitors[i].rank.error[0])
      print_error("rank %d: %s\n", visitors[i].index, visitors[i].rank.error);
  if (host.rank.error[0])
    print_error("rank 0: %s\n", host.rank.error);
  assert_false(host.rank.error[0]);
  for (int i = 0; i < VISITORS; i++)
    assert_false(visitors[i].rank.error[0]);
  assert_true(timeouts > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_that_are_made_again_and_again_come_to_their_end)};
  return cmocka_run_group_tests_name("ep_impatient", tests, NULL, NULL);
}
