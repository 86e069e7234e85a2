// The whole benchmark, from its beginning to its end.
#include "bench/ep/run.h"

#include <stdio.h>
#include <string.h>

#include "base/boot_id.h"
#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "bench/ep/bound.h"
#include "bench/ep/heading.h"
#include "bench/ep/hosts.h"
#include "ep/link/transport_name.h"
#include "run/common/host.h"

struct run {
  struct bench_ep_config *config;
  struct bench_output *output;
  struct bench_progress *progress;
  struct figures *figures;
  uint64_t begin_ns;
  char host[BENCH_EP_HOST];
  struct bench_ep_sweep sweep;
  struct bench_ep_lead lead;
  struct bench_ep_hosts hosts;
  struct limits *limits;
  uint32_t measured; // measurements done, of sweep.count * repeat
  uint32_t place;    // the point of the sweep that is measured now
  bool agreed;       // all hosts know that a signal has come
  bool written;      // the output has begun
};

// --- what the lead calls ---

static int has_failed(void *arg) {
  const struct run *run = arg;
  return bench_ep_hosts_failed(&run->hosts);
}

static void show_progress(void *arg, uint32_t done, uint32_t of) {
  const struct run *run = arg;
  const struct bench_ep_point *point = &run->sweep.points[run->place];
  bench_progress(run->progress, run->measured + (double)done / of, run->sweep.count * run->config->common.repeat,
                 "%u tokens, %u ranks, %s", point->tokens, point->ranks, bench_ep_dtype_name(point->dtype));
}

// --- beginning ---

static int settle(struct run *run) {
  struct bench_ep_config *config = run->config;
  int err = bench_options_check(&config->common);
  // Checked here, so that not each rank has to report it.
  if (!err && config->transport && ep_check_transport(config->transport) != 0)
    err = fail_context(WEFT_ERR_INVALID, "--transport");
  if (!err)
    err = bench_ep_sweep_parse(config, &run->sweep);
  if (err)
    return err;
  if (!config->local_ranks)
    config->local_ranks = run->sweep.max_ranks;
  if (config->local_ranks > BENCH_EP_MAX_RANKS)
    return fail(WEFT_ERR_INVALID,
                "--ranks %u: one host has at most %d ranks; give the number of ranks on this host by --local-ranks",
                config->local_ranks, BENCH_EP_MAX_RANKS);
  if (config->local_ranks > run->sweep.max_ranks)
    return fail(WEFT_ERR_INVALID, "--local-ranks %u is more than --ranks, %u", config->local_ranks,
                run->sweep.max_ranks);
  return bench_ep_hosts_check(config, run->sweep.max_ranks);
}

// The settings that all hosts must have alike.
static int note_settings(struct run *run) {
  const struct bench_ep_config *c = run->config;
  json_t *settings = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i, s:i, s:i, s:I, s:i, s:i, s:s, "
      "s:i, s:i, s:s, s:s, s:I, s:i}",
      "op", c->ops, "mode", bench_ep_mode_names[c->mode], "tokens", c->tokens, "hidden", c->hidden, "topk", c->topk,
      "ranks", c->ranks, "experts_per_rank", c->experts, "dtype", c->dtypes, "combine_dtype", c->combine_dtypes,
      "layout", c->layouts, "skew", c->skews, "memory", c->memories, "graph", c->graph, "check", c->check, "share_gpus",
      c->share_gpus, "iterations", (int)c->iterations, "warmup", (int)c->warmup, "repeat", (int)c->common.repeat,
      "seed", (json_int_t)c->seed, "local_ranks", (int)c->local_ranks, "as_hosts", (int)c->as_hosts, "transport",
      c->transport ? c->transport : "", "timeout_ms", (int)c->common.timeout_ms, "startup_timeout",
      (int)c->common.startup_timeout_s, "route", c->routes, "processors", c->processors, "window",
      (json_int_t)c->window_bytes, "alignment", (int)c->alignment);
  if (!settings)
    return fail(WEFT_ERR_NOMEM, "no memory for the settings");
  json_decref(run->figures->settings);
  run->figures->settings = settings;
  return 0;
}

static int note_hosts(struct run *run) {
  int err = 0;
  for (uint32_t i = 0; i < run->hosts.size && !err; i++)
    err = json_array_append_new(run->figures->hosts, json_string(bench_ep_hosts_name(&run->hosts, i, run->host)));
  return err ? fail(WEFT_ERR_NOMEM, "no memory for the names of hosts") : 0;
}

// The ranks are forked while this process has no other thread.
static int open_run(struct run *run) {
  const struct bench_ep_watch watch = {has_failed, show_progress, run};
  char boot[BOOT_ID_SIZE];
  run_host_describe(run->host, sizeof run->host, boot, sizeof boot);
  int err = settle(run);
  if (!err)
    err = note_settings(run);
  if (!err)
    err = bench_ep_lead_open(&run->lead, run->config, &run->sweep, &watch);
  if (!err)
    err = bench_ep_hosts_open(&run->hosts, &run->config->common, run->config, run->sweep.max_ranks,
                              run->figures->settings, run->host, run->lead.board);
  if (!err)
    err = note_hosts(run);
  if (!err)
    err = limits_open(&run->limits);
  if (!err)
    err = bench_output_begin(run->output, run->figures);
  run->written = !err;
  if (!err)
    bench_ep_heading(run->output, run->config);
  return err;
}

