// Members of a group on a store in virtual time: everything they do together, and every way in which the store fails.
#include "group/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "group/view.h"

enum { TTL_S = 10, SOON_MS = 1000, SEEDS = 50 };

static uint32_t expected_members; // of the view that `agreed` asks for

// Whether every running member that was not put out sees the same view with all of them in it, `expected_members`.
static bool agreed(struct world *w) {
  const struct group_view *first = NULL;
  for (uint32_t i = 0; i < world_count(w); i++) {
    struct world_member *m = world_member(w, i);
    if (!m->machine || m->stopped || group_machine_standing(m->machine) > GROUP_CLAIMED)
      continue;
    const struct group_view *view = group_machine_view(m->machine);
    if (!view || view->count != expected_members ||
        !group_view_has(view, group_machine_rank(m->machine), m->incarnation))
      return false;
    if (first && !group_view_equal(first, view))
      return false;
    first = view;
  }
  return first != NULL;
}

static void until_agreed(struct world *w, uint32_t members, uint64_t ms) {
  expected_members = members;
  world_until(w, agreed, ms, "all members in one view");
}

static bool all_claimed(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++)
    if (world_member(w, i)->machine && group_machine_standing(world_member(w, i)->machine) == GROUP_OPENING)
      return false;
  return true;
}

static struct world *found(uint64_t seed, uint32_t count) {
  struct world *w = world_new(seed, 64, TTL_S);
  for (uint32_t i = 0; i < count; i++)
    group_machine_found(world_add(w, (int32_t)i, count)->machine, true);
  until_agreed(w, count, SOON_MS);
  for (uint32_t i = 0; i < count; i++)
    group_machine_found(world_member(w, i)->machine, false);
  return w;
}

static uint32_t fenced(struct world *w) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < world_count(w); i++)
    count += world_member(w, i)->num_fenced;
  return count;
}

static void end(struct world *w, bool whole) {
  world_check_views(w, whole);
  world_free(w);
}

static void founders_agree_on_view_1(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 8);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 1);
    assert_int_equal(world_keys(w, "/g/rank/"), 8);
    end(w, true);
  }
}

static void members_stay_while_leases_are_renewed(void **state) {
  (void)state;
  struct world *w = found(1, 5);
  uint32_t before = world_member(w, 4)->num_requests;
  world_advance(w, 10 * TTL_S * 1000);
  until_agreed(w, 5, 0);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  // Three keepalives per TTL, and nothing else: the store is not polled.
  assert_in_range(world_member(w, 4)->num_requests - before, 25, 32);
  end(w, true);
}

static void joiners_come_in_one_by_one(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 4);
    for (int32_t r = 4; r < 10; r++)
      world_add(w, r, 0);
    world_until(w, all_claimed, SOON_MS, "joiners claim");
    expected_members = 10;
    for (int rounds = 0; !agreed(w); rounds++) {
      assert_true(rounds < 400);
      for (uint32_t i = 4; i < 10; i++) {
        const struct group_view *base = group_machine_view(world_member(w, i)->machine);
        group_machine_join(world_member(w, i)->machine, base ? base->epoch : 0);
      }
      world_advance(w, 5);
    }
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 7);
    end(w, true);
  }
}

static void stale_base_is_not_joined(void **state) {
  (void)state;
  struct world *w = found(2, 3);
  struct world_member *joiner = world_add(w, 7, 0);
  world_until(w, all_claimed, SOON_MS, "joiner claims");
  assert_int_equal(group_machine_remove(world_member(w, 0)->machine, 2), world_member(w, 2)->incarnation);
  world_advance(w, 500);
  group_machine_join(joiner->machine, 1);
  world_advance(w, 500);
  assert_int_equal(group_machine_view(joiner->machine)->epoch, 2);
  assert_null(group_view_find(group_machine_view(joiner->machine), 7));
  group_machine_join(joiner->machine, 2);
  until_agreed(w, 3, SOON_MS);
  end(w, true);
}

