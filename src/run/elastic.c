// Runs weft elastic from beginning to end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "run/lead/lead.h"

enum { PARTING_MS = 5000, PARTING_STEP_MS = 20 };

// Informs the other nodes of the end, and waits until they have ended, so that none of them loses the store before.
static void dismiss(struct node *node, int status, const char *error) {
  char key[RUN_KEY_SIZE], nodes[RUN_KEY_SIZE];
  if (node_places(node) <= 1)
    return;
  run_key(key, &node->keys, "end");
  run_key(nodes, &node->keys, "agent/");
  run_reporter_put(node->reporter, key, json_pack("{s:i, s:s}", "status", status, "error", error));
  uint64_t deadline = clock_deadline_ms(PARTING_MS);
  struct weft_store_list *list;
  for (size_t others = 1; others > 0 && !clock_passed(deadline);) {
    if (!weft_store_range(node->store.client, nodes, true, 0, &list)) {
      others = list->count > 0 ? list->count - 1 : 0;
      weft_store_list_free(list);
    }
    if (others > 0 && node_pause(node, PARTING_STEP_MS))
      return;
  }
}

// A follower that ends before the lead ends the run reports the reason.
static void report_follower(struct node *node, int status, const char *error) {
  char key[RUN_KEY_SIZE], text[1200];
  run_key(key, &node->keys, "fail/agent-%u", node->id);
  snprintf(text, sizeof text, "agent %u on %s: %s", node->id, node->host, error);
  run_storage_put(node->store.client, key, json_pack("{s:i, s:s}", "status", status, "error", text),
                  node->store.run_lease);
}

static int exit_status(const struct node *node, int err) {
  return node->signal_number ? 128 + node->signal_number : weft_err_exit_status(err);
}

// Runs the node; writes the reason of a failure into `error`.
static int run(struct node *node, char *error, size_t cap) {
  int err = node_open(node, &lead_role);
  bool opened = err == 0;
  if (opened)
    err = node_run(node);
  int status = err ? exit_status(node, err) : node->end.status;
  if (err)
    snprintf(error, cap, "%s", weft_last_error());
  else if (node->end.error[0])
    snprintf(error, cap, "the lead ended the run: %s", node->end.error);
  else
    error[0] = '\0';
  printable_text(error); // it may contain text from another node
  node_end_children(node);
  if (opened && node->leads) {
    int unwritten = lead_finish(node, status, error);
    if (unwritten && !err) {
      snprintf(error, cap, "%s", weft_last_error());
      status = weft_err_exit_status(unwritten);
    }
    dismiss(node, status, error);
  } else if (opened && err) {
    report_follower(node, status, error);
  } else if (!opened) {
    run_directory_discard(&node->directory);
  }
  return status;
}

// Prints the result of a follower, since only the lead has the report: one line, or JSON with --json.
static void print_verdict(const struct node *node, int status, const char *error) {
  const struct run_config *config = &node->config;
  const char *job = config->job ? config->job : RUN_DEFAULT_JOB;
  if (config->json) {
    json_t *verdict = json_pack("{s:b, s:i, s:s, s:s, s:i, s:i, s:b, s:s}", "passed", status == 0, "exit_status",
                                status, "job", job, "run", node->run, "agent", (int)node->id, "ranks",
                                (int)node->num_started, "left", node->leave.asked, "error", error);
    char *text = verdict ? json_dumps(verdict, JSON_INDENT(2)) : NULL;
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(verdict);
  } else if (!error[0] && !config->quiet) {
    printf("%s: agent %u of job %s, %u rank%s ran here; the lead has the report\n",
           status              ? "FAILED"
           : node->leave.asked ? "left"
                               : "passed",
           node->id, job, node->num_started, node->num_started == 1 ? "" : "s");
  }
}

int run_elastic(const struct run_config *config, char *error, size_t cap) {
  struct node node = {.config = *config, .signal_fd = -1};
  int status = run(&node, error, cap);
  bool follows = node.place.taken || config->lead || (!config->plan && !config->plan_text);
  node_close(&node);
  // The signals stay blocked. A signal that arrives now requests an end that is already reached, and must not end a
  // process that still has to return its exit status.
  if (node.signal_fd >= 0)
    close(node.signal_fd);
  if (follows)
    print_verdict(&node, status, error);
  return status;
}
