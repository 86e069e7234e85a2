// The results of the run, assembled from the ranks' records: results.json and the report.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "measure/prometheus.h"
#include "page/page.h"
#include "run/common/config_json.h"
#include "run/common/roster.h"
#include "run/lead/lead.h"

static bool takes_part(const struct node *node, uint32_t phase, int32_t rank) {
  enum plan_role role = plan_rank_role(node->plan, phase, rank);
  return role != PLAN_NOT_MEMBER && role != PLAN_LEAVES;
}

// Fills the state of a rank that has no record of the phase.
static void describe_absent(const struct node *node, uint32_t phase, struct results_rank *row) {
  if (!takes_part(node, phase, row->rank)) {
    row->state = RESULTS_NOT_MEMBER;
    return;
  }
  const struct seat *launched = lead_seat(node, lead_launch_phase(node, phase, row->rank), row->rank);
  bool reached = node->phase.begun && phase <= node->phase.current;
  row->state = RESULTS_UNREACHED;
  if (!reached)
    return;
  if (launched->ended && !launched->planned) {
    row->state = RESULTS_FAILED;
    snprintf(row->reason, sizeof row->reason, "its process ended");
  } else if (launched->ended && launched->kill_ns &&
             run_roster_dies(node->plan, node->config.negative, phase, row->rank)) {
    row->state = RESULTS_KILLED;
  } else if (node_launch_of(node, lead_launch_phase(node, phase, row->rank), row->rank)->claimed) {
    row->state = RESULTS_INTERRUPTED;
  }
}

// Copies a rank's slot, GPU, host and incarnation from its last record, for a phase of which it has no record.
static void copy_place(const struct node *node, uint32_t phase, struct results_rank *row) {
  row->local_rank = row->gpu = -1;
  if (row->state == RESULTS_NOT_MEMBER)
    return;
  for (uint32_t p = phase + 1; p-- > lead_launch_phase(node, phase, row->rank);) {
    const struct seat *seat = lead_seat(node, p, row->rank);
    if (!seat->has_record)
      continue;
    row->local_rank = seat->record.rank.local_rank;
    row->gpu = seat->record.rank.gpu;
    memcpy(row->gpu_name, seat->record.rank.gpu_name, sizeof row->gpu_name);
    row->incarnation = seat->record.rank.incarnation;
    memcpy(row->host, seat->record.rank.host, sizeof row->host);
    return;
  }
  snprintf(row->host, sizeof row->host, "%s", lead_rank_host(node, phase, row->rank));
}

// Copies a rank's record and its list of rows. A list with a wrong length is left out.
static int copy_record(struct results_rank *row, const struct results_rank *record, uint32_t num_ranks) {
  *row = *record;
  row->num_dispatch_rows = 0;
  row->dispatch_rows = NULL;
  if (record->num_dispatch_rows != num_ranks || num_ranks == 0)
    return 0;
  row->dispatch_rows = malloc(num_ranks * sizeof *row->dispatch_rows);
  if (!row->dispatch_rows)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  memcpy(row->dispatch_rows, record->dispatch_rows, num_ranks * sizeof *row->dispatch_rows);
  row->num_dispatch_rows = num_ranks;
  return 0;
}

static int fill_phase(const struct node *node, struct results_phase *phase, uint32_t index) {
  const struct plan_ranks *ranks = &node->plan->ranks;
  phase->index = index;
  phase->num_ranks = ranks->count;
  lead_fill_phase_times(node, phase);
  for (uint32_t i = 0; i < ranks->count; i++) {
    struct results_rank *row = &phase->ranks[i];
    const struct seat *seat = lead_seat(node, index, ranks->rank[i]);
    row->rank = ranks->rank[i];
    if (lead_describe_loss(node, index, row)) {
      copy_place(node, index, row);
    } else if (seat->has_record && takes_part(node, index, row->rank)) {
      int err = copy_record(row, &seat->record.rank, ranks->count);
      if (err)
        return err;
    } else {
      describe_absent(node, index, row);
      copy_place(node, index, row);
    }
  }
  return 0;
}

