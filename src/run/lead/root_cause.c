// Decides why the run ends if several ranks give several reasons: causes count before consequences.
#include <signal.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/lead/lead.h"

// The report of a loss weighs more if the reporting rank found the loss itself, and the lost rank has not reported why
// it ended. SIGTERM may have ended only one rank. But Slurm sends it to each process of the job, and then the agents'
// reports are the cause.
enum { WEIGHT_EXIT = 1, WEIGHT_TOLD_LOSS, WEIGHT_LOSS, WEIGHT_SIGTERM, WEIGHT_CAUSE };

enum { CAUSE_MS = 1000 }; // how long the lead waits for a cause after a consequence

// The first error code with this exit status, so that the tool ends with the exit status of the rank.
static int err_of_status(int status) {
  if (status > 128) // a signal ended an agent
    return WEFT_ERR_CANCELED;
  static const int codes[] = {WEFT_ERR_DATA, WEFT_ERR_PEER_LOST, WEFT_ERR_TIMEOUT, WEFT_ERR_INVALID, WEFT_ERR_SYSTEM};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (weft_err_exit_status(codes[i]) == status)
      return codes[i];
  return WEFT_ERR_PROTOCOL;
}

static void note(struct node *node, int weight, int err, const char *text) {
  struct lead_failure *failure = &node->lead->failure;
  if (failure->weight == 0)
    failure->decide_ns = clock_deadline_ms(CAUSE_MS);
  if (weight <= failure->weight)
    return;
  failure->weight = weight;
  failure->err = err;
  snprintf(failure->text, sizeof failure->text, "%s", text);
}

static int weight_of(struct lead_failure *failure, const json_t *report, int err) {
  int32_t rank = -1, lost = -1; // rank -1: a node's reason; lost -1: the rank itself found no other rank lost
  json_unpack((json_t *)report, "{s?i, s?i}", "rank", &rank, "found_lost", &lost);
  bool found = lost >= 0 && lost < EP_MAX_CAPACITY && !failure->gave_reason[lost];
  if (rank >= 0 && rank < EP_MAX_CAPACITY)
    failure->gave_reason[rank] = true;
  if (err != WEFT_ERR_PEER_LOST)
    return WEIGHT_CAUSE;
  return rank < 0 || found ? WEIGHT_LOSS : WEIGHT_TOLD_LOSS;
}

// A rank knows only the numbers of its peers. The lead knows on which host each of them is, and adds it.
static void describe_report(const struct node *node, const json_t *report, const char *error, struct text *text) {
  const json_t *rank = json_object_get(report, "rank"), *lost = json_object_get(report, "lost");
  const uint32_t phase = (uint32_t)json_integer_value(json_object_get(report, "phase"));
  if (rank) { // otherwise it is the report of a node
    lead_describe_rank(node, phase, (int32_t)json_integer_value(rank), text);
    text_add(text, " in phase %u: ", phase);
  }
  text_add(text, "%s", error);
  if (!rank && json_integer_value(json_object_get(report, "status")) > 128) // a signal ended an agent, and so the run
    node_add_phase(node, text);
  const int32_t lost_rank = lost ? (int32_t)json_integer_value(lost) : -1;
  const char *host = lost_rank >= 0 ? lead_rank_host(node, phase, lost_rank) : "";
  if (*host)
    text_add(text, "; rank %d was on %s", lost_rank, host);
}

void lead_record_report(struct node *node, const json_t *report) {
  const char *error = json_string_value(json_object_get(report, "error"));
  int err = err_of_status((int)json_integer_value(json_object_get(report, "status")));
  struct text text = {0};
  describe_report(node, report, error ? error : "?", &text);
  note(node, weight_of(&node->lead->failure, report, err), err, text.data && !text.failed ? text.data : "?");
  text_free(&text);
}

void lead_note_exit(struct node *node, const json_t *exit) {
  int status = (int)json_integer_value(json_object_get(exit, "status"));
  const char *what = json_string_value(json_object_get(exit, "what"));
  if (status < 0) // a signal ended it
    note(node, status == -SIGTERM ? WEIGHT_SIGTERM : WEIGHT_CAUSE, WEFT_ERR_PEER_LOST, what ? what : "?");
  else
    note(node, WEIGHT_EXIT, err_of_status(status), what ? what : "?");
}

int lead_failed(const struct node *node) {
  const struct lead_failure *failure = &node->lead->failure;
  if (failure->weight == 0 || (failure->weight < WEIGHT_CAUSE && !clock_passed(failure->decide_ns)))
    return 0;
  struct text missing = {0};
  if (node->restore.stage != RESTORE_NONE && lead_missing_nodes(node, &missing))
    text_add(&missing, " did not return after the store had lost the run; then ");
  int err = fail(failure->err, "%s%s", missing.data ? missing.data : "", failure->text);
  text_free(&missing);
  return err;
}