static void dead_members_go_in_one_view(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 12);
    uint64_t incarnation[2] = {world_member(w, 0)->incarnation, world_member(w, 5)->incarnation};
    world_kill(w, world_member(w, 0));
    world_kill(w, world_member(w, 5));
    for (uint32_t i = 0; i < 12; i++)
      if (world_member(w, i)->machine) {
        group_machine_suspect(world_member(w, i)->machine, 0, incarnation[0]);
        group_machine_suspect(world_member(w, i)->machine, 5, incarnation[1]);
      }
    until_agreed(w, 10, SOON_MS);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->epoch, 2);
    assert_int_equal(world_keys(w, "/g/rank/"), 10);
    assert_int_equal(fenced(w), 0);
    end(w, true);
  }
}

static void one_suspicion_is_enough_and_costs_few_transactions(void **state) {
  (void)state;
  struct world *w = found(3, 32);
  uint64_t incarnation = world_member(w, 9)->incarnation;
  uint32_t before = 0, after = 0;
  world_kill(w, world_member(w, 9));
  for (uint32_t i = 0; i < 32; i++)
    before += world_member(w, i)->num_requests;
  for (uint32_t i = 0; i < 32; i++)
    if (i != 9)
      group_machine_suspect(world_member(w, i)->machine, 9, incarnation);
  until_agreed(w, 31, SOON_MS);
  for (uint32_t i = 0; i < 32; i++)
    after += world_member(w, i)->num_requests;
  assert_in_range(after - before, 1, 12); // not one for each of 31
  end(w, true);
}

static void lease_expiry_is_suspicion(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 5);
    world_kill(w, world_member(w, 0));
    world_kill(w, world_member(w, 1));
    world_kill(w, world_member(w, 2)); // the three that kept the view's lease
    until_agreed(w, 2, 2 * TTL_S * 1000);
    world_advance(w, 5 * TTL_S * 1000);
    until_agreed(w, 2, 0);
    end(w, true);
  }
}

static bool first_is_fenced(struct world *w) {
  return world_member(w, 0)->num_fenced == 1;
}

static void false_suspicion_fences_and_frees_the_rank(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 4);
    group_machine_suspect(world_member(w, 2)->machine, 0, world_member(w, 0)->incarnation);
    world_until(w, first_is_fenced, SOON_MS, "rank 0 is fenced");
    until_agreed(w, 3, SOON_MS);
    struct world_member *again = world_add(w, 0, 0);
    world_until(w, all_claimed, SOON_MS, "rank 0 claimed by a new incarnation");
    group_machine_join(again->machine, 2);
    until_agreed(w, 4, SOON_MS);
    assert_int_equal(world_member(w, 0)->num_fenced, 1);
    assert_int_equal(fenced(w), 1);
    end(w, true);
  }
}

static void mutual_suspicion_leaves_one_of_two(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 4);
    group_machine_suspect(world_member(w, 0)->machine, 1, world_member(w, 1)->incarnation);
    group_machine_suspect(world_member(w, 1)->machine, 0, world_member(w, 0)->incarnation);
    world_advance(w, 200);
    until_agreed(w, 3, SOON_MS);
    assert_int_equal(fenced(w), 1);
    end(w, true);
  }
}

static void simultaneous_join_and_suspicion_both_come_true(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 4);
    struct world_member *joiner = world_add(w, 9, 0);
    world_until(w, all_claimed, SOON_MS, "joiner claims");
    uint64_t incarnation = world_member(w, 3)->incarnation;
    world_kill(w, world_member(w, 3));
    group_machine_suspect(world_member(w, 1)->machine, 3, incarnation);
    group_machine_suspect(world_member(w, 2)->machine, 3, incarnation);
    for (int rounds = 0; rounds < 100; rounds++) {
      const struct group_view *base = group_machine_view(joiner->machine);
      group_machine_join(joiner->machine, base ? base->epoch : 0);
      world_advance(w, 5);
    }
    until_agreed(w, 4, SOON_MS);
    assert_int_equal(fenced(w), 0);
    end(w, true);
  }
}

