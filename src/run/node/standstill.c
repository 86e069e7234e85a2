// Detects rank processes of this node that stand still, reports each once, and informs the lead.
#include "run/process/process_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "run/node/node.h"

enum {
  LOOK_MS = 1000,
  LOOK_AGAIN_MS = 200, // while one stands still, to report soon that it goes on
  STILL_MS = 3000,     // a shorter standstill is not reported
};

static void publish(struct node *node, const struct run_child *child, const char *what) {
  char key[RUN_KEY_SIZE];
  run_key(key, &node->keys, "still/%u/%d", child->phase, child->rank);
  run_reporter_put(node->reporter, key, json_pack("{s:i, s:s}", "agent", (int)node->id, "what", what));
}

static void stands_still(struct node *node, struct run_child *child, const char *what) {
  struct text text = {0};
  child->reported_still = true;
  text_add(&text, "rank %d on %s, process %ld, %s", child->rank, node->host, (long)child->pid, what);
  progress_say(&node->progress, "%s; others wait for it", text.data ? text.data : what);
  run_directory_event(&node->directory, "standstill",
                      json_pack("{s:s, s:i, s:I, s:s}", "host", node->host, "rank", (int)child->rank, "pid",
                                (json_int_t)child->pid, "what", what));
  publish(node, child, text.data ? text.data : what);
  text_free(&text);
}

static void goes_on(struct node *node, struct run_child *child) {
  child->still_ns = 0;
  if (!child->reported_still)
    return;
  child->reported_still = false;
  progress_say(&node->progress, "rank %d on %s, process %ld, continues", child->rank, node->host, (long)child->pid);
  publish(node, child, "");
}

static void look_at(struct node *node, struct run_child *child) {
  struct process_state state;
  const char *what = process_state_read(&state, child->pid) ? process_state_standstill(state.state) : NULL;
  bool moved = !what || state.ticks != child->ticks; // a process may wait for a disk only at times
  child->ticks = what ? state.ticks : 0;
  if (!what || (child->still_ns && moved))
    goes_on(node, child);
  if (what && !child->still_ns)
    child->still_ns = clock_ns();
  else if (what && !child->reported_still && clock_ns() - child->still_ns >= STILL_MS * UINT64_C(1000000))
    stands_still(node, child, what);
}

void node_watch_children(struct node *node) {
  if (!clock_passed(node->look_ns))
    return;
  bool any = false, any_still = false;
  for (uint32_t i = 0; i < node->slots; i++) {
    if (node->children[i].pid == 0)
      continue;
    any = true;
    look_at(node, &node->children[i]);
    any_still |= node->children[i].still_ns != 0;
  }
  node->look_ns = any ? clock_deadline_ms(any_still ? LOOK_AGAIN_MS : LOOK_MS) : 0;
}

uint64_t node_look_ns(const struct node *node) {
  return node->look_ns ? node->look_ns : CLOCK_NEVER;
}
