// Ranks whose calls have next to no time, and that call again: they come and go as others do, whatever an earlier call
// has left on its way. Some give up and close meanwhile.
#include <pthread.h>
#include <stdatomic.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/support/insist.h"
#include "ep/support/rank.h"
#include "support/sanitized.h"

enum { VISITORS = 3, VISITS = SUPPORT_SANITIZED ? 8 : 20 };

struct visitor {
  struct rank rank;
  const struct setup *setup;
  int32_t index;
  pthread_t thread;
  struct insister insister;
  uint32_t given_up; // visits
};

struct host {
  struct rank rank;
  pthread_t thread;
  struct insister insister;
  uint32_t taken; // changes that have the visitor in the view
  atomic_bool over;
};

static bool visit(struct visitor *visitor) {
  struct rank *rank = &visitor->rank;
  bool gave_up;
  if (!rank_open(rank, visitor->setup, visitor->index, NULL, 0))
    return false;
  visitor->insister.ep = rank->ep;
  if (insist_on_coming(&visitor->insister, &gave_up) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  if (gave_up) {
    visitor->given_up++;
    return true;
  }
  if (!rank_operate_n(rank, 1 + (uint32_t)(random_next(&visitor->insister.random) % 4)))
    return false;
  if (insist_on_leaving(&visitor->insister) != 0)
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

static bool take_in(struct host *host) {
  int32_t visitor = 1 + (int32_t)(random_next(&host->insister.random) % VISITORS);
  return insist_on_another(&host->insister, visitor, &host->taken) == 0 ||
         rank_fail(&host->rank, "%s", weft_last_error());
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
  host.insister = (struct insister){.ep = host.rank.ep, .random = random_mix(seed + VISITORS)};
  assert_int_equal(pthread_create(&host.thread, NULL, stay, &host), 0);
  for (int32_t i = 0; i < VISITORS; i++) {
    visitors[i] = (struct visitor){.setup = &setup, .index = 1 + i, .insister.random = random_mix(seed + (uint64_t)i)};
    assert_int_equal(pthread_create(&visitors[i].thread, NULL, come_and_go, &visitors[i]), 0);
  }
  uint32_t calls = 0, timeouts = 0, given_up = 0;
  for (int i = 0; i < VISITORS; i++) {
    pthread_join(visitors[i].thread, NULL);
    calls += visitors[i].insister.calls;
    timeouts += visitors[i].insister.timeouts;
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
