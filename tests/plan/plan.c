// Plans: which are read, which are refused with which message, and what a run of the plan needs.
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "cmocka_all.h"
#include "plan/plan.h"

static struct plan *parse(const char *text) {
  struct plan *plan = NULL;
  if (plan_from_text(&plan, text, strlen(text)))
    fail_msg("%s: %s", text, weft_last_error());
  return plan;
}

static void assert_ranks(const struct plan_ranks *ranks, uint32_t count, const int32_t *expected) {
  assert_int_equal(ranks->count, count);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(ranks->rank[i], expected[i]);
}
#define ASSERT_RANKS(ranks, ...)                                                                                       \
  assert_ranks(&(ranks), sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t), (int32_t[]){__VA_ARGS__})

static const char fault_rejoin[] = "[[0,1,2,3],[0,1,2,3,4,5,6,7],[0,1,2,3,4,-6,7],[7,6,5,4,3,2,1,0]]";

static void phases_hold_what_changes(void **state) {
  (void)state;
  struct plan *plan = parse(fault_rejoin);
  assert_int_equal(plan->num_phases, 4);
  assert_int_equal(plan->capacity, 8);
  assert_int_equal(plan->num_processes, 8);
  assert_int_equal(plan->num_launches, 10);
  ASSERT_RANKS(plan->ranks, 0, 1, 2, 3, 4, 5, 6, 7);
  ASSERT_RANKS(plan->phases[0].joins, 0, 1, 2, 3);
  ASSERT_RANKS(plan->phases[1].joins, 4, 5, 6, 7);
  assert_int_equal(plan->phases[1].rejoins.count, 0);
  ASSERT_RANKS(plan->phases[2].live, 0, 1, 2, 3, 4, 7);
  ASSERT_RANKS(plan->phases[2].leaves, 5);
  ASSERT_RANKS(plan->phases[2].kills, 6);
  assert_int_equal(plan->phases[2].joins.count, 0);
  assert_int_equal(plan->phases[2].num_processes, 7);
  ASSERT_RANKS(plan->phases[3].live, 0, 1, 2, 3, 4, 5, 6, 7);
  ASSERT_RANKS(plan->phases[3].joins, 5, 6);
  ASSERT_RANKS(plan->phases[3].rejoins, 5, 6);
  assert_int_equal(plan->phases[3].leaves.count, 0);
  plan_free(plan);
}

static void each_rank_has_one_role_in_a_phase(void **state) {
  (void)state;
  struct plan *plan = parse(fault_rejoin);
  assert_int_equal(plan_rank_role(plan, 0, 0), PLAN_JOINS);
  assert_int_equal(plan_rank_role(plan, 0, 4), PLAN_NOT_MEMBER);
  assert_int_equal(plan_rank_role(plan, 1, 0), PLAN_MEMBER);
  assert_int_equal(plan_rank_role(plan, 1, 4), PLAN_JOINS);
  assert_int_equal(plan_rank_role(plan, 2, 5), PLAN_LEAVES);
  assert_int_equal(plan_rank_role(plan, 2, 6), PLAN_KILLED);
  assert_int_equal(plan_rank_role(plan, 3, 6), PLAN_REJOINS);
  assert_int_equal(plan_rank_role(plan, 3, 99), PLAN_NOT_MEMBER);
  assert_int_equal(plan_rank_role(plan, 3, -1), PLAN_NOT_MEMBER);
  plan_free(plan);
}

static void a_leaver_is_not_active_and_a_kill_ends_membership(void **state) {
  (void)state;
  struct plan *plan = parse("[[5, 1000], [5], [5], [1000, 5], [5, -1000], [5]]");
  ASSERT_RANKS(plan->phases[1].leaves, 1000);
  assert_int_equal(plan->phases[2].leaves.count, 0);
  ASSERT_RANKS(plan->phases[3].rejoins, 1000);
  ASSERT_RANKS(plan->phases[4].kills, 1000);
  assert_int_equal(plan->phases[5].leaves.count, 0);
  assert_int_equal(plan->capacity, 1001);
  assert_int_equal(plan->num_processes, 2);
  plan_free(plan);
}

static void the_highest_rank_is_accepted(void **state) {
  (void)state;
  struct plan *plan = parse("[[4095, 0], [0, -4095]]");
  assert_int_equal(plan->capacity, 4096);
  plan_free(plan);
}

static void json_round_trip_gives_the_same_plan(void **state) {
  (void)state;
  struct plan *plan = parse(fault_rejoin);
  json_t *json = plan_to_json(plan);
  char *text = json_dumps(json, JSON_COMPACT);
  assert_string_equal(text, "[[0,1,2,3],[0,1,2,3,4,5,6,7],[0,1,2,3,4,-6,7],[0,1,2,3,4,5,6,7]]");
  struct plan *again = parse(text);
  json_t *json_again = plan_to_json(again);
  assert_true(json_equal(json, json_again));
  json_decref(json_again);
  plan_free(again);
  free(text);
  json_decref(json);
  plan_free(plan);
}

