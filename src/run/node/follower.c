// A follower's role: it ends when the lead says so, or is gone.
#include <stdio.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/node/node.h"

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

static int step_nothing(struct node *node) {
  (void)node;
  return 0;
}

static uint64_t no_deadline(const struct node *node) {
  (void)node;
  return CLOCK_NEVER;
}

static void forget_nobody(struct node *node) {
  (void)node;
}

static uint32_t nobody_missing(const struct node *node, struct text *text) {
  (void)node;
  (void)text;
  return 0;
}

static void close_nothing(struct node *node) {
  (void)node;
}

const struct node_role node_follower = {
    .open = open_nothing,
    .take = take_change,
    .step = step_nothing,
    .deadline = no_deadline,
    .forget_nodes = forget_nobody,
    .missing = nobody_missing,
    .close = close_nothing,
};