static void leaver_is_out_without_a_fence(void **state) {
  (void)state;
  struct world *w = found(4, 3);
  group_machine_remove(world_member(w, 1)->machine, 1);
  until_agreed(w, 2, SOON_MS);
  world_advance(w, 50);
  assert_int_equal(group_machine_standing(world_member(w, 1)->machine), GROUP_LEFT);
  assert_int_equal(fenced(w), 0);
  assert_int_equal(world_keys(w, "/g/rank/"), 2);
  assert_int_equal(world_leases(w), 3); // two members' and the view's
  end(w, true);
}

// The watch was lost for good and everything is read again: a close that comes right then knows the store as it was,
// and must not go on proposing what it cannot see to have come true.
static void closing_before_the_watch_is_back_asks_for_little(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 1 + (uint32_t)(seed % 3));
    struct world_member *m = world_member(w, 0);
    world_advance(w, 100);
    m->watching = false;
    group_machine_watch(m->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESET});
    uint32_t before = m->num_requests;
    while (m->num_requests == before) // the read; its answer may have come as well
      world_advance(w, 1);
    assert_false(m->watching);
    before = m->num_requests;
    group_machine_close(m->machine, world_now(w) + 2000000000u);
    for (int ms = 0; ms < 3000 && !group_machine_closed(m->machine); ms++)
      world_advance(w, 1);
    assert_true(group_machine_closed(m->machine));
    assert_in_range(m->num_requests - before, 1, 8);
    assert_int_equal(world_keys(w, "/g/rank/"), world_count(w) - 1);
    end(w, true);
  }
}

static bool all_closed(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++)
    if (world_member(w, i)->machine && !group_machine_closed(world_member(w, i)->machine))
      return false;
  return true;
}

static void closing_all_at_once_leaves_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 6);
    assert_int_equal(group_machine_barrier(world_member(w, 2)->machine, "b"), 0);
    world_add(w, 20, 0);
    world_until(w, all_claimed, SOON_MS, "a rank outside the view");
    for (uint32_t i = 0; i < 7; i++)
      group_machine_close(world_member(w, i)->machine, world_now(w) + 2000000000u);
    world_until(w, all_closed, 3000, "all close");
    assert_int_equal(world_keys(w, "/g/"), 0);
    assert_int_equal(world_leases(w), 0);
    end(w, true);
  }
}

static void any_rank_64_at_once_without_duplicate_or_gap(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 5; seed++) {
    struct world *w = world_new(seed, 128, TTL_S);
    bool taken[64] = {false};
    uint32_t requests = 0;
    for (uint32_t i = 0; i < 64; i++)
      world_add(w, -1, 0);
    world_until(w, all_claimed, SOON_MS, "64 claims");
    for (uint32_t i = 0; i < 64; i++) {
      int32_t rank = group_machine_rank(world_member(w, i)->machine);
      assert_in_range(rank, 0, 63);
      assert_false(taken[rank]);
      taken[rank] = true;
      requests += world_member(w, i)->num_requests;
    }
    assert_int_equal(world_keys(w, "/g/ticket/"), 0);
    assert_in_range(requests, 64 * 4, 64 * 8); // read, watch, grant, ticket, claim; not 64 rounds each
    end(w, true);
  }
}

static void lost_answers_and_failed_requests_change_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = world_new(seed, 64, TTL_S);
    world_set_faults(w, 10, 20);
    for (uint32_t i = 0; i < 6; i++)
      group_machine_found(world_add(w, (int32_t)i, 6)->machine, true);
    until_agreed(w, 6, 20000);
    uint64_t incarnation = world_member(w, 2)->incarnation;
    world_kill(w, world_member(w, 2));
    group_machine_suspect(world_member(w, 4)->machine, 2, incarnation);
    until_agreed(w, 5, 20000);
    group_machine_remove(world_member(w, 5)->machine, 5);
    until_agreed(w, 4, 20000);
    assert_int_equal(fenced(w), 0);
    end(w, true);
  }
}

