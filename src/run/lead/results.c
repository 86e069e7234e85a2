// What the run found, put together from the ranks' records: results.json and the report.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/text/printable.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/common/roster.h"
#include "run/lead/lead.h"

static bool takes_part(const struct agent *agent, uint32_t phase, int32_t rank) {
  enum plan_role role = plan_rank_role(agent->plan, phase, rank);
  return role != PLAN_NOT_MEMBER && role != PLAN_LEAVES;
}

// What a rank without a record of its own comes to.
static void describe_absent(const struct agent *agent, uint32_t phase, struct results_rank *row) {
  if (!takes_part(agent, phase, row->rank)) {
    row->state = RESULTS_NOT_MEMBER;
    return;
  }
  const struct seat *launched = lead_seat(agent, lead_launch_phase(agent, phase, row->rank), row->rank);
  bool reached = agent->begun && phase <= agent->current;
  row->state = RESULTS_UNREACHED;
  if (!reached)
    return;
  if (launched->ended && !launched->planned) {
    row->state = RESULTS_FAILED;
    snprintf(row->reason, sizeof row->reason, "its process ended");
  } else if (launched->ended && launched->kill_ns &&
             run_roster_dies(agent->plan, agent->config.negative, phase, row->rank)) {
    row->state = RESULTS_KILLED;
  } else if (agent_launch_of(agent, lead_launch_phase(agent, phase, row->rank), row->rank)->claimed) {
    row->state = RESULTS_INTERRUPTED;
  }
}

// A rank's slot, host and incarnation are those of its last record when this phase has none.
static void copy_place(const struct agent *agent, uint32_t phase, struct results_rank *row) {
  row->local_rank = row->gpu = -1;
  if (row->state == RESULTS_NOT_MEMBER)
    return;
  for (uint32_t p = phase + 1; p-- > lead_launch_phase(agent, phase, row->rank);) {
    const struct seat *seat = lead_seat(agent, p, row->rank);
    if (!seat->has_record)
      continue;
    row->local_rank = seat->record.rank.local_rank;
    row->gpu = seat->record.rank.gpu;
    memcpy(row->gpu_name, seat->record.rank.gpu_name, sizeof row->gpu_name);
    row->incarnation = seat->record.rank.incarnation;
    memcpy(row->host, seat->record.rank.host, sizeof row->host);
    return;
  }
}

static void fill_phase(const struct agent *agent, struct results_phase *phase, uint32_t index) {
  const struct plan_ranks *ranks = &agent->plan->ranks;
  phase->index = index;
  phase->num_ranks = ranks->count;
  for (uint32_t i = 0; i < ranks->count; i++) {
    struct results_rank *row = &phase->ranks[i];
    const struct seat *seat = lead_seat(agent, index, ranks->rank[i]);
    row->rank = ranks->rank[i];
    if (seat->has_record && takes_part(agent, index, row->rank)) {
      *row = seat->record.rank;
    } else {
      describe_absent(agent, index, row);
      copy_place(agent, index, row);
    }
  }
}

