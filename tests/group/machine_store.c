// Stores that fail: lost answers, outages, empty restarts, and views that vanish, differ or are garbage.
#include "group/support/machine_suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Cuts the first `count` members off from the store, or lets them reach it again.
static void set_cut(struct world *w, uint32_t count, bool cut) {
  for (uint32_t i = 0; i < count; i++)
    world_member(w, i)->cut = cut;
}

static void lost_answers_and_failed_requests_change_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = world_new(seed, 64, TTL_S);
    world_set_faults(w, 10, 20);
    for (uint32_t i = 0; i < 6; i++)
      group_machine_found(world_add(w, (int32_t)i, 6)->machine, true);
    suite_until_agreed(w, 6, 20000);
    uint64_t incarnation = world_member(w, 2)->incarnation;
    world_kill(w, world_member(w, 2));
    group_machine_suspect(world_member(w, 4)->machine, 2, incarnation);
    suite_until_agreed(w, 5, 20000);
    group_machine_remove(world_member(w, 5)->machine, 5);
    suite_until_agreed(w, 4, 20000);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, true);
  }
}

static void store_lost_and_back_is_reported_once_each(void **state) {
  (void)state;
  struct world *w = suite_found(5, 4);
  set_cut(w, 4, true);
  world_advance(w, 4000);
  group_machine_remove(world_member(w, 0)->machine, 3);
  world_advance(w, 1000);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  for (uint32_t i = 0; i < 4; i++) {
    assert_non_null(group_machine_lost(world_member(w, i)->machine));
    world_member(w, i)->cut = false;
  }
  suite_until_agreed(w, 3, 5000);
  world_advance(w, 2000);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(world_member(w, i)->num_lost, 1);
    assert_int_equal(world_member(w, i)->num_back, 1);
    assert_null(group_machine_lost(world_member(w, i)->machine));
  }
  suite_end(w, true);
}

static void everybody_outlives_an_outage_longer_than_the_leases(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 6);
    set_cut(w, 6, true);
    world_advance(w, 5 * TTL_S * 1000); // every lease runs out, the view's too
    assert_int_equal(world_keys(w, "/g/"), 0);
    for (uint32_t i = 0; i < 6; i++) {
      world_member(w, i)->cut = false;
      world_advance(w, 300);
    }
    suite_until_agreed(w, 6, 5000);
    world_advance(w, 3 * TTL_S * 1000);
    suite_until_agreed(w, 6, 0);
    assert_int_equal(suite_fenced(w), 0);
    assert_int_equal(world_keys(w, "/g/rank/"), 6);
    assert_int_equal(world_keys(w, "/g/view"), 1);
    suite_end(w, true);
  }
}

static void a_member_alone_in_an_outage_is_removed_and_notified(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    struct world_member *alone = world_member(w, 0);
    if (seed % 2)
      alone->cut = true;
    else
      alone->stopped = true;
    world_advance(w, 3 * TTL_S * 1000);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->count, 3);
    alone->cut = alone->stopped = false;
    world_until(w, suite_first_is_fenced, 5000, "the one that was away is fenced");
    world_advance(w, 100);
    assert_int_equal(world_keys(w, "/g/rank/"), 3);
    suite_end(w, true);
  }
}

static void group_goes_on_after_the_store_restarted_empty(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 6);
    group_machine_remove(world_member(w, 5)->machine, 5);
    suite_until_agreed(w, 5, SOON_MS);
    world_restart_empty(w);
    world_advance(w, 3 * TTL_S * 1000);
    suite_until_agreed(w, 5, 0);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 2);
    assert_int_equal(world_keys(w, "/g/rank/"), 5);
    assert_int_equal(world_keys(w, "/g/view"), 1);
    assert_int_equal(suite_fenced(w), 0);
    group_machine_remove(world_member(w, 1)->machine, 4);
    suite_until_agreed(w, 4, SOON_MS);
    suite_end(w, false);
  }
}

static void newest_epoch_wins_after_the_store_restarted_empty(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 5);
    for (uint32_t i = 0; i < 4; i++)
      world_member(w, i)->cut = i < 3; // they do not hear of view 2
    group_machine_remove(world_member(w, 4)->machine, 4);
    world_advance(w, 100);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 2);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
    world_restart_empty(w);
    world_member(w, 3)->cut = true; // who knows best comes last
    set_cut(w, 3, false);
    world_advance(w, 1500);
    world_member(w, 3)->cut = false;
    suite_until_agreed(w, 4, 5000);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 2);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, false);
  }
}

