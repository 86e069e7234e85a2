// Groups of members, each with its own handle and thread, on a store of this process.
#include "group/support/members.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 6, TTL_S = 10 };

static weft_store_t *store;
static weft_store_t *stores[64];

static int open_store(void **state) {
  (void)state;
  if (weft_store_open_local(&store) != 0)
    return -1;
  for (int i = 0; i < 64; i++)
    stores[i] = store;
  return 0;
}

// Whatever a test has done: when its members are closed the store holds nothing of them.
static int close_store(void **state) {
  (void)state;
  struct weft_store_list *left = NULL;
  int err = weft_store_range(store, "/weft/test/", true, 0, &left);
  size_t count = left->count;
  for (size_t i = 0; i < count; i++)
    fprintf(stderr, "left behind: %s\n", left->kvs[i]->key);
  weft_store_list_free(left);
  weft_store_close(store);
  return err || count ? -1 : 0;
}

static void close_all(struct test_member *members, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    member_close(&members[i]);
}

static void expect_view(struct test_member *member, uint64_t epoch, uint32_t count) {
  assert_int_equal(group_wait_view(member->group, epoch, member_deadline()), 0);
  const struct group_view *view = group_view(member->group);
  assert_int_equal(view->epoch, epoch);
  assert_int_equal(view->count, count);
  group_view_unref(view);
}

static void founders_come_together(void **state) {
  (void)state;
  struct test_member members[MEMBERS];
  members_found(members, stores, MEMBERS, TTL_S);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    expect_view(&members[i], 1, MEMBERS);
    assert_int_equal(group_rank(members[i].group), i);
    member_await_events(&members[i], GROUP_EVENT_VIEW, 1);
  }
  struct group_peer peer;
  assert_int_equal(group_find(members[0].group, 5, &peer), 0);
  assert_int_equal(peer.incarnation, group_incarnation(members[5].group));
  assert_string_equal(peer.address, "here");
  assert_int_equal(group_find(members[0].group, 6, &peer), WEFT_ERR_NOT_FOUND);
  assert_int_equal(group_find(members[0].group, 64, &peer), WEFT_ERR_INVALID);
  members_check_views(members, MEMBERS, true);
  close_all(members, MEMBERS);
}

struct caller {
  pthread_t thread;
  struct test_member *member;
  const char *barrier;
  int err;
};

static void *join_thread(void *arg) {
  struct caller *caller = arg;
  caller->err = member_join(caller->member);
  return NULL;
}

static void several_join_at_once(void **state) {
  (void)state;
  struct test_member members[MEMBERS];
  struct caller callers[MEMBERS];
  members_found(members, stores, 2, TTL_S);
  for (int32_t r = 2; r < MEMBERS; r++) {
    member_open(&members[r], store, r, 0, TTL_S);
    assert_int_equal(group_found(members[r].group, member_deadline()), WEFT_ERR_NOT_FOUND);
    callers[r] = (struct caller){.member = &members[r]};
    assert_int_equal(pthread_create(&callers[r].thread, NULL, join_thread, &callers[r]), 0);
  }
  for (int32_t r = 2; r < MEMBERS; r++) {
    pthread_join(callers[r].thread, NULL);
    assert_int_equal(callers[r].err, 0);
  }
  for (uint32_t i = 0; i < MEMBERS; i++)
    expect_view(&members[i], 1 + MEMBERS - 2, MEMBERS);
  for (uint32_t i = 0; i < 2; i++)
    member_await_events(&members[i], GROUP_EVENT_VIEW, 1 + MEMBERS - 2);
  members_check_views(members, MEMBERS, true);
  close_all(members, MEMBERS);
}

// As when a call that joins ends at its deadline before it sees that the rank is in a view, and the next call begins.
static void a_rank_in_the_view_needs_no_offer(void **state) {
  (void)state;
  struct test_member members[3];
  struct group_member peers[64]; // the capacity
  const struct group_view *view = NULL;
  uint32_t count = 0;
  members_found(members, stores, 2, TTL_S);
  member_open(&members[2], store, 2, 0, TTL_S);
  assert_int_equal(member_join(&members[2]), 0);
  group_offer_begin(members[2].group);
  assert_int_equal(group_offer_peers(members[2].group, member_deadline(), peers, &count, &view), 0);
  assert_int_equal(view->epoch, 2);
  assert_int_equal(count, 2);
  group_view_unref(view);
  assert_int_equal(group_offer_ready(members[2].group, member_deadline()), 0);
  close_all(members, 3);
}