static void store_lost_and_back_is_told_once_each(void **state) {
  (void)state;
  struct world *w = found(5, 4);
  for (uint32_t i = 0; i < 4; i++)
    world_member(w, i)->cut = true;
  world_advance(w, 4000);
  group_machine_remove(world_member(w, 0)->machine, 3);
  world_advance(w, 1000);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  for (uint32_t i = 0; i < 4; i++) {
    assert_non_null(group_machine_lost(world_member(w, i)->machine));
    world_member(w, i)->cut = false;
  }
  until_agreed(w, 3, 5000);
  world_advance(w, 2000);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(world_member(w, i)->num_lost, 1);
    assert_int_equal(world_member(w, i)->num_back, 1);
    assert_null(group_machine_lost(world_member(w, i)->machine));
  }
  end(w, true);
}

static void everybody_outlives_an_outage_longer_than_the_leases(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 6);
    for (uint32_t i = 0; i < 6; i++)
      world_member(w, i)->cut = true;
    world_advance(w, 5 * TTL_S * 1000); // every lease runs out, the view's too
    assert_int_equal(world_keys(w, "/g/"), 0);
    for (uint32_t i = 0; i < 6; i++) {
      world_member(w, i)->cut = false;
      world_advance(w, 300);
    }
    until_agreed(w, 6, 5000);
    world_advance(w, 3 * TTL_S * 1000);
    until_agreed(w, 6, 0);
    assert_int_equal(fenced(w), 0);
    assert_int_equal(world_keys(w, "/g/rank/"), 6);
    assert_int_equal(world_keys(w, "/g/view"), 1);
    end(w, true);
  }
}

static void member_alone_in_an_outage_is_put_out_and_told(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 4);
    struct world_member *alone = world_member(w, 0);
    if (seed % 2)
      alone->cut = true;
    else
      alone->stopped = true;
    world_advance(w, 3 * TTL_S * 1000);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->count, 3);
    alone->cut = alone->stopped = false;
    world_until(w, first_is_fenced, 5000, "the one that was away is fenced");
    world_advance(w, 100);
    assert_int_equal(world_keys(w, "/g/rank/"), 3);
    end(w, true);
  }
}

static void group_goes_on_after_the_store_restarted_empty(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 6);
    group_machine_remove(world_member(w, 5)->machine, 5);
    until_agreed(w, 5, SOON_MS);
    world_restart_empty(w);
    world_advance(w, 3 * TTL_S * 1000);
    until_agreed(w, 5, 0);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 2);
    assert_int_equal(world_keys(w, "/g/rank/"), 5);
    assert_int_equal(world_keys(w, "/g/view"), 1);
    assert_int_equal(fenced(w), 0);
    group_machine_remove(world_member(w, 1)->machine, 4);
    until_agreed(w, 4, SOON_MS);
    end(w, false);
  }
}

static void newest_epoch_wins_after_the_store_restarted_empty(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 5);
    for (uint32_t i = 0; i < 4; i++)
      world_member(w, i)->cut = i < 3; // they do not hear of view 2
    group_machine_remove(world_member(w, 4)->machine, 4);
    world_advance(w, 100);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 2);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
    world_restart_empty(w);
    world_member(w, 3)->cut = true; // who knows best comes last
    for (uint32_t i = 0; i < 3; i++)
      world_member(w, i)->cut = false;
    world_advance(w, 1500);
    world_member(w, 3)->cut = false;
    until_agreed(w, 4, 5000);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 2);
    assert_int_equal(fenced(w), 0);
    end(w, false);
  }
}

static void leases_that_all_run_out_at_once_put_nobody_out(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 6);
    world_expire_leases(w);
    world_advance(w, 3 * TTL_S * 1000);
    until_agreed(w, 6, 0);
    assert_int_equal(fenced(w), 0);
    assert_int_equal(world_keys(w, "/g/rank/"), 6);
    end(w, true);
  }
}

// Members 0 to 2 never heard of view 2, restore view 1 and make a view 2 of their own: view 3 settles it.
static void two_views_of_one_epoch_end_in_a_newer_one(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = found(seed, 5);
    world_expect_fork(w, 2);
    for (uint32_t i = 0; i < 3; i++)
      world_member(w, i)->cut = true;
    group_machine_remove(world_member(w, 4)->machine, 4);
    world_advance(w, 100);
    world_restart_empty(w);
    world_member(w, 3)->cut = true;
    for (uint32_t i = 0; i < 3; i++)
      world_member(w, i)->cut = false;
    world_advance(w, 1500);
    group_machine_remove(world_member(w, 0)->machine, 0);
    world_advance(w, 500);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->epoch, 2);
    world_member(w, 3)->cut = false;
    world_advance(w, 5 * TTL_S * 1000);
    until_agreed(w, 3, 0); // 1, 2 and 3
    assert_true(group_machine_view(world_member(w, 1)->machine)->epoch >= 3);
    assert_int_equal(fenced(w), 0);
    end(w, false);
  }
}

