// Offers of ranks that want to join, and changes that take them in.
#include "group/support/machine_suite.h"

#include <inttypes.h>
#include <stdio.h>

#include "group/view.h"

enum { JOINER = 5 };

static const int32_t joiner_rank = JOINER;
static const struct group_change add_joiner = {.add = &joiner_rank, .num_add = 1};

// A group of `count`, and a member outside its view that has claimed the rank JOINER.
static struct world *found_with_joiner(uint64_t seed, uint32_t count, struct world_member **joiner) {
  struct world *w = suite_found(seed, count);
  *joiner = world_add(w, JOINER, 0);
  world_until(w, suite_all_claimed, SOON_MS, "the joiner claims its rank");
  return w;
}

static void make_ready(struct world *w, struct world_member *joiner) {
  group_machine_offer(joiner->machine, GROUP_OFFER_COMING);
  world_advance(w, 100);
  group_machine_offer(joiner->machine, GROUP_OFFER_READY);
  world_advance(w, 100);
}

static void write_offer(struct world *w, uint64_t incarnation, const char *stage) {
  char value[40];
  snprintf(value, sizeof value, "%016" PRIx64 " %s", incarnation, stage);
  world_write(w, "/g/offer/5", value);
}

static const struct group_view *view_of(struct world *w, uint32_t member) {
  return group_machine_view(world_member(w, member)->machine);
}

// Members that have to go are removed with the change: every further view costs each member a read.
static void a_change_also_removes_members_that_have_to_go(void **state) {
  (void)state;
  struct world_member *joiner;
  struct world *w = found_with_joiner(1, 4, &joiner);
  struct group_machine *first = world_member(w, 0)->machine;
  make_ready(w, joiner);
  uint64_t incarnation = world_member(w, 3)->incarnation;
  world_kill(w, world_member(w, 3));
  group_machine_suspect(first, 3, incarnation);
  group_machine_change(first, &add_joiner, NULL);
  suite_until_agreed(w, 4, SOON_MS);
  assert_int_equal(view_of(w, 0)->epoch, 2);
  assert_true(group_machine_changed(first));
  suite_end(w, true);
}

// A change adds all of its ranks or none: one of them is in the view, but has to go.
static void a_change_waits_for_a_member_that_has_to_go(void **state) {
  (void)state;
  static const int32_t both[] = {3, JOINER};
  static const struct group_change change = {.add = both, .num_add = 2};
  struct world_member *joiner;
  struct world *w = found_with_joiner(2, 4, &joiner);
  struct group_machine *first = world_member(w, 0)->machine;
  make_ready(w, joiner);
  uint64_t incarnation = world_member(w, 3)->incarnation;
  world_kill(w, world_member(w, 3));
  group_machine_suspect(first, 3, incarnation);
  group_machine_change(first, &change, NULL);
  world_advance(w, SOON_MS);
  assert_int_equal(view_of(w, 0)->epoch, 2);
  assert_int_equal(view_of(w, 0)->count, 3);
  assert_null(group_view_find(view_of(w, 0), JOINER));
  assert_false(group_machine_changed(first));
  suite_end(w, true);
}

// A rank's earlier process has offered itself and died, and its key is still there.
static void the_offer_of_an_earlier_process_is_not_taken(void **state) {
  (void)state;
  struct world_member *joiner;
  struct world *w = found_with_joiner(3, 2, &joiner);
  make_ready(w, joiner);
  world_kill(w, joiner);
  world_write(w, "/g/rank/5", NULL);
  world_add(w, JOINER, 0);
  world_until(w, suite_all_claimed, (TTL_S / 2) * 1000, "the next process claims the rank");
  assert_int_equal(world_keys(w, "/g/offer/5"), 1);
  group_machine_change(world_member(w, 0)->machine, &add_joiner, NULL);
  world_advance(w, SOON_MS);
  assert_int_equal(view_of(w, 0)->epoch, 1);
  suite_end(w, true);
}

// The wish to withdraw an offer is about one process, and about an offer that no view has taken.
static void only_the_offer_that_was_named_is_withdrawn(void **state) {
  (void)state;
  struct world_member *joiner;
  struct world *w = found_with_joiner(4, 2, &joiner);
  struct group_machine *first = world_member(w, 0)->machine;
  write_offer(w, joiner->incarnation, "coming");
  joiner->stopped = true;
  world_advance(w, 100);
  group_machine_withdraw(first, JOINER, joiner->incarnation + 1);
  world_advance(w, SOON_MS);
  assert_int_equal(world_keys(w, "/g/offer/5"), 1);
  write_offer(w, joiner->incarnation, "taken");
  group_machine_withdraw(first, JOINER, joiner->incarnation);
  world_advance(w, SOON_MS);
  assert_int_equal(world_keys(w, "/g/offer/5"), 1);
  write_offer(w, joiner->incarnation, "ready");
  world_advance(w, SOON_MS);
  assert_int_equal(world_keys(w, "/g/offer/5"), 0);
  suite_end(w, true);
}

