// The longest stall of a phase: in total, and without the joiners' own work. Rank 2 joins ranks 0 and 1.
#include "cmocka_all.h"
#include <stdlib.h>
#include <string.h>

#include "run/lead/lead.h"

enum { RANKS = 3, PHASES = 2 };

struct rig {
  struct lead lead;
  struct node node;
  struct seat seats[PHASES * RANKS];
};

static void open_rig(struct rig *rig, const char *plan) {
  *rig = (struct rig){.lead.seats = rig->seats, .node.config.num_tokens = 1};
  rig->node.lead = &rig->lead;
  assert_int_equal(plan_from_text(&rig->node.plan, plan, strlen(plan)), 0);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    struct seat *seat = lead_seat(&rig->node, 1, rank);
    seat->has_record = true;
    seat->record = (struct run_record){.stall_us = -1, .median_us = 10 * (rank + 1)};
  }
  // Offers itself at 100, has its first operation, 40, fixed at 200, and is at its own work up to 260 and for 5 more.
  lead_seat(&rig->node, 1, 2)->record.joining = (struct run_joining){40, 100000, 200000, 260000, 270000, 275000};
}

static void note(struct rig *rig, int32_t rank, uint64_t op, uint64_t begin_us, uint64_t us, bool turn) {
  struct run_stall stall = {op, begin_us * 1000, us * 1000};
  run_record_note_stall(&lead_seat(&rig->node, 1, rank)->record, &stall, turn);
}

static struct results_transition fill(struct rig *rig) {
  struct results_transition change = {
      .phase = 1, .longest_stall_us = -1, .stalled_rank = -1, .membership_stall_us = -1, .membership_rank = -1};
  lead_fill_stall(&rig->node, &change);
  plan_free(rig->node.plan);
  return change;
}

static void expect(const struct results_transition *change, int us, int rank, int membership_us, int membership_rank) {
  assert_int_equal((int)change->longest_stall_us, us);
  assert_int_equal(change->stalled_rank, rank);
  assert_int_equal((int)change->membership_stall_us, membership_us);
  assert_int_equal(change->membership_rank, membership_rank);
  if (membership_rank >= 0)
    assert_int_equal((int)change->membership_median_us, 10 * (membership_rank + 1));
}

static void a_joiner_s_opening_and_input_are_its_own(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,1,2]]");
  note(&rig, 0, 7, 10, 85, false);  // while the joiner opens
  note(&rig, 0, 8, 95, 20, false);  // of this 15 after its offer
  note(&rig, 1, 40, 190, 75, true); // 60 of it for its input
  note(&rig, 1, 39, 150, 12, false);
  struct results_transition change = fill(&rig);
  expect(&change, 85, 0, 15, 0);
}

static void its_experts_are_its_own(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,1,2]]");
  note(&rig, 1, 40, 265, 20, true); // 5 of it for its experts
  struct results_transition change = fill(&rig);
  expect(&change, 20, 1, 15, 1);
}

static void other_operations_meanwhile_are_not(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,1,2]]");
  note(&rig, 0, 39, 205, 50, false);
  struct results_transition change = fill(&rig);
  expect(&change, 50, 0, 50, 0);
}

static void another_host_s_clock_says_nothing(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,1,2]]");
  strcpy(lead_seat(&rig.node, 1, 2)->record.boot, "other");
  note(&rig, 0, 40, 10, 85, true);
  struct results_transition change = fill(&rig);
  expect(&change, 85, 0, 85, 0);
}

static void where_others_leave_all_the_time_counts(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,2]]");
  note(&rig, 0, 7, 10, 85, false);
  struct results_transition change = fill(&rig);
  expect(&change, 85, 0, 85, 0);
}

static void without_a_stall_there_is_none(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,1,2]]");
  struct results_transition change = fill(&rig);
  expect(&change, -1, -1, -1, -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_joiner_s_opening_and_input_are_its_own), cmocka_unit_test(its_experts_are_its_own),
      cmocka_unit_test(other_operations_meanwhile_are_not),       cmocka_unit_test(another_host_s_clock_says_nothing),
      cmocka_unit_test(where_others_leave_all_the_time_counts),   cmocka_unit_test(without_a_stall_there_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