// What is wrong with a text, and the words that have to say so: where, what, and what would be right.
struct malformed {
  const char *text;
  int err;
  const char *words[4];
};

static const struct malformed malformed[] = {
    {"", WEFT_ERR_INVALID, {"not JSON", "line 1"}},
    {"[[0, 1],\n [0, 1, }]", WEFT_ERR_INVALID, {"not JSON", "line 2, column 9"}},
    {"[[0]] x", WEFT_ERR_INVALID, {"not JSON", "line 1"}},
    {"[[01]]", WEFT_ERR_INVALID, {"not JSON"}},
    {"[[18446744073709551616]]", WEFT_ERR_INVALID, {"not JSON", "too big integer"}},
    {"{\"phases\": [[0]]}", WEFT_ERR_INVALID, {"the plan is an object", "list of phases"}},
    {"7", WEFT_ERR_INVALID, {"the plan is an integer", "list of phases"}},
    {"[]", WEFT_ERR_INVALID, {"the plan is empty", "at least one phase"}},
    {"[0, 1]", WEFT_ERR_INVALID, {"phase 0 is an integer", "list of ranks"}},
    {"[[0], null]", WEFT_ERR_INVALID, {"phase 1 is null", "list of ranks"}},
    {"[[0], []]", WEFT_ERR_INVALID, {"phase 1 is empty", "at least one live rank"}},
    {"[[0, true]]", WEFT_ERR_INVALID, {"phase 0, position 1", "true is not a rank", "integers"}},
    {"[[0], [false]]", WEFT_ERR_INVALID, {"phase 1, position 0", "false is not a rank"}},
    {"[[0, 1.0]]", WEFT_ERR_INVALID, {"phase 0, position 1", "fraction"}},
    {"[[0, 1e2]]", WEFT_ERR_INVALID, {"phase 0, position 1", "exponent"}},
    {"[[\"0\"]]", WEFT_ERR_INVALID, {"phase 0, position 0", "a string is not a rank"}},
    {"[[0, null]]", WEFT_ERR_INVALID, {"phase 0, position 1", "null is not a rank"}},
    {"[[0, [1]]]", WEFT_ERR_INVALID, {"phase 0, position 1", "a list is not a rank"}},
    {"[[0, 1, 2, 1]]", WEFT_ERR_INVALID, {"phase 0, position 3", "rank 1 is at position 1 already", "once"}},
    {"[[0, 1], [0, 1, -1]]", WEFT_ERR_INVALID, {"phase 1, position 2", "rank 1 is at position 1", "other sign"}},
    {"[[0, 1], [0, -1, 1]]", WEFT_ERR_INVALID, {"phase 1, position 2", "rank 1 is at position 1", "other sign"}},
    {"[[0, 1], [0, -1, -1]]", WEFT_ERR_INVALID, {"phase 1, position 2", "rank 1 is at position 1 already: name"}},
    {"[[0, -1]]", WEFT_ERR_INVALID, {"phase 0, position 1", "nothing runs before phase 0", "start with 1"}},
    {"[[0], [0, -1]]", WEFT_ERR_INVALID, {"phase 1, position 1", "rank 1, which is not active in phase 0"}},
    {"[[0, 1], [0], [0, -1]]", WEFT_ERR_INVALID, {"phase 2, position 1", "not active in phase 1"}},
    {"[[0, 1], [0, -1], [0, -1]]", WEFT_ERR_INVALID, {"phase 2, position 1", "not active in phase 1"}},
    {"[[0, 1], [1, -0]]", WEFT_ERR_INVALID, {"phase 1, position 1", "rank 0 cannot be killed", "want 0"}},
    {"[[1, 0], [-1]]", WEFT_ERR_INVALID, {"phase 1 kills every rank", "at least one live rank"}},
    {"[[0, 4096]]", WEFT_ERR_INVALID, {"phase 0, position 1", "4096 is out of range", "4095"}},
    {"[[0], [0, -4096]]", WEFT_ERR_INVALID, {"phase 1, position 1", "-4096 is out of range", "4095"}},
    {"[[9223372036854775807]]", WEFT_ERR_INVALID, {"phase 0, position 0", "out of range"}},
    {"[[-9223372036854775808]]", WEFT_ERR_INVALID, {"phase 0, position 0", "out of range"}},
};