static void leaver_goes_and_comes_again(void **state) {
  (void)state;
  struct test_member members[3];
  members_found(members, stores, 3, TTL_S);
  int32_t itself = 2;
  uint64_t before = group_incarnation(members[2].group);
  assert_int_equal(group_remove(members[2].group, &itself, 1, member_deadline()), 0);
  expect_view(&members[0], 2, 2);
  assert_int_equal(group_wait_view(members[2].group, 0, member_deadline()), WEFT_ERR_CLOSED);
  assert_int_equal(members[2].counts[GROUP_EVENT_FENCED], 0);
  member_await_events(&members[0], GROUP_EVENT_GONE, 1);
  member_close(&members[2]);
  member_open(&members[2], store, 2, 0, TTL_S);
  assert_int_not_equal(group_incarnation(members[2].group), before);
  assert_int_equal(member_join(&members[2]), 0);
  expect_view(&members[1], 3, 3);
  members_check_views(members, 3, true);
  close_all(members, 3);
}

static void false_suspicion_fences(void **state) {
  (void)state;
  struct test_member members[4];
  members_found(members, stores, 4, TTL_S);
  group_suspect(members[1].group, 3, group_incarnation(members[3].group), "for the test");
  group_suspect(members[2].group, 3, group_incarnation(members[3].group), "for the test");
  member_await_events(&members[3], GROUP_EVENT_FENCED, 1);
  expect_view(&members[0], 2, 3);
  int32_t other = 0;
  assert_int_equal(group_remove(members[3].group, &other, 1, member_deadline()), WEFT_ERR_FENCED);
  assert_int_equal(group_wait_view(members[3].group, 0, member_deadline()), WEFT_ERR_FENCED);
  assert_int_equal(group_barrier(members[3].group, "b", member_deadline()), WEFT_ERR_FENCED);
  member_close(&members[3]);
  member_open(&members[3], store, 3, 0, TTL_S);
  assert_int_equal(member_join(&members[3]), 0);
  members_check_views(members, 4, true);
  close_all(members, 4);
}

static void two_suspects_and_a_joiner_at_once(void **state) {
  (void)state;
  struct test_member members[MEMBERS];
  members_found(members, stores, MEMBERS - 1, TTL_S);
  member_open(&members[MEMBERS - 1], store, MEMBERS - 1, 0, TTL_S);
  struct caller joiner = {.member = &members[MEMBERS - 1]};
  assert_int_equal(pthread_create(&joiner.thread, NULL, join_thread, &joiner), 0);
  for (uint32_t i = 2; i < MEMBERS - 1; i++)
    for (int32_t r = 0; r < 2; r++)
      group_suspect(members[i].group, r, group_incarnation(members[r].group), "for the test");
  member_await_events(&members[0], GROUP_EVENT_FENCED, 1);
  member_await_events(&members[1], GROUP_EVENT_FENCED, 1);
  pthread_join(joiner.thread, NULL);
  assert_int_equal(joiner.err, 0);
  assert_int_equal(group_wait_view(members[3].group, 3, member_deadline()), 0);
  const struct group_view *view = group_view(members[3].group);
  assert_int_equal(view->members[0].rank, 2);
  group_view_unref(view);
  members_check_views(members, MEMBERS, true);
  close_all(members, MEMBERS);
}

struct claimer {
  pthread_t thread;
  struct test_member member;
  int err;
};

static void *claim_any(void *arg) {
  struct claimer *claimer = arg;
  claimer->err = member_try_open(&claimer->member, store, -1, 0, TTL_S, member_deadline());
  return NULL;
}

static void sixty_four_threads_claim_any_rank(void **state) {
  (void)state;
  struct claimer *claimers = calloc(64, sizeof *claimers);
  bool taken[64] = {false};
  assert_non_null(claimers);
  for (int i = 0; i < 64; i++)
    assert_int_equal(pthread_create(&claimers[i].thread, NULL, claim_any, &claimers[i]), 0);
  for (int i = 0; i < 64; i++) {
    pthread_join(claimers[i].thread, NULL);
    assert_int_equal(claimers[i].err, 0);
    int32_t rank = group_rank(claimers[i].member.group);
    assert_uint_in_range(rank, 0, 63);
    assert_false(taken[rank]);
    taken[rank] = true;
  }
  struct test_member late;
  assert_int_equal(member_try_open(&late, store, -1, 0, TTL_S, member_deadline()), WEFT_ERR_LIMIT);
  member_close(&late);
  for (int i = 0; i < 64; i++)
    member_close(&claimers[i].member);
  free(claimers);
}

