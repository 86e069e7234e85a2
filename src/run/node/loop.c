// The node's loop: it handles signals, children, changes in the store, and the lease.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/node/node.h"

enum {
  RETRY_MS = 100,  // between two attempts to renew the lease when the store does not answer
  READER_MS = 2000 // for the reader of the last lines, after a signal
};

// Polls: [0] signals, [1] changes in the store, [2] room for lines, then for each child its pidfd and its messages.
static int wait_for_something(struct node *node, struct pollfd *fds, uint64_t deadline) {
  fds[0] = (struct pollfd){.fd = node->signal_fd, .events = POLLIN};
  fds[1] = (struct pollfd){.fd = run_inbox_fd(node->inbox), .events = POLLIN};
  fds[2] = (struct pollfd){.fd = output_queue_waits(&node->lines) ? node->lines.fd : -1, .events = POLLOUT};
  for (uint32_t i = 0; i < node->slots; i++) {
    const struct run_child *child = &node->children[i];
    fds[3 + 2 * i] = (struct pollfd){.fd = child->pid ? child->pid_fd : -1, .events = POLLIN};
    fds[4 + 2 * i] = (struct pollfd){.fd = child->pid ? child->message_fd : -1, .events = POLLIN};
  }
  if (poll(fds, 3 + 2 * (nfds_t)node->slots, clock_left_ms(deadline)) < 0 && errno != EINTR)
    return fail_errno(errno, "cannot wait for the rank processes");
  return 0;
}

// A node's key is gone. If the store may have lost it, the run is restored.
static void restore_if_lost(struct node *node, const char *key) {
  char own[RUN_KEY_SIZE];
  run_key(own, &node->keys, "agent/%u", node->id);
  if (strcmp(key, own) == 0 || node_restore_is_on(node) || node->store.silent_ns ||
      !clock_passed(node->store.lease_grace_ns))
    node_restore_begin(node);
}

// Takes the phase that has begun, and the losses of the run until then.
static int take_current(struct node *node, const json_t *json) {
  struct run_current current = {0};
  int err = run_current_from_json(&current, json);
  for (uint32_t i = node->losses.num_lost; i < current.num_lost && !err; i++) { // the lead has them already
    err = run_current_add(&node->losses, &current.lost[i]);
    if (!err)
      plan_lose(node->plan, current.lost[i].phase, current.lost[i].rank);
  }
  if (!err && (!node->phase.begun || current.phase > node->phase.current))
    node->phase.current = current.phase;
  node->phase.begun |= !err;
  run_current_free(&current);
  return err;
}

// Handles the changes that concern both roles. The role handles the others.
static int take_store_change(struct node *node, const struct run_change *change) {
  uint32_t phase, rank;
  switch (change->kind) {
  case WEFT_STORE_EVENT_LOST:
    node_store_silent(node, node_store_timeout_s(node));
    return 0;
  case WEFT_STORE_EVENT_RESUMED: // to the watch a new store with as high a revision looks like the old one
    if (node->store.silent_ns)
      node_restore_begin(node);
    node_store_answered(node);
    return 0;
  case WEFT_STORE_EVENT_RESET:
    node_store_answered(node);
    node_restore_begin(node);
    return 0;
  case WEFT_STORE_EVENT_DELETE:
    if (run_key_tail(&node->keys, change->key, "agent"))
      restore_if_lost(node, change->key);
    break;
  case WEFT_STORE_EVENT_PUT:
    if (run_key_is(&node->keys, change->key, "current")) {
      int err = take_current(node, change->json);
      if (err)
        return err;
    } else if (run_key_is(&node->keys, change->key, "restored")) {
      node->restore.done_lease = (int64_t)json_integer_value(change->json);
    } else if (run_key_pair(&node->keys, change->key, "launch", &phase, &rank)) {
      struct launch *launch = node_launch_of(node, phase, (int32_t)rank);
      if (launch) {
        launch->claimed = true;
        launch->node = (uint32_t)json_integer_value(json_object_get(change->json, "agent"));
      }
    }
    break;
  }
  return node->role->take(node, change);
}

static int take_all_news(struct node *node) {
  struct run_change change;
  int err = 0;
  while (!err && !node->end.over && run_inbox_take(node->inbox, &change)) {
    err = take_store_change(node, &change);
    run_change_free(&change);
  }
  return err;
}

// Renews the lease. If the store does not answer, the run ends after a time limit; operations go on until then.
static int keep_alive(struct node *node) {
  uint32_t limit_s = node_store_timeout_s(node);
  if (!clock_passed(node->store.renew_ns))
    return 0;
  int err = node->store.own_lease ? weft_store_lease_keepalive(node->store.client, node->store.own_lease, NULL)
                                  : WEFT_ERR_NOT_FOUND;
  if (!err || err == WEFT_ERR_NOT_FOUND)
    node_store_answered(node);
  else
    node_store_silent(node, limit_s);
  if (err == WEFT_ERR_NOT_FOUND)
    node_restore_begin(node);
  node->store.renew_ns = clock_deadline_ms(err ? RETRY_MS : RUN_RENEW_MS);
  if (node->store.silent_ns && clock_ns() - node->store.silent_ns > limit_s * UINT64_C(1000000000))
    return fail_context(err ? err : WEFT_ERR_UNREACHABLE, "the store %s has not answered for %u s",
                        node->store.endpoints, limit_s);
  return 0;
}

// The time at which there is something to do even if no event occurs.
static uint64_t next_deadline(const struct node *node) {
  uint64_t deadline = node->role->deadline(node);
  deadline = node->retry_ns < deadline ? node->retry_ns : deadline;
  deadline = node_look_ns(node) < deadline ? node_look_ns(node) : deadline;
  return node->store.renew_ns < deadline ? node->store.renew_ns : deadline;
}

static int step(struct node *node, struct pollfd *fds) {
  int err = wait_for_something(node, fds, next_deadline(node));
  node->retry_ns = CLOCK_NEVER;
  if (!err && fds[0].revents)
    node_take_signal(node);
  if (!err && node->signal_number)
    return node_interrupted(node);
  if (err)
    return err;
  output_queue_push(&node->lines);
  node_serve_children(node);
  node_watch_children(node);
  node_metrics_look(node);
  err = take_all_news(node);
  if (node->end.over) // after the lead's end nothing else counts
    return err;
  if (!err)
    err = keep_alive(node);
  if (!err)
    err = node_restore_step(node);
  if (!err)
    err = node->role->step(node);
  if (!err && !node->end.over && node->phase.begun && node->phase.current < node->plan->num_phases)
    err = node_launch(node, node->phase.current);
  return err;
}

int node_run(struct node *node) {
  struct pollfd *fds = calloc(3 + 2 * (size_t)node->slots, sizeof *fds);
  int err = fds ? 0 : fail(WEFT_ERR_NOMEM, "no memory to watch %u ranks", node->slots);
  while (!err && !node->end.over)
    err = step(node, fds);
  free(fds);
  return err;
}

int node_print_last(struct node *node, const char *name, const char *text, size_t size) {
  struct output_queue results = {.fd = STDOUT_FILENO},
                      *queue = node->lines.fd == STDOUT_FILENO ? &node->lines : &results;
  int err;
  output_queue_push(&node->lines);
  output_queue_add(queue, text, size);
  do {
    err = output_queue_finish(queue, name, node->signal_fd,
                              node->signal_number ? clock_deadline_ms(READER_MS) : CLOCK_NEVER);
    if (err == WEFT_ERR_CANCELED)
      node_take_signal(node);
  } while (err == WEFT_ERR_CANCELED && !node->signal_number);
  output_queue_free(&results);
  return err;
}
