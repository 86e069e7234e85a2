// Which of several reasons is reported as the cause of a failed run.
#include "cmocka_all.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"
#include "run/lead/lead.h"

enum { NOBODY = -1 };

static void report_lost(struct node *node, int status, int rank, const char *error, int found_lost) {
  json_t *json = json_pack("{s:i, s:i, s:i, s:s, s:i}", "status", status, "rank", rank, "phase", 1, "error", error,
                           "found_lost", found_lost);
  lead_record_report(node, json);
  json_decref(json);
}

static void report(struct node *node, int status, int rank, const char *error) {
  report_lost(node, status, rank, error, NOBODY);
}

static void ended(struct node *node, int status, const char *what) {
  json_t *json = json_pack("{s:b, s:i, s:s}", "planned", 0, "status", status, "what", what);
  lead_note_exit(node, json);
  json_decref(json);
}

static void a_cause_outweighs_its_consequences_and_is_decided_at_once(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  assert_int_equal(lead_failed(&node), 0);
  report(&node, 5, 0, "rank 3 was lost");
  assert_int_equal(lead_failed(&node), 0); // waits for the cause
  assert_true(lead.failure.decide_ns > clock_ns());
  ended(&node, 5, "rank 0 exited");
  ended(&node, -11, "rank 3 was ended by signal 11");
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 3 was ended by signal 11");
  report(&node, 4, 2, "later");
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST); // the first of the heaviest
}

// Slurm sends it to each process of a job: the ranks', which have ended by then, may be seen before the agent's own.
static void sigterm_of_a_rank_waits_for_that_of_its_agent(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  report_lost(&node, 5, 1, "rank 2 was lost (its process ended)", 2);
  ended(&node, -SIGTERM, "rank 2 was ended by signal 15");
  assert_int_equal(lead_failed(&node), 0);
  report(&node, 128 + SIGTERM, 0, "interrupted by SIGTERM");
  assert_int_equal(lead_failed(&node), WEFT_ERR_CANCELED);
  assert_string_equal(weft_last_error(), "rank 0 in phase 1: interrupted by SIGTERM");
}

static void sigterm_of_a_rank_alone_is_reported(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  report_lost(&node, 5, 1, "rank 2 was lost (its process ended)", 2);
  ended(&node, -SIGTERM, "rank 2 was ended by signal 15");
  lead.failure.decide_ns = clock_ns();
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 2 was ended by signal 15");
}

static void wrong_data_is_a_cause(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  report(&node, 5, 0, "rank 3 was lost");
  report(&node, 4, 3, "row 7");
  assert_int_equal(lead_failed(&node), WEFT_ERR_DATA);
  assert_string_equal(weft_last_error(), "rank 3 in phase 1: row 7");
}

static void a_consequence_alone_counts_when_its_time_has_come(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  ended(&node, 5, "rank 0 exited");
  report(&node, 5, 0, "rank 3 was lost");
  lead.failure.decide_ns = clock_ns();
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 0 in phase 1: rank 3 was lost");
}

// As when a host is cut off: rank 3 learns of it by the view and ends, which rank 1 finds; rank 0 had found the cause.
static void a_loss_is_reported_by_its_finder_before_ranks_that_learned_of_it(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  report(&node, 5, 3, "rank 4 was lost (other ranks reported it)");
  report_lost(&node, 5, 1, "rank 3 was lost (its process ended)", 3);
  report_lost(&node, 5, 0, "rank 4 was lost (its host does not answer)", 4);
  report_lost(&node, 5, 2, "rank 5 was lost (its host does not answer)", 5);
  assert_int_equal(lead_failed(&node), 0); // a cause may come still
  lead.failure.decide_ns = clock_ns();
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 0 in phase 1: rank 4 was lost (its host does not answer)");
}

static void a_loss_learned_from_a_view_is_reported_if_its_finder_is_silent(void **state) {
  (void)state;
  struct lead lead = {0};
  struct node node = {.lead = &lead};
  ended(&node, 5, "rank 3 exited");
  report(&node, 5, 3, "rank 4 was lost (other ranks reported it)");
  report_lost(&node, 5, 1, "rank 3 was lost (its process ended)", 3);
  lead.failure.decide_ns = clock_ns();
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 3 in phase 1: rank 4 was lost (other ranks reported it)");
}

// Rank 3 has said where it is; of rank 5, which never said anything, the lead knows which agent launched it.
static void a_lost_rank_is_named_with_its_host(void **state) {
  (void)state;
  const char *text = "[[0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]";
  struct plan *plan = NULL;
  struct seat seats[2 * 6] = {{0}};
  struct launch launches[2 * 6] = {{0}};
  struct seen_node nodes[2] = {{.host = "oak01"}, {.host = "oak02"}};
  struct lead lead = {.seats = seats, .nodes = nodes, .num_nodes = 2};
  struct node node = {.lead = &lead, .launches = launches, .host = "oak01"};
  assert_int_equal(plan_from_text(&plan, text, strlen(text)), 0);
  node.plan = plan;
  seats[3].has_record = true;
  snprintf(seats[3].record.rank.host, sizeof seats[3].record.rank.host, "oak01");
  launches[6 + 5] = (struct launch){.claimed = true, .node = 1};
  json_t *json = json_pack("{s:i, s:i, s:i, s:s, s:i}", "status", 5, "rank", 3, "phase", 1, "error",
                           "rank 5 was lost in phase 1", "lost", 5);
  lead_record_report(&node, json);
  json_decref(json);
  lead.failure.decide_ns = clock_ns();
  assert_int_equal(lead_failed(&node), WEFT_ERR_PEER_LOST);
  assert_string_equal(weft_last_error(), "rank 3 on oak01 in phase 1: rank 5 was lost in phase 1; rank 5 was on oak02");
  assert_string_equal(lead_rank_host(&node, 1, 4), ""); // nobody has launched it
  plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cause_outweighs_its_consequences_and_is_decided_at_once),
      cmocka_unit_test(sigterm_of_a_rank_waits_for_that_of_its_agent),
      cmocka_unit_test(sigterm_of_a_rank_alone_is_reported),
      cmocka_unit_test(wrong_data_is_a_cause),
      cmocka_unit_test(a_consequence_alone_counts_when_its_time_has_come),
      cmocka_unit_test(a_loss_is_reported_by_its_finder_before_ranks_that_learned_of_it),
      cmocka_unit_test(a_loss_learned_from_a_view_is_reported_if_its_finder_is_silent),
      cmocka_unit_test(a_lost_rank_is_named_with_its_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