// It finds no view; then there is one, and the claim of one of its members is not back yet.
static void the_first_at_a_store_that_restarted_empty_removes_nobody(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    set_cut(w, 4, true);
    world_restart_empty(w);
    world_add(w, 4, 0);
    world_advance(w, 500);
    set_cut(w, 3, false);
    world_advance(w, 1500);
    assert_int_equal(world_keys(w, "/g/view"), 1);
    world_member(w, 3)->cut = false;
    world_advance(w, 3 * TTL_S * 1000);
    assert_int_equal(suite_fenced(w), 0);
    assert_int_equal(world_keys(w, "/g/rank/"), 5);
    assert_int_equal(group_machine_view(world_member(w, 4)->machine)->count, 4);
    suite_end(w, false);
  }
}

// It finds no view and no claim, but knows that there are members, whose ranks are not free.
static void a_joiner_at_a_store_that_restarted_empty_takes_no_other_rank(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    set_cut(w, 4, true);
    world_restart_empty(w);
    world_add_joiner(w, -1);
    world_advance(w, 1000);
    set_cut(w, 4, false);
    world_advance(w, 3 * TTL_S * 1000);
    assert_int_equal(suite_fenced(w), 0);
    assert_int_equal(group_machine_rank(world_member(w, 4)->machine), 4);
    assert_int_equal(world_keys(w, "/g/rank/"), 5);
    suite_end(w, false);
  }
}

static void leases_that_all_run_out_at_once_put_nobody_out(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 6);
    world_expire_leases(w);
    world_advance(w, 3 * TTL_S * 1000);
    suite_until_agreed(w, 6, 0);
    assert_int_equal(suite_fenced(w), 0);
    assert_int_equal(world_keys(w, "/g/rank/"), 6);
    suite_end(w, true);
  }
}

// Members 0 to 2 never heard of view 2, restore view 1 and make a view 2 of their own: view 3 settles it.
static void two_views_of_one_epoch_end_in_a_newer_one(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 5);
    world_expect_fork(w, 2);
    set_cut(w, 3, true);
    group_machine_remove(world_member(w, 4)->machine, 4);
    world_advance(w, 100);
    world_restart_empty(w);
    world_member(w, 3)->cut = true;
    set_cut(w, 3, false);
    world_advance(w, 1500);
    group_machine_remove(world_member(w, 0)->machine, 0);
    world_advance(w, 500);
    assert_int_equal(group_machine_view(world_member(w, 1)->machine)->epoch, 2);
    world_member(w, 3)->cut = false;
    world_advance(w, 5 * TTL_S * 1000);
    suite_until_agreed(w, 3, 0); // 1, 2 and 3
    assert_true(group_machine_view(world_member(w, 1)->machine)->epoch >= 3);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, false);
  }
}

// Member 3 and rank 5, who died of it, knew of a view 2 that the store has lost. The others made another view 2, with
// rank 6, and nothing in it calls for a change; yet member 3 knows it otherwise, and so there has to be a view 3.
static void a_second_memory_of_an_epoch_is_settled_though_nothing_else_changes(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 5);
    world_expect_fork(w, 2);
    for (uint32_t i = 0; i < 5; i++)
      world_member(w, i)->cut = i != 3;
    struct world_member *lost = world_add(w, 5, 0);
    world_until(w, suite_all_claimed, SOON_MS, "rank 5 claims");
    group_machine_join(lost->machine, 1);
    world_advance(w, 100);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 2);
    world_kill(w, lost);
    world_restart_empty(w);
    for (uint32_t i = 0; i < 5; i++)
      world_member(w, i)->cut = i == 3;
    world_advance(w, 1500);
    struct world_member *joiner = world_add(w, 6, 0);
    world_until(w, suite_all_claimed, 2 * TTL_S * 1000, "rank 6 claims");
    group_machine_join(joiner->machine, 1);
    world_advance(w, 100);
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 2);
    world_member(w, 3)->cut = false;
    suite_until_agreed(w, 6, 5000);
    assert_int_equal(group_machine_view(world_member(w, 3)->machine)->epoch, 3);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, false);
  }
}