static int fill_phases(const struct agent *agent, struct results *results) {
  results->num_phases = agent->plan->num_phases;
  results->phases = calloc(results->num_phases, sizeof *results->phases);
  for (uint32_t p = 0; results->phases && p < results->num_phases; p++) {
    results->phases[p].ranks = calloc(agent->plan->ranks.count, sizeof *results->phases[p].ranks);
    if (!results->phases[p].ranks)
      return fail(WEFT_ERR_NOMEM, "no memory for the results");
    fill_phase(agent, &results->phases[p], p);
  }
  return results->phases ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

static bool view_has(const struct run_view *view, int32_t rank) {
  for (uint32_t i = 0; i < view->count; i++)
    if (view->ranks[i] == rank)
      return true;
  return false;
}

// Whether the record is of a rank that was there before the phase and is still after it.
static bool is_survivor(const struct agent *agent, uint32_t phase, int32_t rank) {
  return plan_rank_role(agent->plan, phase, rank) == PLAN_MEMBER;
}

// The first view of the phase that has the rank, or has it no more, as the lowest survivor (or, in the first phase, the
// lowest rank) saw it.
static const struct run_view *find_view(const struct agent *agent, uint32_t phase, int32_t rank, bool with) {
  const struct plan_ranks *live = &agent->plan->phases[phase].live;
  for (uint32_t i = 0; i < live->count; i++) {
    const struct seat *seat = lead_seat(agent, phase, live->rank[i]);
    if (!seat->has_record || (phase > 0 && !is_survivor(agent, phase, live->rank[i])))
      continue;
    for (uint32_t v = 0; v < seat->record.num_views; v++)
      if (view_has(&seat->record.views[v], rank) == with)
        return &seat->record.views[v];
  }
  return NULL;
}

static void fill_stall(const struct agent *agent, struct results_transition *change) {
  const struct plan_ranks *live = &agent->plan->phases[change->phase].live;
  for (uint32_t i = 0; i < live->count; i++) {
    const struct seat *seat = lead_seat(agent, change->phase, live->rank[i]);
    if (!seat->has_record || !is_survivor(agent, change->phase, live->rank[i]) ||
        seat->record.stall_us <= change->longest_stall_us)
      continue;
    change->longest_stall_us = seat->record.stall_us;
    change->stalled_rank = live->rank[i];
    change->median_us = agent->config.num_tokens ? seat->record.median_us : -1; // of nothing there is no usual time
  }
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fill_detection(const struct agent *agent, struct results_transition *change, const struct seat *victim) {
  const struct plan_ranks *live = &agent->plan->phases[change->phase].live;
  double *times = calloc(live->count + 1, sizeof *times);
  size_t count = 0;
  for (uint32_t i = 0; times && victim->kill_ns && i < live->count; i++) {
    const struct seat *seat = lead_seat(agent, change->phase, live->rank[i]);
    if (!seat->has_record || strcmp(seat->record.boot, victim->boot) != 0)
      continue; // another host's clock
    for (uint32_t l = 0; l < seat->record.num_losses; l++)
      if (seat->record.losses[l].rank == change->rank && seat->record.losses[l].time_ns >= victim->kill_ns)
        times[count++] = (double)(seat->record.losses[l].time_ns - victim->kill_ns) / 1000;
  }
  if (count > 0) {
    qsort(times, count, sizeof *times, compare_doubles);
    change->detect_us = times[0];
    change->detect_median_us = times[count / 2];
  }
  free(times);
}

static void fill_transition(const struct agent *agent, struct results_transition *change) {
  const struct seat *seat = lead_seat(agent, change->phase, change->rank);
  const struct run_view *view = find_view(agent, change->phase, change->rank, change->change == RESULTS_JOIN);
  if (view) {
    change->epoch = view->epoch;
    change->op = view->op;
  }
  if (change->change == RESULTS_JOIN && seat->has_record) {
    change->launch_us = seat->record.launch_us;
    change->connect_us = seat->record.connect_us;
    change->first_dispatch_us = seat->record.first_dispatch_us;
  } else if (change->change == RESULTS_LEAVE && seat->has_record && view && view->time_ns > seat->record.learned_ns) {
    change->first_dispatch_us = (double)(view->time_ns - seat->record.learned_ns) / 1000;
  } else if (change->change == RESULTS_KILL) {
    const struct seat *victim = lead_seat(agent, lead_launch_phase(agent, change->phase, change->rank), change->rank);
    fill_detection(agent, change, victim);
    if (victim->kill_ns && view && view->time_ns > victim->kill_ns && change->detect_us >= 0)
      change->first_dispatch_us = (double)(view->time_ns - victim->kill_ns) / 1000;
  }
  fill_stall(agent, change);
}

static void add_transition(const struct agent *agent, struct results *results, uint32_t phase, enum results_change what,
                           int32_t rank) {
  struct results_transition *change = &results->transitions[results->num_transitions++];
  *change = (struct results_transition){
      .phase = phase,
      .change = what,
      .rank = rank,
      .launch_us = -1,
      .connect_us = -1,
      .first_dispatch_us = -1,
      .longest_stall_us = -1,
      .stalled_rank = -1,
      .median_us = -1,
      .detect_us = -1,
      .detect_median_us = -1,
  };
  fill_transition(agent, change);
}

static int fill_transitions(const struct agent *agent, struct results *results) {
  const struct plan *plan = agent->plan;
  uint32_t reached = agent->begun ? agent->current + 1 : 0;
  reached = reached < plan->num_phases ? reached : plan->num_phases;
  results->transitions = calloc((size_t)plan->num_phases * plan->ranks.count + 1, sizeof *results->transitions);
  if (!results->transitions)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  for (uint32_t p = 0; p < reached; p++) {
    for (uint32_t i = 0; i < plan->ranks.count; i++) {
      int32_t rank = plan->ranks.rank[i];
      if (plan_ranks_contain(&plan->phases[p].joins, rank))
        add_transition(agent, results, p, RESULTS_JOIN, rank);
      else if (run_roster_leaves(plan, agent->config.negative, p, rank))
        add_transition(agent, results, p, RESULTS_LEAVE, rank);
      else if (run_roster_dies(plan, agent->config.negative, p, rank))
        add_transition(agent, results, p, RESULTS_KILL, rank);
    }
  }
  return 0;
}

static void describe_store(const struct agent *agent, char *out, size_t cap) {
  const char *version = agent->store_version;
  if (agent->server)
    snprintf(out, cap, "embedded, %s", agent->endpoints);
  else
    snprintf(out, cap, "%s%s, %s", strncmp(version, "weft", 4) == 0 ? "" : "etcd ", version,
             weft_store_name(agent->store));
}

static int fill(const struct agent *agent, struct results *results, int status, const char *error) {
  const struct lead *lead = agent->lead;
  memcpy(results->run, agent->run, sizeof results->run);
  snprintf(results->job, sizeof results->job, "%s", agent->job);
  snprintf(results->version, sizeof results->version, "%s", weft_version());
  snprintf(results->started, sizeof results->started, "%s", lead->started);
  results->elapsed_s = (double)(clock_ns() - lead->started_ns) / 1e9;
  describe_store(agent, results->store, sizeof results->store);
  printable_line(results->store); // an etcd's version is its own word
  results->config = run_settings_to_json(&agent->config);
  if (agent->gpus.why[0])
    json_object_set_new(results->config, "memory_why", json_string(agent->gpus.why));
  results->plan = plan_to_json(agent->plan);
  results->passed = status == 0;
  results->exit_status = status;
  snprintf(results->error, sizeof results->error, "%s", error);
  int err = fill_phases(agent, results);
  return err ? err : fill_transitions(agent, results);
}

static int print(const struct agent *agent, const struct results *results) {
  struct report_options options = {.format = agent->config.json ? REPORT_JSON : REPORT_TEXT,
                                   .color = agent->config.color,
                                   .unicode = agent->config.unicode};
  if (!agent->config.json)
    printf("\n");
  int err = report_write(stdout, results, &options);
  return err ? err : fflush(stdout) ? fail(WEFT_ERR_SYSTEM, "standard output cannot be written") : 0;
}

int lead_finish(struct agent *agent, int status, const char *error) {
  struct results results = {0};
  int err = fill(agent, &results, status, error);
  bool filled = !err;
  if (!err)
    err = results_save(&results, agent->directory.fd, "results.json");
  if (filled && err)
    fail_context(err, "the run directory %s", agent->directory.path);
  run_directory_event(&agent->directory, "run_end", json_pack("{s:i, s:s}", "status", status, "error", error));
  progress_hide(&agent->progress);
  // What was measured is printed even if it could not be saved; of two errors the first is told.
  char why[512];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  int unprinted = filled ? print(agent, &results) : 0;
  err = err ? fail(err, "%s", why) : unprinted;
  if (!err && agent->directory.lost[0])
    err = fail(WEFT_ERR_SYSTEM, "in the run directory %s, %s", agent->directory.path, agent->directory.lost);
  results_free(&results);
  return err;
}