static void vanished_view_is_made_again(void **state) {
  (void)state;
  struct world *w = found(6, 5);
  world_write(w, "/g/view", NULL);
  world_advance(w, 1000);
  until_agreed(w, 5, 0);
  assert_int_equal(world_keys(w, "/g/view"), 1);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  assert_int_equal(world_leases(w), 5 + 2); // the first view's lease is still running
  world_advance(w, 3 * TTL_S * 1000);
  assert_int_equal(world_leases(w), 5 + 1);
  end(w, true);
}

static void damaged_view_is_an_error_and_recovers(void **state) {
  (void)state;
  struct world *w = found(7, 3);
  world_write(w, "/g/view", "{\"epoch\":2,\"members\":[[1,\"x\"]]}");
  world_write(w, "/g/rank/1", "[]");
  world_write(w, "/g/rank/077", "[]");
  world_write(w, "/g/barrier/b/1", "?");
  world_advance(w, 100);
  assert_non_null(group_machine_damage(world_member(w, 0)->machine));
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  world_write(w, "/g/view", NULL);
  world_advance(w, 100);
  assert_null(group_machine_damage(world_member(w, 0)->machine));
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->count, 2); // rank 1 was overwritten: it is out
  end(w, true);
}

static const char *barrier_name;

static bool barrier_complete(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++) {
    struct text missing = {0};
    struct world_member *m = world_member(w, i);
    bool pending = m->machine && group_machine_standing(m->machine) == GROUP_CLAIMED &&
                   group_machine_barrier_missing(m->machine, barrier_name, &missing);
    text_free(&missing);
    if (pending)
      return false;
  }
  return true;
}