// Only one member's claim is lost while nobody reaches the store, or while everybody's watch has to begin anew; it
// comes back for it later than the others come back.
static void a_claim_that_an_outage_took_may_come_back(void **state) {
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world *w = suite_found(seed, 4);
    struct world_member *unlucky = world_member(w, 1);
    bool reset = *state != NULL;
    world_advance(w, 100);
    unlucky->stopped = true;
    for (uint32_t i = 0; i < 4; i++)
      world_member(w, i)->cut = !reset;
    world_advance(w, reset ? 0 : 3000);
    world_write(w, "/g/rank/1", NULL);
    for (uint32_t i = 0; i < 4; i++) {
      world_member(w, i)->reset = reset && i != 1;
      world_member(w, i)->cut = false;
    }
    world_advance(w, 2000);
    unlucky->stopped = false;
    world_advance(w, 3 * TTL_S * 1000);
    suite_until_agreed(w, 4, 0);
    assert_int_equal(group_machine_view(unlucky->machine)->epoch, 1);
    assert_int_equal(suite_fenced(w), 0);
    suite_end(w, true);
  }
}

// A newcomer waits for a rank when the store loses everything, the view too. Whoever had the rank has a lease's time.
static void a_rank_that_waits_gains_nothing_from_a_lost_view(void **state) {
  struct world *w = suite_found(14, 3);
  bool reset = *state != NULL;
  struct world_member *newcomer = world_add(w, 1, 0);
  world_advance(w, 100);
  for (uint32_t i = 0; i < 3; i++)
    world_member(w, i)->stopped = true;
  if (reset) {
    world_restart_empty(w);
  } else {
    newcomer->cut = true;
    world_advance(w, 3 * TTL_S * 1000); // every lease runs out, the view's too
    newcomer->cut = false;
  }
  world_advance(w, TTL_S * 800);
  assert_int_equal(group_machine_standing(newcomer->machine), GROUP_OPENING);
  world_until(w, suite_all_claimed, TTL_S * 200 + 6000, "the newcomer's claim when that time is over");
  suite_end(w, false);
}

// Nobody but the newcomer runs, and it does not find the claim of a member of the view: perhaps an outage took it,
// which the newcomer did not see, and its owner is about to claim again.
static void a_newcomer_leaves_a_member_the_time_of_a_lease_to_claim_again(void **state) {
  (void)state;
  struct world *w = suite_found(13, 3);
  world_advance(w, 100);
  for (uint32_t i = 0; i < 3; i++)
    world_member(w, i)->stopped = true;
  world_write(w, "/g/rank/1", NULL);
  struct world_member *newcomer = world_add(w, 1, 0);
  world_advance(w, (TTL_S / 2) * 1000);
  assert_int_equal(group_machine_standing(newcomer->machine), GROUP_OPENING);
  assert_int_equal(world_keys(w, "/g/rank/1"), 0);
  world_until(w, suite_all_claimed, (TTL_S / 2 + 1) * 1000, "the newcomer's claim when that time is over");
  suite_end(w, true);
}

static void vanished_view_is_made_again(void **state) {
  (void)state;
  struct world *w = suite_found(6, 5);
  world_write(w, "/g/view", NULL);
  world_advance(w, 1000);
  suite_until_agreed(w, 5, 0);
  assert_int_equal(world_keys(w, "/g/view"), 1);
  assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
  assert_int_equal(world_leases(w), 5 + 2); // the first view's lease is still running
  world_advance(w, 3 * TTL_S * 1000);
  assert_int_equal(world_leases(w), 5 + 1);
  suite_end(w, true);
}

static void damaged_view_is_an_error_and_recovers(void **state) {
  (void)state;
  struct world *w = suite_found(7, 3);
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
  suite_end(w, true);
}

