// Events that change a view: founders, joiners, leavers, and dead or suspected members.
#include "group/support/machine_suite.h"

#include <stdlib.h>
#include <string.h>

static void founders_agree_on_view_1(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 8);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 1);
    assert_int_equal(world_keys(w, "/g/rank/"), 8);
    suite_end(w, true);
  }
}

static void members_stay_while_leases_are_renewed(void **state) {
  (void)state;
  struct world *w = suite_found(1, 5);
  uint32_t before = world_member(w, 4)->num_requests;
  world_advance(w, 10 * TTL_S * 1000);
  suite_until_agreed(w, 5, 0);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  // Three keepalives per TTL, and nothing else: the store is not polled.
  assert_uint_in_range(world_member(w, 4)->num_requests - before, 25, 32);
  suite_end(w, true);
}

static void joiners_come_in_one_by_one(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    for (int32_t r = 4; r < 10; r++)
      world_add(w, r, 0);
    world_until(w, suite_all_claimed, SOON_MS, "joiners claim");
    suite_expect(10);
    for (int rounds = 0; !suite_agreed(w); rounds++) {
      assert_true(rounds < 400);
      for (uint32_t i = 4; i < 10; i++) {
        const struct group_view *base = group_machine_view(world_member(w, i)->machine);
        group_machine_join(world_member(w, i)->machine, base ? base->epoch : 0);
      }
      world_advance(w, 5);
    }
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 7);
    suite_end(w, true);
  }
}

static void stale_base_is_not_joined(void **state) {
  (void)state;
  struct world *w = suite_found(2, 3);
  struct world_member *joiner = world_add(w, 7, 0);
  world_until(w, suite_all_claimed, SOON_MS, "joiner claims");
  assert_int_equal(group_machine_remove(world_member(w, 0)->machine, 2), world_member(w, 2)->incarnation);
  world_advance(w, 500);
  group_machine_join(joiner->machine, 1);
  world_advance(w, 500);
  assert_int_equal(group_machine_view(joiner->machine)->epoch, 2);
  assert_null(group_view_find(group_machine_view(joiner->machine), 7));
  group_machine_join(joiner->machine, 2);
  suite_until_agreed(w, 3, SOON_MS);
  suite_end(w, true);
}

static void dead_members_go_in_one_view(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 12);
    uint64_t incarnation[2] = {world_member(w, 0)->incarnation, world_member(w, 5)->incarnation};
    world_kill(w, world_member(w, 0));
    world_kill(w, world_member(w, 5));
    for (uint32_t i = 0; i < 12; i++)
      if (world_member(w, i)->machine) {
        group_machine_suspect(world_member(w, i)->machine, 0, incarnation[0]);
        group_machine_suspect(world_member(w, i)->machine, 5, incarnation[1]);
      }
    suite_until_agreed(w, 10, SOON_MS);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->epoch, 2);
    assert_int_equal(world_keys(w, "/g/rank/"), 10);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, true);
  }
}

static void one_suspicion_is_enough_and_costs_few_transactions(void **state) {
  (void)state;
  struct world *w = suite_found(3, 32);
  uint64_t incarnation = world_member(w, 9)->incarnation;
  uint32_t before = 0, after = 0;
  world_kill(w, world_member(w, 9));
  for (uint32_t i = 0; i < 32; i++)
    before += world_member(w, i)->num_requests;
  for (uint32_t i = 0; i < 32; i++)
    if (i != 9)
      group_machine_suspect(world_member(w, i)->machine, 9, incarnation);
  suite_until_agreed(w, 31, SOON_MS);
  for (uint32_t i = 0; i < 32; i++)
    after += world_member(w, i)->num_requests;
  assert_uint_in_range(after - before, 1, 12); // not one for each of 31
  suite_end(w, true);
}

static void lease_expiry_is_suspicion(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 5);
    world_kill(w, world_member(w, 0));
    world_kill(w, world_member(w, 1));
    world_kill(w, world_member(w, 2)); // the three that kept the view's lease
    suite_until_agreed(w, 2, 2 * TTL_S * 1000);
    world_advance(w, 5 * TTL_S * 1000);
    suite_until_agreed(w, 2, 0);
    suite_end(w, true);
  }
}

static void false_suspicion_fences_and_frees_the_rank(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    group_machine_suspect(world_member(w, 2)->machine, 0, world_member(w, 0)->incarnation);
    world_until(w, suite_first_is_fenced, SOON_MS, "rank 0 is fenced");
    suite_until_agreed(w, 3, SOON_MS);
    struct world_member *again = world_add(w, 0, 0);
    world_until(w, suite_all_claimed, SOON_MS, "rank 0 claimed by a new incarnation");
    group_machine_join(again->machine, 2);
    suite_until_agreed(w, 4, SOON_MS);
    assert_int_equal(world_member(w, 0)->num_fenced, 1);
    assert_int_equal(suite_fenced(w), 1);
    suite_end(w, true);
  }
}