static void waits_that_time_out_name_who_is_missing(void **state) {
  (void)state;
  struct test_member first, second;
  member_open(&first, store, 0, 3, TTL_S);
  assert_int_equal(group_found(first.group, clock_deadline_ms(20)), WEFT_ERR_TIMEOUT);
  assert_string_equal(weft_last_error(), "waiting for the founders; missing: 1, 2");
  const int32_t ranks[] = {0, 5, 7};
  assert_int_equal(group_wait_ranks(first.group, ranks, 3, clock_deadline_ms(20)), WEFT_ERR_TIMEOUT);
  assert_string_equal(weft_last_error(), "waiting for ranks to be claimed; missing: 5, 7");
  assert_int_equal(group_wait_view(first.group, 4, clock_deadline_ms(20)), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "view 4"));
  assert_int_equal(member_try_open(&second, store, 0, 0, TTL_S, clock_deadline_ms(200)), WEFT_ERR_EXISTS);
  assert_non_null(strstr(weft_last_error(), "at 'here'"));
  member_close(&second);
  member_close(&first);
}

// What a call wanted ends with it: nobody is added or removed later.
static void calls_that_time_out_change_no_view(void **state) {
  (void)state;
  struct test_member members[3];
  const uint64_t passed_ns = 1;
  const int32_t leaver = 1;
  members_found(members, stores, 2, TTL_S);
  member_open(&members[2], store, 2, 0, TTL_S);
  const struct group_view *base = group_view(members[2].group);
  assert_int_equal(group_join(members[2].group, base, passed_ns), WEFT_ERR_TIMEOUT);
  assert_int_equal(group_wait_view(members[0].group, base->epoch + 1, clock_deadline_ms(50)), WEFT_ERR_TIMEOUT);
  assert_int_equal(group_remove(members[0].group, &leaver, 1, passed_ns), WEFT_ERR_TIMEOUT);
  assert_int_equal(group_wait_view(members[0].group, base->epoch + 1, clock_deadline_ms(50)), WEFT_ERR_TIMEOUT);
  assert_int_equal(member_join(&members[2]), 0);
  expect_view(&members[0], base->epoch + 1, 3);
  group_view_unref(base);
  close_all(members, 3);
}

static void arguments_of_waits_are_checked(void **state) {
  (void)state;
  struct test_member members[1];
  const int32_t beyond = 64, negative = -1;
  char name[129];
  members_found(members, stores, 1, TTL_S);
  struct group *group = members[0].group;
  assert_int_equal(group_wait_ranks(group, &beyond, 1, member_deadline()), WEFT_ERR_INVALID);
  assert_int_equal(group_remove(group, &negative, 1, member_deadline()), WEFT_ERR_INVALID);
  memset(name, 'n', sizeof name);
  name[128] = '\0';
  assert_int_equal(group_barrier(group, name, member_deadline()), WEFT_ERR_INVALID);
  name[127] = '\0';
  assert_int_equal(group_barrier(group, name, member_deadline()), 0);
  close_all(members, 1);
}

static void *barrier_thread(void *arg) {
  struct caller *caller = arg;
  caller->err = group_barrier(caller->member->group, caller->barrier, member_deadline());
  return NULL;
}

static void start_barrier(struct caller *caller, struct test_member *member, const char *name) {
  *caller = (struct caller){.member = member, .barrier = name};
  assert_int_equal(pthread_create(&caller->thread, NULL, barrier_thread, caller), 0);
}

static void barriers_meet_again_and_again(void **state) {
  (void)state;
  struct test_member members[MEMBERS];
  struct caller callers[MEMBERS];
  char name[32];
  members_found(members, stores, MEMBERS, TTL_S);
  for (int round = 0; round < 10; round++) {
    snprintf(name, sizeof name, "round %d", round);
    for (uint32_t i = 0; i < MEMBERS; i++)
      start_barrier(&callers[i], &members[i], name);
    for (uint32_t i = 0; i < MEMBERS; i++) {
      pthread_join(callers[i].thread, NULL);
      assert_int_equal(callers[i].err, 0);
    }
  }
  close_all(members, MEMBERS);
}