// Values of which each part can be read, but not the whole; and a rank in another spelling, which is no rank's key.
static void a_view_with_a_rank_twice_or_out_of_order_is_damaged(void **state) {
  (void)state;
  static const char *const values[] = {
      "{\"epoch\":2,\"members\":[[1,\"0000000000000001\"],[1,\"0000000000000002\"]]}",
      "{\"epoch\":2,\"members\":[[2,\"0000000000000001\"],[1,\"0000000000000002\"]]}",
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct world *w = suite_found(22, 3);
    uint64_t incarnation;
    const char *address;
    world_write(w, "/g/view", values[i]);
    world_write(w, "/g/rank/07", "{\"incarnation\":\"0000000000000001\",\"address\":\"\"}");
    world_advance(w, 100);
    assert_non_null(group_machine_damage(world_member(w, 0)->machine));
    assert_int_equal(group_machine_view(world_member(w, 0)->machine)->epoch, 1);
    assert_false(group_machine_claim(world_member(w, 0)->machine, 7, &incarnation, &address));
    suite_end(w, true);
  }
}

// To a watch that goes on, a new store that has reached the old one's revision looks like the old one: the lease shows
// the difference, and not only when it has to be renewed.
static void a_watch_that_is_back_has_the_lease_looked_at(void **state) {
  (void)state;
  struct world *w = suite_found(23, 2);
  struct world_member *first = world_member(w, 0);
  world_advance(w, 100);
  uint32_t before = first->num_requests;
  group_machine_watch(first->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_LOST});
  group_machine_watch(first->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESUMED});
  world_advance(w, 100);
  assert_uint_in_range(first->num_requests, before + 1, UINT32_MAX);
  suite_end(w, true);
}

static struct group_request next_request(struct group_machine *m, uint64_t now_ns) {
  struct group_request request;
  uint64_t wake_ns;
  if (!group_machine_request(m, now_ns, &request, &wake_ns))
    fail_msg("there is no request");
  return request;
}

// A lease that has run out shows by the claim's end first, and by the answer to a keepalive after it: there is nothing
// more to wait for, and the claim has to be back before the others' grace ends.
static void an_expired_lease_is_replaced_at_once(void **state) {
  (void)state;
  const struct group_machine_options options = {
      .prefix = "/g/", .rank = 0, .capacity = 4, .lease_ttl_s = TTL_S, .address = "here", .incarnation = 7, .seed = 1};
  struct group_machine *m;
  assert_int_equal(group_machine_new(&m, &options), 0);
  uint64_t now = 1000;
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_READ);
  group_machine_answer(m, now, &(struct group_answer){.list = &(struct weft_store_list){.revision = 1}});
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_WATCH);
  group_machine_answer(m, now, &(struct group_answer){0});
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_GRANT);
  group_machine_answer(m, now, &(struct group_answer){.lease = 5});
  now += (uint64_t)2 * TTL_S * 1000000000; // until then it waits for a view that the store may have lost
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_KEEPALIVE);
  group_machine_answer(m, now, &(struct group_answer){0});
  struct group_request claim = next_request(m, now);
  assert_int_equal(claim.kind, GROUP_REQUEST_TXN);
  struct weft_store_kv kv = {.key = strdup(claim.txn->success[0].key),
                             .value = strdup(claim.txn->success[0].value),
                             .value_len = claim.txn->success[0].value_len,
                             .create_revision = 2,
                             .mod_revision = 2,
                             .lease = 5};
  group_machine_answer(m, now, &(struct group_answer){.succeeded = true, .revision = 2});
  group_machine_watch(m, now, &(struct weft_store_event){.kind = WEFT_STORE_EVENT_PUT, .revision = 2, .kv = &kv});
  now += (uint64_t)TTL_S * 1000000000;
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_KEEPALIVE);
  kv.mod_revision = 3;
  group_machine_watch(m, now, &(struct weft_store_event){.kind = WEFT_STORE_EVENT_DELETE, .revision = 3, .kv = &kv});
  group_machine_answer(m, now, &(struct group_answer){.err = WEFT_ERR_NOT_FOUND});
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_GRANT);
  group_machine_answer(m, now, &(struct group_answer){.lease = 6});
  assert_int_equal(next_request(m, now).kind, GROUP_REQUEST_TXN);
  free((char *)kv.key);
  free((char *)kv.value);
  group_machine_free(m);
}

// A request has failed while the watch went on: the next one is made soon, and shows that the store is back.
static void a_store_that_failed_once_is_soon_known_to_be_back(void **state) {
  (void)state;
  struct world *w = suite_found(19, 2);
  world_set_faults(w, 100, 0);
  world_advance(w, (TTL_S / 3 + 1) * 1000); // until leases were to be renewed
  world_set_faults(w, 0, 0);
  world_advance(w, 2 * SOON_MS);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(world_member(w, i)->num_lost, 1);
    assert_int_equal(world_member(w, i)->num_back, 1);
  }
  suite_end(w, true);
}

