// weft elastic, from beginning to end.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/printable.h"
#include "base/time/clock.h"
#include "run/lead/lead.h"

enum { PARTING_MS = 5000, PARTING_STEP_MS = 20 };

// Tells the other agents that it is over, and waits until they have gone, so that none finds the store taken away.
static void dismiss(struct agent *agent, int status, const char *error) {
  char key[RUN_KEY_SIZE], agents[RUN_KEY_SIZE];
  if (agent->config.num_agents <= 1)
    return;
  run_key(key, &agent->keys, "end");
  run_key(agents, &agent->keys, "agent/");
  run_reporter_put(agent->reporter, key, json_pack("{s:i, s:s}", "status", status, "error", error));
  uint64_t deadline = clock_deadline_ms(PARTING_MS);
  struct weft_store_list list;
  for (size_t others = 1; others > 0 && !clock_passed(deadline);) {
    if (!weft_store_range(agent->store, agents, true, 0, &list)) {
      others = list.count > 0 ? list.count - 1 : 0;
      weft_store_list_free(&list);
    }
    if (others > 0 && agent_pause(agent, PARTING_STEP_MS))
      return;
  }
}

// A follower that ends before the lead says so tells why.
static void report_follower(struct agent *agent, int status, const char *error) {
  char key[RUN_KEY_SIZE], text[1200];
  run_key(key, &agent->keys, "fail/agent-%u", agent->id);
  snprintf(text, sizeof text, "agent %u on %s: %s", agent->id, agent->host, error);
  run_storage_put(agent->store, key, json_pack("{s:i, s:s}", "status", status, "error", text), agent->run_lease);
}

static int exit_status(const struct agent *agent, int err) {
  return agent->signal_number ? 128 + agent->signal_number : weft_err_exit_status(err);
}

// Runs it; what went wrong is in `error`.
static int run(struct agent *agent, char *error, size_t cap) {
  int err = agent_open(agent);
  bool opened = err == 0;
  if (opened)
    err = agent_run(agent);
  int status = err ? exit_status(agent, err) : agent->status;
  if (err)
    snprintf(error, cap, "%s", weft_last_error());
  else if (agent->end_error[0])
    snprintf(error, cap, "the lead ended the run: %s", agent->end_error);
  else
    error[0] = '\0';
  printable_text(error); // another agent's words may be in it
  agent_end_children(agent);
  if (opened && agent->leads) {
    int unwritten = lead_finish(agent, status, error);
    if (unwritten && !err) {
      snprintf(error, cap, "%s", weft_last_error());
      status = weft_err_exit_status(unwritten);
    }
    dismiss(agent, status, error);
  } else if (opened && err) {
    report_follower(agent, status, error);
  } else if (!opened) {
    run_directory_discard(&agent->directory);
  }
  return status;
}

int run_elastic(const struct run_config *config) {
  char error[1024];
  struct agent agent = {.config = *config, .signal_fd = -1};
  int status = run(&agent, error, sizeof error);
  agent_close(&agent);
  // The signals stay blocked: one that comes now asks for what is done already, and must not end a process that has its
  // exit status to tell.
  if (agent.signal_fd >= 0)
    close(agent.signal_fd);
  if (error[0])
    fprintf(stderr, "weft elastic: %s\n", error);
  return status;
}