static int fill_phases(const struct node *node, struct results *results) {
  results->num_phases = node->plan->num_phases;
  results->phases = calloc(results->num_phases, sizeof *results->phases);
  for (uint32_t p = 0; results->phases && p < results->num_phases; p++) {
    results->phases[p].ranks = calloc(node->plan->ranks.count, sizeof *results->phases[p].ranks);
    if (!results->phases[p].ranks)
      return fail(WEFT_ERR_NOMEM, "no memory for the results");
    int err = fill_phase(node, &results->phases[p], p);
    if (err)
      return err;
  }
  return results->phases ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

static bool view_has(const struct run_view *view, int32_t rank) {
  for (uint32_t i = 0; i < view->count; i++)
    if (view->ranks[i] == rank)
      return true;
  return false;
}

// The first view of the phase that contains the rank (`with`), or that does not contain it. The views are those that
// the lowest survivor reported or, in the first phase, the lowest rank. `*boot`: boot id of the host of that reporter.
static const struct run_view *find_view(const struct node *node, uint32_t phase, int32_t rank, bool with,
                                        const char **boot) {
  const struct plan_ranks *live = &node->plan->phases[phase].live;
  for (uint32_t i = 0; i < live->count; i++) {
    const struct seat *seat = lead_seat(node, phase, live->rank[i]);
    if (!seat->has_record || (phase > 0 && !lead_is_survivor(node, phase, live->rank[i])))
      continue;
    *boot = seat->record.boot;
    for (uint32_t v = 0; v < seat->record.num_views; v++)
      if (view_has(&seat->record.views[v], rank) == with)
        return &seat->record.views[v];
  }
  return NULL;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fill_detection(const struct node *node, struct results_transition *change, const struct seat *victim) {
  const struct plan_ranks *live = &node->plan->phases[change->phase].live;
  double *times = calloc(live->count + 1, sizeof *times);
  size_t count = 0;
  for (uint32_t i = 0; times && victim->kill_ns && i < live->count; i++) {
    const struct seat *seat = lead_seat(node, change->phase, live->rank[i]);
    if (!seat->has_record || strcmp(seat->record.boot, victim->boot) != 0)
      continue; // this time is from another host's clock
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

static void fill_transition(const struct node *node, struct results_transition *change) {
  const struct seat *seat = lead_seat(node, change->phase, change->rank);
  const char *boot = "";
  const struct run_view *view = find_view(node, change->phase, change->rank, change->change == RESULTS_JOIN, &boot);
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
    const struct seat *victim = lead_seat(node, lead_launch_phase(node, change->phase, change->rank), change->rank);
    fill_detection(node, change, victim);
    if (victim->kill_ns && view && view->time_ns > victim->kill_ns && change->detect_us >= 0)
      change->first_dispatch_us = (double)(view->time_ns - victim->kill_ns) / 1000;
  }
  change->time_s = lead_change_time(node, change, view, boot);
  lead_fill_stall(node, change);
}

static void add_transition(const struct node *node, struct results *results, uint32_t phase, enum results_change what,
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
      .membership_stall_us = -1,
      .membership_rank = -1,
      .membership_median_us = -1,
      .detect_us = -1,
      .detect_median_us = -1,
  };
  fill_transition(node, change);
}

static int fill_transitions(const struct node *node, struct results *results) {
  const struct plan *plan = node->plan;
  uint32_t reached = node->phase.begun ? node->phase.current + 1 : 0;
  reached = reached < plan->num_phases ? reached : plan->num_phases;
  results->transitions = calloc((size_t)plan->num_phases * plan->ranks.count + 1, sizeof *results->transitions);
  if (!results->transitions)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  for (uint32_t p = 0; p < reached; p++) {
    for (uint32_t i = 0; i < plan->ranks.count; i++) {
      int32_t rank = plan->ranks.rank[i];
      if (plan_ranks_contain(&plan->phases[p].joins, rank))
        add_transition(node, results, p, RESULTS_JOIN, rank);
      else if (run_roster_leaves(plan, node->config.negative, p, rank))
        add_transition(node, results, p, RESULTS_LEAVE, rank);
      else if (run_roster_dies(plan, node->config.negative, p, rank))
        add_transition(node, results, p, RESULTS_KILL, rank);
    }
  }
  return 0;
}

static void describe_store(const struct node *node, char *out, size_t cap) {
  const char *version = node->store.version;
  if (node->store.server)
    snprintf(out, cap, "embedded, %s", node->store.endpoints);
  else
    snprintf(out, cap, "%s%s, %s", strncmp(version, "weft", 4) == 0 ? "" : "etcd ", version,
             weft_store_name(node->store.client));
}

// Notes the features that were not checked, with the library's reasons.
static void note_left_out(const struct node *node, struct results *results) {
  json_t *why = json_object();
  for (int i = 0; i < RUN_NUM_FEATURES; i++)
    if (node->config.left_out & 1u << i)
      json_object_set_new(why, node_feature_names[i], json_string(node->probe.why[i]));
  if (json_object_size(why) > 0)
    json_object_set(results->config, "left_out_why", why);
  json_decref(why);
}

static int fill_head(const struct node *node, struct results *results, int status, const char *error) {
  memcpy(results->run, node->run, sizeof results->run);
  snprintf(results->job, sizeof results->job, "%s", node->job);
  snprintf(results->version, sizeof results->version, "%s", weft_version());
  results->config = run_settings_to_json(&node->config);
  if (!results->config)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  if (node->gpus.why[0])
    json_object_set_new(results->config, "memory_why", json_string(node->gpus.why));
  note_left_out(node, results);
  results->plan = json_incref(node->plan_given);
  results->passed = status == 0;
  results->exit_status = status;
  snprintf(results->error, sizeof results->error, "%s", error);
  return 0;
}

static int fill(const struct node *node, struct results *results, int status, const char *error) {
  const struct lead *lead = node->lead;
  int err = fill_head(node, results, status, error);
  memcpy(results->started, lead->started, sizeof results->started);
  results->elapsed_s = (double)(clock_ns() - lead->started_ns) / 1e9;
  describe_store(node, results->store, sizeof results->store);
  printable_line(results->store); // the version of an etcd may be any text
  if (!err)
    err = lead_fill_processors(node, results);
  if (!err)
    err = fill_phases(node, results);
  if (!err && node->uses.text[0])
    json_object_set_new(results->config, "uses", json_string(node->uses.text));
  if (!err)
    lead_fill_bound(results);
  return err ? err : fill_transitions(node, results);
}

static int print(struct node *node, const struct results *results) {
  struct report_options options = {.format = node->config.json ? REPORT_JSON : REPORT_TEXT,
                                   .color = node->config.color,
                                   .unicode = node->config.unicode,
                                   .width = node->config.width};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return fail(WEFT_ERR_NOMEM, "no memory for the report");
  if (!node->config.json)
    fputc('\n', out);
  int err = report_write(out, results, &options);
  if (fclose(out) && !err)
    err = fail(WEFT_ERR_NOMEM, "no memory for the report");
  if (!err)
    err = node_print_last(node, "the report", text, size);
  free(text);
  return err;
}

// Writes the files that were requested in addition to the report.
static int write_files(const struct node *node, const struct results *results) {
  int err = node->config.html ? page_save_run(node->config.html, results) : 0;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  int other = node->config.prometheus ? results_save_prometheus(node->config.prometheus, results) : 0;
  return err ? fail(err, "%s", why) : other;
}

// Prints the results, and writes the files even if nobody reads standard output. Of two errors the first is reported.
static int write_all(struct node *node, const struct results *results, bool prints) {
  int err = prints ? print(node, results) : 0;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  int unwritten = write_files(node, results);
  return err ? fail(err, "%s", why) : unwritten;
}

int lead_finish_unopened(struct node *node, int status, const char *error) {
  struct results results = {0};
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(results.started, sizeof results.started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  snprintf(results.store, sizeof results.store, "%s", node->config.store ? node->config.store : "embedded");
  printable_line(results.store);
  int err = fill_head(node, &results, status, error);
  if (!err)
    err = write_all(node, &results, node->config.json);
  results_free(&results);
  return err;
}

int lead_finish(struct node *node, int status, const char *error) {
  struct results results = {0};
  int err = fill(node, &results, status, error);
  bool filled = !err;
  results_round(&results);
  if (!err)
    err = results_save(&results, node->directory.fd, "results.json");
  if (filled && err)
    fail_context(err, "the run directory %s", node->directory.path);
  run_directory_event(&node->directory, "run_end", json_pack("{s:i, s:s}", "status", status, "error", error));
  if (!err && node->directory.lost[0])
    err = fail(WEFT_ERR_SYSTEM, "in the run directory %s, %s", node->directory.path, node->directory.lost);
  progress_hide(&node->progress);
  // The results are printed even if they could not be saved. Of two errors the first is reported. The other nodes do
  // not have to wait for whoever reads what is printed.
  char why[512];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  if (status == 0 && err)
    lead_dismiss(node, weft_err_exit_status(err), why);
  else
    lead_dismiss(node, status, error);
  int unprinted = filled ? write_all(node, &results, true) : 0;
  results_free(&results);
  return err ? fail(err, "%s", why) : unprinted;
}
