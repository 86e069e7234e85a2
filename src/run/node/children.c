// The node's rank processes while they run: their messages, their exits, and how the node ends them.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"
#include "run/node/node.h"

enum {
  ASK_MS = 1000,  // a child that was asked to end is killed after this time
  KILL_MS = 5000, // a killed child must have ended after this time
};

static void print_line(struct node *node, const char *text) {
  if (node->config.quiet)
    return;
  progress_hide(&node->progress);
  output_queue_line(&node->lines, text);
}

// A rank has met one on another host. Only the lead looks, so that a run warns once.
static void note_uses(struct node *node, const json_t *message) {
  const char *way = json_string_value(json_object_get(message, "detail"));
  char transport[16];
  if (!node->leads || !way || !*way)
    return;
  snprintf(transport, sizeof transport, "%.*s", (int)strcspn(way, " "), way);
  struct limits_route route = {.to.host = "another", .transport = transport};
  progress_hide(&node->progress);
  limits_uses_note(&node->uses, way, &route);
}

static void keep_event(struct node *node, const struct run_child *child, json_t *message) {
  char kind[64];
  snprintf(kind, sizeof kind, "%s", json_string_value(json_object_get(message, "event")));
  if (strcmp(kind, "connected") == 0)
    note_uses(node, message);
  json_object_del(message, "kind");
  json_object_del(message, "event");
  json_object_set_new(message, "host", json_string(node->host));
  json_object_set_new(message, "rank", json_integer(child->rank));
  run_directory_event(&node->directory, kind, json_incref(message));
}

static void on_message(void *arg, struct run_child *child, json_t *message) {
  struct node *node = arg;
  const char *kind = json_string_value(json_object_get(message, "kind"));
  if (!kind)
    return;
  if (strcmp(kind, "line") == 0) {
    const char *text = json_string_value(json_object_get(message, "text"));
    if (text)
      print_line(node, text);
  } else if (strcmp(kind, "event") == 0) {
    keep_event(node, child, message);
  } else if (strcmp(kind, "kill") == 0) {
    child->kill_ns = (uint64_t)json_integer_value(json_object_get(message, "time_ns"));
  } else if (strcmp(kind, "log_lost") == 0) {
    char name[32];
    snprintf(name, sizeof name, "rank-%d.log", child->rank);
    run_directory_lost(&node->directory, name, (int)json_integer_value(json_object_get(message, "error")));
  } else if (strcmp(kind, "progress") == 0) {
    progress_show(&node->progress, false, "phase %u (%u of %u)  rank %d  %s %lld/%lld", node->phase.current,
                  node->phase.current + 1, node->plan->num_phases, child->rank,
                  json_string_value(json_object_get(message, "step")),
                  (long long)json_integer_value(json_object_get(message, "done")),
                  (long long)json_integer_value(json_object_get(message, "of")));
  }
}

void node_serve_children(struct node *node) {
  for (uint32_t i = 0; i < node->slots; i++) {
    struct run_child *child = &node->children[i];
    if (child->pid == 0)
      continue;
    bool has_ended = run_child_has_ended(child); // checked first, so that its last messages can be read after that
    run_child_read(child, on_message, node);
    int status = 0;
    if (has_ended && run_child_reap(child, &status))
      node_publish_exit(node, child, status);
  }
}

static void signal_children(struct node *node, int signal_number) {
  for (uint32_t i = 0; i < node->slots; i++)
    run_child_signal(&node->children[i], signal_number);
}

// Waits for the end of every child; false: some are still there at the deadline.
static bool reap_children(struct node *node, uint64_t deadline) {
  int status;
  for (uint32_t i = 0; i < node->slots; i++) {
    struct run_child *child = &node->children[i];
    while (child->pid != 0) {
      run_child_read(child, on_message, node);
      struct pollfd fds[2] = {{.fd = child->pid_fd, .events = POLLIN}, {.fd = child->message_fd, .events = POLLIN}};
      if (run_child_reap(child, &status))
        break;
      if (clock_passed(deadline))
        return false;
      poll(fds, 2, clock_left_ms(deadline));
    }
  }
  return true;
}

void node_end_children(struct node *node) {
  if (!node->children)
    return;
  signal_children(node, SIGTERM);
  if (reap_children(node, clock_deadline_ms(ASK_MS)))
    return;
  signal_children(node, SIGKILL);
  reap_children(node, clock_deadline_ms(KILL_MS));
}