// A view takes the joiner in while the withdrawal of its offer is on its way to the store.
static void an_offer_that_was_taken_meanwhile_is_not_withdrawn(void **state) {
  (void)state;
  uint32_t hits = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world_member *joiner;
    struct world *w = found_with_joiner(seed, 2, &joiner);
    struct world_member *first = world_member(w, 0);
    make_ready(w, joiner);
    joiner->stopped = true;
    group_machine_withdraw(first->machine, JOINER, joiner->incarnation);
    world_advance(w, 1);
    if (first->busy && !first->executed && first->request.kind == GROUP_REQUEST_TXN) {
      hits++;
      write_offer(w, joiner->incarnation, "taken");
      world_advance(w, SOON_MS);
      assert_int_equal(world_keys(w, "/g/offer/5"), 1);
    }
    suite_end(w, true);
  }
  assert_uint_in_range(hits, 5, SEEDS);
}

static void a_member_of_the_view_has_no_offer(void **state) {
  (void)state;
  struct world *w = suite_found(5, 2);
  struct group_machine *first = world_member(w, 0)->machine;
  group_machine_offer(first, GROUP_OFFER_COMING);
  world_advance(w, SOON_MS);
  assert_int_equal(world_keys(w, "/g/offer/"), 0);
  assert_int_equal(group_machine_offering(first), GROUP_OFFER_NONE);
  suite_end(w, true);
}

static enum group_offer_stage own_stage(const struct world_member *joiner) {
  uint64_t incarnation;
  bool before;
  return group_machine_offer_of(joiner->machine, JOINER, &incarnation, &before);
}

// A joiner gives its offer up and offers itself again, while the deletion of the first offer is on its way to the
// store. What others announce before the second offer is in the store, they announce without having seen an offer.
static void an_offer_that_was_given_up_counts_no_more(void **state) {
  (void)state;
  uint32_t hits = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct world_member *joiner;
    struct world *w = found_with_joiner(seed, 2, &joiner);
    group_machine_offer(joiner->machine, GROUP_OFFER_COMING);
    world_advance(w, 100);
    assert_int_equal(own_stage(joiner), GROUP_OFFER_COMING);
    group_machine_offer(joiner->machine, GROUP_OFFER_NONE);
    world_advance(w, 1);
    hits += joiner->busy && !joiner->executed && joiner->request.kind == GROUP_REQUEST_TXN;
    group_machine_offer(joiner->machine, GROUP_OFFER_COMING);
    for (int ms = 0; own_stage(joiner) != GROUP_OFFER_COMING && ms < SOON_MS; ms++)
      world_advance(w, 1);
    for (int ms = 0; ms < 100; ms++) {
      assert_int_equal(world_keys(w, "/g/offer/5"), 1);
      assert_int_equal(own_stage(joiner), GROUP_OFFER_COMING);
      world_advance(w, 1);
    }
    suite_end(w, true);
  }
  assert_uint_in_range(hits, 5, SEEDS);
}

// A view is about to show the joiner, which does not know that yet, and offers itself again.
static void an_offer_that_was_taken_is_not_made_again(void **state) {
  (void)state;
  struct world_member *joiner;
  struct world *w = found_with_joiner(6, 2, &joiner);
  make_ready(w, joiner);
  write_offer(w, joiner->incarnation, "taken");
  world_advance(w, 100);
  assert_int_equal(group_machine_offering(joiner->machine), GROUP_OFFER_NONE);
  group_machine_offer(joiner->machine, GROUP_OFFER_COMING);
  assert_int_equal(own_stage(joiner), GROUP_OFFER_TAKEN);
  world_advance(w, SOON_MS);
  assert_int_equal(own_stage(joiner), GROUP_OFFER_TAKEN);
  suite_end(w, true);
}

int suite_run_offers(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_change_also_removes_members_that_have_to_go),
      cmocka_unit_test(a_change_waits_for_a_member_that_has_to_go),
      cmocka_unit_test(the_offer_of_an_earlier_process_is_not_taken),
      cmocka_unit_test(only_the_offer_that_was_named_is_withdrawn),
      cmocka_unit_test(an_offer_that_was_taken_meanwhile_is_not_withdrawn),
      cmocka_unit_test(a_member_of_the_view_has_no_offer),
      cmocka_unit_test(an_offer_that_was_given_up_counts_no_more),
      cmocka_unit_test(an_offer_that_was_taken_is_not_made_again),
  };
  return cmocka_run_group_tests_name("offers", tests, NULL, NULL);
}