// It has asked to go, and gives that up before anything came of it, or when the store has it already.
static void a_rank_that_gives_up_its_leave_stays_a_member(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    struct world_member *first = world_member(w, 0);
    group_machine_remove(first->machine, 0);
    group_machine_remove_end(first->machine, 0, first->incarnation);
    world_advance(w, SOON_MS);
    assert_int_equal(group_machine_view(first->machine)->epoch, 1);
    group_machine_suspect(world_member(w, 2)->machine, 0, first->incarnation);
    world_until(w, suite_first_is_fenced, SOON_MS, "rank 0 is fenced");
    suite_until_agreed(w, 3, SOON_MS);
    assert_int_equal(first->num_fenced, 1);
    struct world_member *last = world_member(w, 3);
    group_machine_remove(last->machine, 3);
    while (group_machine_standing(last->machine) == GROUP_CLAIMED &&
           !(last->busy && last->executed && last->request.kind == GROUP_REQUEST_TXN))
      world_advance(w, 1);
    group_machine_remove_end(last->machine, 3, last->incarnation);
    suite_until_agreed(w, 2, SOON_MS);
    assert_int_equal(group_machine_standing(last->machine), GROUP_LEFT);
    assert_int_equal(last->num_fenced, 0);
    suite_end(w, true);
  }
}

// A suspicion is of one process. A wish to remove the process after it, which is given up, leaves that one a member.
static void a_suspicion_ends_with_its_process(void **state) {
  (void)state;
  struct world *w = suite_found(22, 4);
  struct group_machine *first = world_member(w, 0)->machine;
  uint64_t incarnation = world_member(w, 3)->incarnation;
  world_kill(w, world_member(w, 3));
  group_machine_suspect(first, 3, incarnation);
  suite_until_agreed(w, 3, SOON_MS);
  struct world_member *next = world_add(w, 3, 0);
  world_until(w, suite_all_claimed, 2 * TTL_S * 1000, "the next process claims the rank");
  group_machine_join(next->machine, 2);
  suite_until_agreed(w, 4, SOON_MS);
  assert_int_equal(group_machine_remove(first, 3), next->incarnation);
  group_machine_remove_end(first, 3, next->incarnation);
  world_advance(w, SOON_MS);
  suite_until_agreed(w, 4, 0);
  suite_end(w, true);
}

// A member's claim goes while its proposal is on its way to the store: what it proposes must not come true.
static void a_proposal_holds_only_as_long_as_its_proposer_does(void **state) {
  (void)state;
  uint32_t hits = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    struct world_member *proposer = world_member(w, 0);
    world_advance(w, 100);
    group_machine_suspect(proposer->machine, 3, world_member(w, 3)->incarnation);
    world_advance(w, 1);
    if (proposer->busy && !proposer->executed && proposer->request.kind == GROUP_REQUEST_TXN) {
      hits++;
      world_write(w, "/g/rank/0", NULL);
      while (!proposer->executed)
        world_advance(w, 1);
      assert_int_equal(proposer->answer.err, 0);
      assert_false(proposer->answer.succeeded);
    }
    suite_end(w, true);
  }
  assert_uint_in_range(hits, 5, SEEDS);
}

static void mutual_suspicion_leaves_one_of_two(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    group_machine_suspect(world_member(w, 0)->machine, 1, world_member(w, 1)->incarnation);
    group_machine_suspect(world_member(w, 1)->machine, 0, world_member(w, 0)->incarnation);
    world_advance(w, 200);
    suite_until_agreed(w, 3, SOON_MS);
    assert_int_equal(suite_fenced(w), 1);
    suite_end(w, true);
  }
}

// It may be the joiner's own link that is at fault.
static void the_suspicion_of_one_outside_the_view_puts_nobody_out(void **state) {
  (void)state;
  struct world *w = suite_found(4, 3);
  struct world_member *joiner = world_add(w, 7, 0);
  world_until(w, suite_all_claimed, SOON_MS, "joiner claims");
  group_machine_suspect(joiner->machine, 1, world_member(w, 1)->incarnation);
  world_advance(w, 500);
  assert_int_equal(group_machine_view(joiner->machine)->epoch, 1);
  group_machine_join(joiner->machine, 1);
  suite_until_agreed(w, 4, SOON_MS);
  assert_int_equal(suite_fenced(w), 0);
  suite_end(w, true);
}

static void simultaneous_join_and_suspicion_both_come_true(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    struct world_member *joiner = world_add(w, 9, 0);
    world_until(w, suite_all_claimed, SOON_MS, "joiner claims");
    uint64_t incarnation = world_member(w, 3)->incarnation;
    world_kill(w, world_member(w, 3));
    group_machine_suspect(world_member(w, 1)->machine, 3, incarnation);
    group_machine_suspect(world_member(w, 2)->machine, 3, incarnation);
    for (int rounds = 0; rounds < 100; rounds++) {
      const struct group_view *base = group_machine_view(joiner->machine);
      group_machine_join(joiner->machine, base ? base->epoch : 0);
      world_advance(w, 5);
    }
    suite_until_agreed(w, 4, SOON_MS);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, true);
  }
}

int suite_run_views(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(founders_agree_on_view_1),
      cmocka_unit_test(members_stay_while_leases_are_renewed),
      cmocka_unit_test(joiners_come_in_one_by_one),
      cmocka_unit_test(stale_base_is_not_joined),
      cmocka_unit_test(dead_members_go_in_one_view),
      cmocka_unit_test(one_suspicion_is_enough_and_costs_few_transactions),
      cmocka_unit_test(lease_expiry_is_suspicion),
      cmocka_unit_test(false_suspicion_fences_and_frees_the_rank),
      cmocka_unit_test(a_rank_that_gives_up_its_leave_stays_a_member),
      cmocka_unit_test(a_suspicion_ends_with_its_process),
      cmocka_unit_test(a_proposal_holds_only_as_long_as_its_proposer_does),
      cmocka_unit_test(mutual_suspicion_leaves_one_of_two),
      cmocka_unit_test(the_suspicion_of_one_outside_the_view_puts_nobody_out),
      cmocka_unit_test(simultaneous_join_and_suspicion_both_come_true),
  };
  return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