static void each_malformed_plan_is_refused_in_clear_words(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    const struct malformed *test = &malformed[i];
    struct plan *plan = NULL;
    int err = plan_from_text(&plan, test->text, strlen(test->text));
    if (err != test->err || plan)
      fail_msg("%s: gave %s", test->text, weft_err_name(err));
    for (size_t k = 0; k < 4 && test->words[k]; k++)
      if (!strstr(weft_last_error(), test->words[k]))
        fail_msg("%s: \"%s\" is not in \"%s\"", test->text, test->words[k], weft_last_error());
  }
}

static void a_nul_byte_is_not_the_end_of_a_plan(void **state) {
  (void)state;
  struct plan *plan = NULL;
  assert_int_equal(plan_from_text(&plan, "[[0]]\0[[1]]", 11), WEFT_ERR_INVALID);
}

static void size_and_phases_are_bounded(void **state) {
  (void)state;
  struct plan *plan = NULL;
  char *text = malloc(PLAN_MAX_BYTES + 1);
  assert_non_null(text);
  memset(text, ' ', PLAN_MAX_BYTES + 1);
  memcpy(text, "[[0]]", 5);
  assert_int_equal(plan_from_text(&plan, text, PLAN_MAX_BYTES + 1), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "1048576"));
  assert_int_equal(plan_from_text(&plan, text, PLAN_MAX_BYTES), 0);
  plan_free(plan);
  size_t size = 0;
  text[size++] = '[';
  for (int i = 0; i <= PLAN_MAX_PHASES; i++, size += 4)
    memcpy(text + size, "[0],", 4);
  text[size - 1] = ']';
  assert_int_equal(plan_from_text(&plan, text, size), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "4097 phases: a plan may have 4096"));
  free(text);
}

static void slots_are_checked_against_every_phase(void **state) {
  (void)state;
  struct plan *plan = parse("[[0,1,2,3],[0,1,2,3,4,5,6,7],[0,1,2,3,4,5,6,7,8,9]]");
  assert_int_equal(plan_check_slots(plan, 10), 0);
  assert_int_equal(plan_check_slots(plan, 4), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "phase 1 has 8 live ranks, but there are 4 process slots: "));
  assert_non_null(strstr(weft_last_error(), "needs 10"));
  plan_free(plan);
}

static void a_killed_rank_needs_a_slot_and_a_leaver_does_not(void **state) {
  (void)state;
  struct plan *plan = parse("[[0,1],[0,-1,2],[0,3]]");
  assert_int_equal(plan->phases[1].num_processes, 3);
  assert_int_equal(plan->phases[2].num_processes, 2);
  assert_int_equal(plan_check_slots(plan, 2), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "phase 1 has 3 live ranks"));
  plan_free(plan);
}

static void one_stays_until_those_who_replace_all_have_come(void **state) {
  (void)state;
  struct plan *plan = parse("[[0,1],[2],[3,4],[-3,5,6]]");
  assert_int_equal(plan->phases[1].num_processes, 2);
  assert_int_equal(plan->phases[2].num_processes, 3);
  assert_int_equal(plan->phases[3].num_processes, 3);
  assert_int_equal(plan_check_slots(plan, 2), WEFT_ERR_INVALID);
  assert_non_null(
      strstr(weft_last_error(),
             "phase 2 has 2 live ranks, all of them new, and a rank of the previous phase has to wait for them, "
             "but there are 2 process slots: the plan needs 3"));
  plan_free(plan);
}

static void classic_plans_load(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t phases, processes, launches;
  } plans[] = {{"no_expansion", 1, 4, 4},
               {"single_expansion", 2, 8, 8},
               {"double_expansion", 3, 8, 8},
               {"expansion_contraction", 3, 8, 8},
               {"expansion_fault_rejoin", 4, 8, 10}};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json", getenv("WEFT_PLANS"), plans[i].name);
    struct plan *plan = NULL;
    if (plan_load(&plan, path))
      fail_msg("%s", weft_last_error());
    assert_int_equal(plan->num_phases, plans[i].phases);
    assert_int_equal(plan->num_processes, plans[i].processes);
    assert_int_equal(plan->num_launches, plans[i].launches);
    plan_free(plan);
  }
}

static void a_file_that_cannot_be_read_is_named(void **state) {
  (void)state;
  struct plan *plan = NULL;
  assert_int_equal(plan_load(&plan, "/nowhere/plan.json"), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "/nowhere/plan.json"));
  assert_non_null(strstr(weft_last_error(), "No such file"));
  assert_int_equal(plan_load(&plan, "/"), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "plan /: "));
  assert_int_equal(plan_load(&plan, "/dev/zero"), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "plan /dev/zero: "));
  assert_int_equal(plan_load(&plan, "/dev/null"), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "plan /dev/null: not JSON"));
}

static char *describe(const char *text, bool json) {
  struct plan *plan = parse(text);
  char *out = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&out, &size);
  assert_non_null(file);
  assert_int_equal(plan_describe(file, plan, json, 0), 0);
  fclose(file);
  plan_free(plan);
  return out;
}