// --- measurements ---

static int gather(struct run *run, const struct bench_ep_command *command, struct bench_ep_found *found) {
  const struct bench_ep_point *point = &run->sweep.points[command->point];
  uint32_t first = (uint32_t)run->lead.board->first_rank, here = bench_ep_lead_takes(&run->lead, point);
  int err = bench_ep_found_open(found, point->ranks);
  for (uint32_t i = 0; i < here && !err; i++)
    err = bench_ep_found_take(found, first + i, run->host, run->lead.board, i);
  if (err)
    return err;
  found->counted = here > 0;
  found->count = here > 0 ? found->ranks[first].result.count : 0;
  found->stopped = stop_came() != 0;
  return bench_ep_hosts_gather(&run->hosts, command, bench_ep_times_of(point->loop), found);
}

static int report_rows(struct run *run, const struct bench_ep_point *point, const struct bench_ep_found *found,
                       uint32_t num_rows) {
  struct figures *figures = run->figures;
  figures->elapsed_s = (double)(clock_ns() - run->begin_ns) / 1e9;
  for (uint32_t i = figures->num_rows - num_rows; i < figures->num_rows; i++) {
    int err =
        bench_ep_bound_row(run->limits, run->output, figures, &figures->rows[i], point, found, run->config->as_hosts);
    if (err)
      return err;
    bench_output_row(run->output, figures, &figures->rows[i]);
  }
  return 0;
}

static int measure(struct run *run, uint32_t turn) {
  const struct bench_ep_point *point = &run->sweep.points[run->place];
  struct bench_ep_found found = {0};
  uint32_t num_rows = 0;
  struct bench_ep_command command = {.point = run->place, .sequence = run->measured};
  int err = bench_ep_lead_measure(&run->lead, &command);
  if (!err)
    err = gather(run, &command, &found);
  if (!err)
    err = bench_ep_add_rows(run->figures, run->config, &run->sweep, point, turn, &found, &num_rows);
  if (!err)
    err = report_rows(run, point, &found, num_rows);
  run->agreed = !err && found.stopped;
  run->measured += !err && !found.stopped;
  bench_ep_found_free(&found);
  return err;
}

// Measures all points once, then all of them again: a change in the host over time affects all points alike.
static int measure_all(struct run *run) {
  int err = 0;
  for (uint32_t turn = 0; turn < run->config->common.repeat; turn++)
    for (run->place = 0; run->place < run->sweep.count; run->place++) {
      if (err || run->agreed || stop_came())
        return err;
      err = measure(run, turn);
    }
  return err;
}

// --- the end ---

static void describe_end(struct run *run, int err) {
  struct figures *figures = run->figures;
  figures->elapsed_s = (double)(clock_ns() - run->begin_ns) / 1e9;
  figures->complete = !err && run->measured == run->sweep.count * run->config->common.repeat;
  figures->passed = figures->complete && !bench_output_refused(run->output);
  if (err)
    snprintf(figures->error, sizeof figures->error, "%s", weft_last_error());
  if (stop_came())
    snprintf(figures->cut_short, sizeof figures->cut_short, "%s", stop_name());
  else if (run->agreed)
    snprintf(figures->cut_short, sizeof figures->cut_short, "a signal on another host");
}

static void close_run(struct run *run, int err, const char *why) {
  err = run->agreed ? 0 : err;
  bool alone = !err && stop_came() && !run->agreed; // the other hosts do not know of the signal yet
  bench_ep_lead_close(&run->lead, err != 0);
  if (alone)
    bench_ep_hosts_close(&run->hosts, WEFT_ERR_CANCELED, "interrupted");
  else
    bench_ep_hosts_close(&run->hosts, err, why);
  limits_close(run->limits);
  bench_ep_sweep_free(&run->sweep);
}

int bench_ep_run(struct bench_ep_config *config, struct bench_output *output, struct bench_progress *progress,
                 struct figures *figures) {
  struct run run = {.config = config,
                    .output = output,
                    .progress = progress,
                    .figures = figures,
                    .begin_ns = clock_ns(),
                    .lead = {.lost = -1}};
  char why[FAIL_DETAIL_SIZE] = "";
  int err = figures_begin(figures, "ep");
  if (!err)
    err = open_run(&run);
  if (!err)
    err = measure_all(&run);
  if (!err && run.agreed && !stop_came())
    err = fail(WEFT_ERR_CANCELED, "a signal on another host ended the benchmark");
  describe_end(&run, err);
  if (err)
    snprintf(why, sizeof why, "%s", weft_last_error());
  close_run(&run, err, why);
  // The files of an earlier run would be taken for those of this one. Wrong options leave them as they were.
  int written = 0;
  if (!run.written && err && err != WEFT_ERR_INVALID) {
    if (json_array_size(figures->hosts) == 0)
      json_array_append_new(figures->hosts, json_string(run.host));
    written = bench_output_begin(output, figures);
    run.written = written == 0;
    output->out = NULL; // without rows there is no table
  }
  if (run.written)
    written = bench_output_end(output, figures);
  return bench_output_result(output, err, why, written);
}