// The transaction for a ticket was given up, and came to the store when its sender had got its rank: the ticket would
// hold a place in the queue.
static void a_ticket_that_comes_late_is_removed(void **state) {
  (void)state;
  struct world *w = suite_found(20, 2);
  char key[40];
  snprintf(key, sizeof key, "/g/ticket/%016" PRIx64, world_member(w, 1)->incarnation);
  world_write(w, key, "");
  world_advance(w, SOON_MS);
  assert_int_equal(world_keys(w, "/g/ticket/"), 0);
  suite_end(w, true);
}

// An offer was withdrawn while the watch was lost.
static void an_offer_that_a_read_lacks_is_gone(void **state) {
  (void)state;
  struct world *w = suite_found(21, 2);
  struct world_member *first = world_member(w, 0), *joiner = world_add(w, 5, 0);
  uint64_t incarnation;
  bool before;
  world_until(w, suite_all_claimed, SOON_MS, "joiner claims");
  group_machine_offer(joiner->machine, GROUP_OFFER_COMING);
  world_advance(w, 100);
  assert_int_equal(group_machine_offer_of(first->machine, 5, &incarnation, &before), GROUP_OFFER_COMING);
  first->watching = false;
  world_write(w, "/g/offer/5", NULL);
  group_machine_watch(first->machine, world_now(w), &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESET});
  world_advance(w, 100);
  assert_int_equal(group_machine_offer_of(first->machine, 5, &incarnation, &before), GROUP_OFFER_NONE);
  suite_end(w, true);
}

int suite_run_store(void) {
  static char on[] = "the watches are reset";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lost_answers_and_failed_requests_change_nothing),
      cmocka_unit_test(store_lost_and_back_is_reported_once_each),
      cmocka_unit_test(an_expired_lease_is_replaced_at_once),
      cmocka_unit_test(everybody_outlives_an_outage_longer_than_the_leases),
      cmocka_unit_test(a_member_alone_in_an_outage_is_removed_and_notified),
      cmocka_unit_test(group_goes_on_after_the_store_restarted_empty),
      cmocka_unit_test(newest_epoch_wins_after_the_store_restarted_empty),
      cmocka_unit_test(the_first_at_a_store_that_restarted_empty_removes_nobody),
      cmocka_unit_test(a_joiner_at_a_store_that_restarted_empty_takes_no_other_rank),
      cmocka_unit_test(leases_that_all_run_out_at_once_put_nobody_out),
      cmocka_unit_test(two_views_of_one_epoch_end_in_a_newer_one),
      cmocka_unit_test(a_second_memory_of_an_epoch_is_settled_though_nothing_else_changes),
      {"a_claim_that_an_outage_took_may_come_back", a_claim_that_an_outage_took_may_come_back, NULL, NULL, NULL},
      {"a_claim_that_was_lost_before_a_reset_may_come_back", a_claim_that_an_outage_took_may_come_back, NULL, NULL, on},
      {"a_rank_that_waits_gains_nothing_from_an_outage", a_rank_that_waits_gains_nothing_from_a_lost_view, NULL, NULL,
       NULL},
      {"a_rank_that_waits_gains_nothing_from_a_restart", a_rank_that_waits_gains_nothing_from_a_lost_view, NULL, NULL,
       on},
      cmocka_unit_test(a_newcomer_leaves_a_member_the_time_of_a_lease_to_claim_again),
      cmocka_unit_test(vanished_view_is_made_again),
      cmocka_unit_test(damaged_view_is_an_error_and_recovers),
      cmocka_unit_test(a_view_with_a_rank_twice_or_out_of_order_is_damaged),
      cmocka_unit_test(a_watch_that_is_back_has_the_lease_looked_at),
      cmocka_unit_test(a_store_that_failed_once_is_soon_known_to_be_back),
      cmocka_unit_test(a_ticket_that_comes_late_is_removed),
      cmocka_unit_test(an_offer_that_a_read_lacks_is_gone),
  };
  return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