static void description_says_what_each_phase_does(void **state) {
  (void)state;
  char *text = describe(fault_rejoin, false);
  assert_string_equal(text, "phase  processes  live   joins  rejoins  leaves  killed\n"
                            "    0          4  0-3    0-3\n"
                            "    1          8  0-7    4-7\n"
                            "    2          7  0-4 7                  5       6\n"
                            "    3          8  0-7           5 6\n"
                            "\n"
                            "4 phases, 8 ranks, capacity 8. Needs 8 process slots at once and 10 launches (2 rejoins); "
                            "1 leave, 1 kill.\n");
  free(text);
}

static void description_leaves_out_what_does_not_happen(void **state) {
  (void)state;
  char *text = describe("[[0], [0, 1, 2, 5]]", false);
  assert_string_equal(text, "phase  processes  live   joins\n"
                            "    0          1  0      0\n"
                            "    1          4  0-2 5  1 2 5\n"
                            "\n"
                            "2 phases, 4 ranks, capacity 6. Needs 4 process slots at once and 4 launches; 0 leaves, "
                            "0 kills.\n");
  free(text);
}

static void description_in_json_has_the_same_facts(void **state) {
  (void)state;
  char *text = describe(fault_rejoin, true);
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  json_t *phase = json_array_get(json_object_get(json, "phases"), 2);
  assert_int_equal(json_integer_value(json_object_get(phase, "processes")), 7);
  assert_int_equal(json_integer_value(json_array_get(json_object_get(phase, "killed"), 0)), 6);
  assert_int_equal(json_integer_value(json_array_get(json_object_get(phase, "leaves"), 0)), 5);
  assert_int_equal(json_integer_value(json_object_get(json, "launches")), 10);
  assert_int_equal(json_array_size(json_object_get(json, "plan")), 4);
  json_decref(json);
  free(text);
}

static void a_description_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  struct plan *plan = parse("[[0]]");
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_int_equal(plan_describe(full, plan, false, 0), WEFT_ERR_LIMIT);
  fclose(full);
  plan_free(plan);
}

static void a_loss_ends_in_the_next_phase_that_names_the_rank(void **state) {
  (void)state;
  struct plan *plan = parse("[[0,1,2,3],[0,1,2,3],[0,2,-3],[0,1,2]]");
  plan_lose(plan, 0, 2);
  plan_lose(plan, 0, 1);
  ASSERT_RANKS(plan->phases[0].live, 0, 3);
  ASSERT_RANKS(plan->phases[1].joins, 1, 2);
  ASSERT_RANKS(plan->phases[1].rejoins, 1, 2);
  ASSERT_RANKS(plan->phases[1].live, 0, 1, 2, 3);
  plan_lose(plan, 1, 3); // whom the next phase kills
  plan_lose(plan, 1, 1); // who leaves with the next phase
  plan_lose(plan, 1, 1); // twice is once
  ASSERT_RANKS(plan->phases[1].live, 0, 2);
  assert_int_equal(plan->phases[2].kills.count, 0);
  assert_int_equal(plan->phases[2].leaves.count, 0);
  assert_int_equal(plan->phases[2].joins.count, 0);
  assert_int_equal(plan->phases[2].num_processes, 2);
  plan_lose(plan, 3, 0); // no phase comes after it
  plan_lose(plan, 3, 9);
  plan_lose(plan, 4, 0);
  ASSERT_RANKS(plan->phases[3].live, 1, 2);
  plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(phases_hold_what_changes),
      cmocka_unit_test(each_rank_has_one_role_in_a_phase),
      cmocka_unit_test(a_leaver_is_not_active_and_a_kill_ends_membership),
      cmocka_unit_test(the_highest_rank_is_accepted),
      cmocka_unit_test(json_round_trip_gives_the_same_plan),
      cmocka_unit_test(each_malformed_plan_is_refused_in_clear_words),
      cmocka_unit_test(a_nul_byte_is_not_the_end_of_a_plan),
      cmocka_unit_test(size_and_phases_are_bounded),
      cmocka_unit_test(slots_are_checked_against_every_phase),
      cmocka_unit_test(a_killed_rank_needs_a_slot_and_a_leaver_does_not),
      cmocka_unit_test(one_stays_until_those_who_replace_all_have_come),
      cmocka_unit_test(a_loss_ends_in_the_next_phase_that_names_the_rank),
      cmocka_unit_test(classic_plans_load),
      cmocka_unit_test(a_file_that_cannot_be_read_is_named),
      cmocka_unit_test(description_says_what_each_phase_does),
      cmocka_unit_test(description_leaves_out_what_does_not_happen),
      cmocka_unit_test(description_in_json_has_the_same_facts),
      cmocka_unit_test(a_description_that_cannot_be_written_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