static void barrier_names_the_missing_and_goes_on_without_the_dead(void **state) {
  (void)state;
  struct test_member members[4];
  struct caller callers[3];
  members_found(members, stores, 4, TTL_S);
  assert_int_equal(group_barrier(members[1].group, "early", clock_deadline_ms(20)), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "3"));
  for (uint32_t i = 0; i < 3; i++)
    start_barrier(&callers[i], &members[i], "b");
  group_suspect(members[0].group, 3, group_incarnation(members[3].group), "lost in the middle of the barrier");
  for (uint32_t i = 0; i < 3; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].err, 0);
  }
  close_all(members, 4);
}

static void bad_options_are_refused(void **state) {
  (void)state;
  const int32_t founders[] = {0, 0}, far[] = {0, 9};
  char long_address[GROUP_ADDRESS_SIZE + 1];
  memset(long_address, 'a', sizeof long_address - 1);
  long_address[GROUP_ADDRESS_SIZE] = '\0';
  const struct group_options good = {
      .store = store, .prefix = "/weft/test/", .rank = 0, .capacity = 8, .lease_ttl_s = 5, .address = "a"};
  struct group_options bad[9];
  for (int i = 0; i < 9; i++)
    bad[i] = good;
  bad[0].prefix = "/weft/test";
  bad[1].rank = 8;
  bad[2].rank = -2;
  bad[3].capacity = 0;
  bad[4].address = long_address;
  bad[5].address = "\xff";
  bad[6].founders = founders, bad[6].num_founders = 2;
  bad[7].founders = far, bad[7].num_founders = 2;
  bad[8].founders = founders, bad[8].num_founders = 1, bad[8].rank = 1;
  for (int i = 0; i < 9; i++) {
    struct group *group;
    assert_int_equal(group_open(&group, &bad[i], member_deadline()), WEFT_ERR_INVALID);
  }
}

// Of a call that waits: whether it does, and whether it has to end.
struct waiting {
  struct group *group;
  atomic_bool waits, ends;
  int err;
};

static const int32_t absent = 5;
static const struct group_change adds_absent = {.add = &absent, .num_add = 1};

static bool is_interrupted(void *arg) {
  struct waiting *waiting = arg;
  atomic_store(&waiting->waits, waiting->group != NULL);
  return atomic_load(&waiting->ends);
}

static void *change_thread(void *arg) {
  struct waiting *waiting = arg;
  waiting->err = group_change(waiting->group, &adds_absent, member_deadline());
  return NULL;
}

static void a_second_change_at_once_is_refused(void **state) {
  (void)state;
  struct waiting waiting = {0};
  struct group *group;
  pthread_t thread;
  const struct group_options options = {.store = store,
                                        .prefix = "/weft/test/",
                                        .capacity = 8,
                                        .lease_ttl_s = TTL_S,
                                        .address = "a",
                                        .interrupted = is_interrupted,
                                        .event_arg = &waiting};
  uint64_t deadline = member_deadline();
  assert_int_equal(group_open(&group, &options, deadline), 0);
  assert_int_equal(group_found(group, deadline), 0);
  waiting.group = group;
  assert_int_equal(pthread_create(&thread, NULL, change_thread, &waiting), 0);
  while (!atomic_load(&waiting.waits) && !clock_passed(deadline))
    sched_yield();
  assert_int_equal(group_change(group, &adds_absent, deadline), WEFT_ERR_BUSY);
  atomic_store(&waiting.ends, true);
  group_wake(group);
  pthread_join(thread, NULL);
  assert_int_equal(waiting.err, WEFT_ERR_CANCELED);
  assert_int_equal(group_change(group, &adds_absent, clock_ns()), WEFT_ERR_CANCELED);
  group_close(group);
}

int main(void) {
#define ON_A_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)
  const struct CMUnitTest tests[] = {
      ON_A_STORE(founders_come_together),
      ON_A_STORE(several_join_at_once),
      ON_A_STORE(a_rank_in_the_view_needs_no_offer),
      ON_A_STORE(leaver_goes_and_comes_again),
      ON_A_STORE(false_suspicion_fences),
      ON_A_STORE(two_suspects_and_a_joiner_at_once),
      ON_A_STORE(sixty_four_threads_claim_any_rank),
      ON_A_STORE(waits_that_time_out_name_who_is_missing),
      ON_A_STORE(calls_that_time_out_change_no_view),
      ON_A_STORE(arguments_of_waits_are_checked),
      ON_A_STORE(barriers_meet_again_and_again),
      ON_A_STORE(barrier_names_the_missing_and_goes_on_without_the_dead),
      ON_A_STORE(a_second_change_at_once_is_refused),
      ON_A_STORE(bad_options_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
