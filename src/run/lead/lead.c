// The lead's role: waits for the nodes, begins the phases, and ends the run.
#include "run/lead/lead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/time/clock.h"

static int lead_open(struct node *node) {
  struct lead *lead = calloc(1, sizeof *lead);
  if (!lead)
    return fail(WEFT_ERR_NOMEM, "no memory for the lead");
  node->lead = lead;
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(lead->started, sizeof lead->started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  lead->started_ns = clock_ns();
  lead->num_nodes = node_places(node);
  lead->deadline_ns = clock_deadline_ms((uint64_t)node->config.startup_timeout_s * 1000);
  lead->phases = calloc(node->plan->num_phases, sizeof *lead->phases);
  lead->seats = calloc((size_t)node->plan->num_phases * node->plan->ranks.count, sizeof *lead->seats);
  lead->nodes = calloc(lead->num_nodes, sizeof *lead->nodes);
  run_directory_event(&node->directory, "run_begin", json_pack("{s:s, s:s}", "host", node->host, "run", node->run));
  return lead->phases && lead->seats && lead->nodes
             ? 0
             : fail(WEFT_ERR_NOMEM, "no memory for %u phases", node->plan->num_phases);
}

static void lead_close(struct node *node) {
  struct lead *lead = node->lead;
  if (!lead)
    return;
  for (size_t i = 0; lead->seats && i < (size_t)node->plan->num_phases * node->plan->ranks.count; i++)
    run_record_free(&lead->seats[i].record);
  free(lead->phases);
  free(lead->seats);
  for (uint32_t i = 0; lead->nodes && i < lead->num_nodes; i++)
    json_decref(lead->nodes[i].gpus);
  free(lead->nodes);
  free(lead->losses);
  free(lead);
  node->lead = NULL;
}

// A store that did not answer for a while may deliver all changes again. Only the first time counts.
static void note_time(uint64_t *first_ns) {
  if (*first_ns == 0)
    *first_ns = clock_ns();
}

static void take_exit(struct node *node, struct seat *seat, const json_t *exit) {
  const char *boot = json_string_value(json_object_get(exit, "boot"));
  note_time(&seat->ended_ns);
  seat->ended = true;
  if (seat->gone)
    return;
  seat->planned = json_is_true(json_object_get(exit, "planned"));
  seat->kill_ns = (uint64_t)json_integer_value(json_object_get(exit, "kill_ns"));
  snprintf(seat->boot, sizeof seat->boot, "%s", boot ? boot : "");
  if (!seat->planned)
    lead_note_exit(node, exit);
}

// Takes the reason of a rank or an agent to end the run.
static void take_report(struct node *node, const char *who, const json_t *report) {
  int launched = -1, rank = -1;
  bool of_rank = json_unpack((json_t *)report, "{s:i, s:i}", "launched", &launched, "rank", &rank) == 0;
  if (of_rank ? lead_expects_end(node, (uint32_t)launched, rank) : lead_take_last_word(node, who, report))
    return;
  lead_record_report(node, report);
}

static int lead_take(struct node *node, const struct run_change *change) {
  uint32_t phase, rank;
  const char *tail = run_key_tail(&node->keys, change->key, "agent");
  if (tail) {
    // An agent reports why it ends before its key disappears. Both changes may arrive together.
    bool goes = change->kind == WEFT_STORE_EVENT_DELETE && node->lead->state != LEAD_ENDS;
    int failed = goes ? lead_failed(node) : 0;
    return failed ? failed : lead_take_node(node, change, tail);
  }
  if (change->kind != WEFT_STORE_EVENT_PUT)
    return 0;
  struct seat *seat = NULL;
  if ((tail = run_key_tail(&node->keys, change->key, "fail"))) {
    take_report(node, tail, change->json);
  } else if (run_key_pair(&node->keys, change->key, "start", &phase, &rank)) {
    if ((seat = lead_seat(node, phase, (int32_t)rank))) {
      note_time(&seat->started_ns);
      seat->started = true;
    }
  } else if (run_key_pair(&node->keys, change->key, "record", &phase, &rank)) {
    if ((seat = lead_seat(node, phase, (int32_t)rank))) {
      run_record_free(&seat->record);
      note_time(&seat->record_ns);
      seat->has_record = true;
      return run_record_from_json(&seat->record, change->json);
    }
  } else if (run_key_pair(&node->keys, change->key, "still", &phase, &rank)) {
    if ((seat = lead_seat(node, phase, (int32_t)rank)))
      lead_take_still(node, seat, change->json);
  } else if (run_key_pair(&node->keys, change->key, "exit", &phase, &rank)) {
    if ((seat = lead_seat(node, phase, (int32_t)rank)))
      take_exit(node, seat, change->json);
  }
  return 0;
}

static int gather(struct node *node) {
  struct lead *lead = node->lead;
  if (node->config.others_come)
    lead_show_needs(node);
  if (node->config.others_come || node->phase.begun)
    return lead_gather_slots(node, lead->awaited);
  uint32_t here = 0, slots = lead_slots(lead);
  for (uint32_t i = 0; i < lead->num_nodes; i++)
    here += lead->nodes[i].here;
  if (here < node->config.num_agents) {
    lead_show_waiting(node, here);
    return clock_passed(lead_late_ns(node))
               ? fail(WEFT_ERR_TIMEOUT, "%u of %u agents started within %u s (--num-agents, --startup-timeout)", here,
                      node->config.num_agents, node->config.startup_timeout_s)
               : 0;
  }
  if (node->config.agents == RUN_AGENTS_ELASTIC) // agents for later phases may still join
    return lead_gather_slots(node, 0);
  int err = plan_check_slots(node->plan, slots);
  if (err)
    return fail_context(err, "%u agents have %u slots together", here, slots);
  err = lead_check_gpus(lead);
  if (err)
    return err;
  lead->state = LEAD_RUNS;
  return lead_begin_phase(node, 0);
}

static int go_on(struct node *node) {
  if (node->lead->resumes)
    lead_resume_phase(node);
  switch (node->lead->state) {
  case LEAD_GATHERS:
    return gather(node);
  case LEAD_RUNS:
    return lead_run_phase(node);
  case LEAD_ENDS:
    return lead_end_run(node);
  }
  return 0;
}

static int lead_step(struct node *node) {
  int err = lead_failed(node);
  return lead_blame_standing(node, err ? err : go_on(node));
}

static uint64_t lead_deadline(const struct node *node) {
  const struct lead *lead = node->lead;
  uint64_t decide = lead->failure.weight ? lead->failure.decide_ns : CLOCK_NEVER;
  uint64_t late = lead_late_ns(node);
  return decide < late ? decide : late;
}

const struct node_role lead_role = {
    .open = lead_open,
    .take = lead_take,
    .step = lead_step,
    .deadline = lead_deadline,
    .forget_nodes = lead_forget_nodes,
    .missing = lead_missing_nodes,
    .lose_missing = lead_lose_missing,
    .close = lead_close,
};