static void barrier_waits_for_all_and_names_the_missing(void **state) {
  (void)state;
  struct world *w = found(8, 4);
  barrier_name = "phase 1";
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_advance(w, 100);
  struct text missing = {0};
  assert_true(group_machine_barrier_missing(world_member(w, 0)->machine, barrier_name, &missing));
  assert_string_equal(missing.data, "3");
  text_free(&missing);
  assert_int_equal(group_machine_barrier(world_member(w, 3)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the barrier is complete");
  for (uint32_t i = 0; i < 4; i++)
    group_machine_barrier_end(world_member(w, i)->machine, barrier_name);
  barrier_name = "phase 2";
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_until(w, barrier_complete, SOON_MS, "the next barrier is complete");
  world_advance(w, 100);
  assert_int_equal(world_keys(w, "/g/barrier/phase 1/"), 0);
  end(w, true);
}

static void barrier_does_not_wait_for_the_dead(void **state) {
  (void)state;
  struct world *w = found(9, 4);
  barrier_name = "b";
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_kill(w, world_member(w, 3));
  world_until(w, barrier_complete, 3 * TTL_S * 1000, "the barrier is complete without the dead");
  end(w, true);
}

static void barrier_outlives_an_empty_restart(void **state) {
  (void)state;
  struct world *w = found(10, 3);
  barrier_name = "b";
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(group_machine_barrier(world_member(w, i)->machine, barrier_name), 0);
  world_advance(w, 100);
  world_restart_empty(w);
  world_advance(w, 100);
  assert_int_equal(group_machine_barrier(world_member(w, 2)->machine, barrier_name), 0);
  world_until(w, barrier_complete, 5000, "the barrier is complete");
  end(w, false);
}

// Members come, leave, die, are cut off and suspect each other at random while requests fail. Whatever happens, each
// epoch is one view, and when it is over those who are left agree.
static void random_lives_end_in_agreement(void **state) {
  (void)state;
  for (uint64_t seed = 100; seed < 400; seed++) {
    uint64_t random = seed;
    struct world *w = found(seed, 8);
    world_set_faults(w, 3, 5);
    for (int i = 0; i < 60; i++) {
      struct world_member *m = world_member(w, (uint32_t)(random_next(&random) % world_count(w)));
      uint32_t other = (uint32_t)(random_next(&random) % 16);
      uint64_t what = random_next(&random) % 100;
      if (what < 20 && world_count(w) < WORLD_MEMBERS - 1)
        world_add(w, what < 10 ? -1 : (int32_t)other, 0);
      else if (m->machine && what < 45)
        group_machine_join(m->machine, group_machine_view(m->machine) ? group_machine_view(m->machine)->epoch : 0);
      else if (m->machine && what < 60 && group_view_find(group_machine_view(m->machine), (int32_t)other))
        group_machine_suspect(m->machine, (int32_t)other,
                              group_view_find(group_machine_view(m->machine), (int32_t)other)->incarnation);
      else if (m->machine && what < 65)
        world_kill(w, m);
      else if (what < 75)
        m->cut = true;
      else if (what < 95)
        m->cut = false;
      world_advance(w, random_next(&random) % 400);
    }
    world_set_faults(w, 0, 0);
    for (uint32_t i = 0; i < world_count(w); i++) {
      struct world_member *m = world_member(w, i);
      m->cut = false;
      if (!m->machine)
        continue;
      group_machine_join(m->machine, 0);
      if (!group_view_has(group_machine_view(m->machine), group_machine_rank(m->machine), m->incarnation))
        world_kill(w, m); // who never came in goes, so that agreement is among members
    }
    world_advance(w, 5 * TTL_S * 1000);
    const struct group_view *last = NULL;
    for (uint32_t i = 0; i < world_count(w); i++)
      if (world_member(w, i)->machine && group_machine_standing(world_member(w, i)->machine) == GROUP_CLAIMED)
        last = group_machine_view(world_member(w, i)->machine);
    if (last)
      until_agreed(w, last->count, 0);
    end(w, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(founders_agree_on_view_1),
      cmocka_unit_test(members_stay_while_leases_are_renewed),
      cmocka_unit_test(joiners_come_in_one_by_one),
      cmocka_unit_test(stale_base_is_not_joined),
      cmocka_unit_test(dead_members_go_in_one_view),
      cmocka_unit_test(one_suspicion_is_enough_and_costs_few_transactions),
      cmocka_unit_test(lease_expiry_is_suspicion),
      cmocka_unit_test(false_suspicion_fences_and_frees_the_rank),
      cmocka_unit_test(mutual_suspicion_leaves_one_of_two),
      cmocka_unit_test(simultaneous_join_and_suspicion_both_come_true),
      cmocka_unit_test(leaver_is_out_without_a_fence),
      cmocka_unit_test(closing_all_at_once_leaves_nothing),
      cmocka_unit_test(closing_before_the_watch_is_back_asks_for_little),
      cmocka_unit_test(any_rank_64_at_once_without_duplicate_or_gap),
      cmocka_unit_test(lost_answers_and_failed_requests_change_nothing),
      cmocka_unit_test(store_lost_and_back_is_told_once_each),
      cmocka_unit_test(everybody_outlives_an_outage_longer_than_the_leases),
      cmocka_unit_test(member_alone_in_an_outage_is_put_out_and_told),
      cmocka_unit_test(group_goes_on_after_the_store_restarted_empty),
      cmocka_unit_test(newest_epoch_wins_after_the_store_restarted_empty),
      cmocka_unit_test(leases_that_all_run_out_at_once_put_nobody_out),
      cmocka_unit_test(two_views_of_one_epoch_end_in_a_newer_one),
      cmocka_unit_test(vanished_view_is_made_again),
      cmocka_unit_test(damaged_view_is_an_error_and_recovers),
      cmocka_unit_test(barrier_waits_for_all_and_names_the_missing),
      cmocka_unit_test(barrier_does_not_wait_for_the_dead),
      cmocka_unit_test(barrier_outlives_an_empty_restart),
      cmocka_unit_test(random_lives_end_in_agreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
