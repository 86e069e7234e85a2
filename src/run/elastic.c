// Runs weft elastic from beginning to end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/printable.h"
#include "run/lead/lead.h"

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

static bool node_follows(const struct node *node) {
  const struct run_config *config = &node->config;
  return node->place.taken || config->lead || (!config->plan && !config->plan_text);
}

// The end of a node that could not open. Wrong options and plans leave the files of an earlier run as they are.
static void end_unopened(struct node *node, int status, const char *error) {
  if (!node_follows(node) && node->plan_given && status != weft_err_exit_status(WEFT_ERR_INVALID) &&
      lead_finish_unopened(node, status, error))
    fprintf(stderr, "weft elastic: %s\n", weft_last_error());
  run_directory_discard(&node->directory);
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
      status = exit_status(node, unwritten);
    } else if (unwritten) {
      fprintf(stderr, "weft elastic: %s\n", weft_last_error());
    }
  } else if (opened && err) {
    report_follower(node, status, error);
  } else if (!opened) {
    end_unopened(node, status, error);
  }
  return status;
}

// The result of a follower, since only the lead has the report: one line, or JSON with --json.
static void add_verdict(const struct node *node, int status, const char *error, struct text *text) {
  const struct run_config *config = &node->config;
  const char *job = config->job ? config->job : RUN_DEFAULT_JOB;
  if (config->json) {
    json_t *verdict = json_pack("{s:b, s:i, s:s, s:s, s:i, s:i, s:b, s:s}", "passed", status == 0, "exit_status",
                                status, "job", job, "run", node->run, "agent", (int)node->id, "ranks",
                                (int)node->num_started, "left", node->leave.asked, "error", error);
    char *json = verdict ? json_dumps(verdict, JSON_INDENT(2)) : NULL;
    text_add(text, "%s\n", json ? json : "{}");
    free(json);
    json_decref(verdict);
  } else if (!error[0] && !config->quiet) {
    text_add(text, "%s: agent %u of job %s, %u rank%s ran here; the lead has the report\n",
             status              ? "FAILED"
             : node->leave.asked ? "left"
                                 : "passed",
             node->id, job, node->num_started, node->num_started == 1 ? "" : "s");
  }
}

static void print_verdict(struct node *node, int *status, char *error, size_t cap) {
  struct text text = {0};
  add_verdict(node, *status, error, &text);
  int err = node_print_last(node, "the result", text.data ? text.data : "", text.size);
  text_free(&text);
  if (err && *status == 0) {
    snprintf(error, cap, "%s", weft_last_error());
    *status = exit_status(node, err);
  }
}

int run_elastic(const struct run_config *config, char *error, size_t cap) {
  struct node node = {.config = *config, .signal_fd = -1};
  int status = run(&node, error, cap);
  bool follows = node_follows(&node);
  node_close(&node);
  if (follows)
    print_verdict(&node, &status, error, cap);
  output_queue_free(&node.lines);
  // The signals stay blocked. A signal that arrives now requests an end that is already reached, and must not end a
  // process that still has to return its exit status.
  if (node.signal_fd >= 0)
    close(node.signal_fd);
  return status;
}
