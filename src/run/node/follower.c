// A follower's role: it ends when the lead ends the run or is gone, or when it was asked to leave and its ranks have
// left.
#include <stdio.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/node/node.h"

enum { LEAVE_MS = 20000 }; // Kubernetes waits for 30 s after its SIGTERM

static int open_nothing(struct node *node) {
  (void)node;
  return 0;
}

static void take_end(struct node *node, const json_t *end) {
  const char *error = json_string_value(json_object_get(end, "error"));
  node->end.status = (int)json_integer_value(json_object_get(end, "status"));
  snprintf(node->end.error, sizeof node->end.error, "%s", error ? error : "");
  node->end.over = true;
}

// While the run is restored, the lead's key may be missing because the store forgot it.
static int take_change(struct node *node, const struct run_change *change) {
  if (change->kind == WEFT_STORE_EVENT_PUT && run_key_is(&node->keys, change->key, "end"))
    take_end(node, change->json);
  else if (change->kind == WEFT_STORE_EVENT_DELETE && run_key_is(&node->keys, change->key, "agent/0") &&
           !node_restore_is_on(node))
    return fail(WEFT_ERR_PEER_LOST, "the lead of job '%s' has ended or is unreachable", node->job);
  return 0;
}

static uint32_t num_children(const struct node *node) {
  return node->slots - node_free_slots(node);
}

// Informs the lead, which informs the ranks. If the store does not answer, this is repeated until the deadline.
static int announce_leaving(struct node *node) {
  uint32_t ranks = num_children(node);
  int err = node_publish_leaving(node);
  node->leave.published = !err;
  if (err == WEFT_ERR_NOT_FOUND)
    node_restore_begin(node);
  if (err)
    node_retry(node);
  if (!err)
    run_directory_event(&node->directory, "leave", json_pack("{s:s, s:i}", "host", node->host, "ranks", (int)ranks));
  if (!err && ranks)
    progress_say(
        &node->progress,
        "asked to leave (SIGTERM): %u rank%s of this agent leave%s the group; a second SIGTERM ends the agent at once",
        ranks, text_s(ranks), ranks == 1 ? "s" : "");
  return run_storage_may_pass(err) || err == WEFT_ERR_NOT_FOUND ? 0 : err;
}

static int step_leaving(struct node *node) {
  if (!node->leave.asked)
    return 0;
  if (!node->leave.deadline_ns)
    node->leave.deadline_ns = clock_deadline_ms(LEAVE_MS);
  int err = node->leave.published ? 0 : announce_leaving(node);
  uint32_t left = num_children(node);
  if (err || (left > 0 && !clock_passed(node->leave.deadline_ns)))
    return err;
  if (left > 0)
    progress_say(&node->progress, "%u rank%s of this agent did not leave the group within %d s and %s ended", left,
                 text_s(left), LEAVE_MS / 1000, left == 1 ? "is" : "are");
  node->end.over = true;
  return 0;
}

static uint64_t leave_deadline(const struct node *node) {
  return node->leave.asked ? node->leave.deadline_ns : CLOCK_NEVER;
}

static void forget_nobody(struct node *node) {
  (void)node;
}

static uint32_t nobody_missing(const struct node *node, struct text *text) {
  (void)node;
  (void)text;
  return 0;
}

static int step_nothing(struct node *node) {
  (void)node;
  return 0;
}

static void close_nothing(struct node *node) {
  (void)node;
}

const struct node_role node_follower = {
    .open = open_nothing,
    .take = take_change,
    .step = step_leaving,
    .deadline = leave_deadline,
    .forget_nodes = forget_nobody,
    .missing = nobody_missing,
    .lose_missing = step_nothing,
    .close = close_nothing,
};
