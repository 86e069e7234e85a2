// The benchmark from its beginning to its end.
#include "bench/ep/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "secure/secret.h"

struct run {
  struct bench_ep_config *config;
  const struct bench_ep_sink *sink;
  uint32_t repeat;
  struct figures *figures;
  uint64_t begin_ns;
  char host[BENCH_EP_HOST];
  struct bench_ep_sweep sweep;
  struct bench_ep_lead lead;
  weft_store_server_t *server;
  uint32_t measured; // of sweep.count * repeat
};

static bool is_stopped(void *arg) {
  const struct run *run = arg;
  return run->sink->stopped(run->sink->arg);
}

static int has_failed(void *arg) {
  (void)arg;
  return 0;
}

static void tell_progress(void *arg, uint32_t done, uint32_t of) {
  const struct run *run = arg;
  if (run->sink->progress)
    run->sink->progress(run->sink->arg, run->measured, run->sweep.count * run->repeat, (double)done / of);
}

// --- beginning ---

static int settle(struct run *run) {
  struct bench_ep_config *config = run->config;
  int err = bench_ep_sweep_parse(config, &run->sweep);
  if (err)
    return err;
  if (!config->local_ranks)
    config->local_ranks = run->sweep.max_ranks;
  if (config->local_ranks > BENCH_EP_MAX_RANKS)
    return fail(WEFT_ERR_INVALID, "--ranks %u: one host has at most %d ranks", config->local_ranks, BENCH_EP_MAX_RANKS);
  return 0;
}

static int note_settings(struct run *run) {
  const struct bench_ep_config *c = run->config;
  json_t *hosts = json_pack("[s]", run->host);
  json_t *settings = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i, s:i, s:i, s:I, s:i, s:i, s:i}",
      "op", c->ops, "mode", bench_ep_mode_names[c->mode], "tokens", c->tokens, "hidden", c->hidden, "topk", c->topk,
      "ranks", c->ranks, "experts_per_rank", c->experts, "dtype", c->dtypes, "combine_dtype", c->combine_dtypes,
      "layout", c->layouts, "skew", c->skews, "memory", c->memories, "graph", c->graph, "check", c->check, "share_gpus",
      c->share_gpus, "iterations", (int)c->iterations, "warmup", (int)c->warmup, "repeat", (int)run->repeat, "seed",
      (json_int_t)c->seed, "local_ranks", (int)c->local_ranks, "as_hosts", (int)c->as_hosts, "timeout_ms",
      (int)c->timeout_ms);
  if (!hosts || !settings) {
    json_decref(hosts);
    json_decref(settings);
    return fail(WEFT_ERR_NOMEM, "no memory for the settings");
  }
  json_decref(run->figures->hosts);
  json_decref(run->figures->settings);
  run->figures->hosts = hosts;
  run->figures->settings = settings;
  return 0;
}

// The store of this host's ranks alone, at loopback; who has its token may use it, and the ranks inherit that.
static int open_store(struct run *run) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  struct bench_ep_board *board = run->lead.board;
  char token[SECRET_DIGITS + 1];
  secret_make(token);
  options.token = token;
  int err = weft_store_server_start(&run->server, &options);
  if (err)
    return err;
  snprintf(board->url, sizeof board->url, "%s", weft_store_server_url(run->server));
  snprintf(board->token, sizeof board->token, "%s", token);
  snprintf(board->prefix, sizeof board->prefix, "/weft/bench/");
  return 0;
}

static int open_run(struct run *run) {
  const struct bench_ep_watch watch = {is_stopped, has_failed, tell_progress, run};
  if (gethostname(run->host, sizeof run->host) != 0)
    snprintf(run->host, sizeof run->host, "localhost");
  run->host[sizeof run->host - 1] = '\0';
  int err = settle(run);
  if (!err)
    err = note_settings(run);
  if (!err)
    err = bench_ep_lead_open(&run->lead, run->config, &run->sweep, &watch);
  if (!err)
    err = open_store(run);
  return err ? err : run->sink->begun(run->sink->arg, run->figures);
}

// --- measurements ---

static int gather(struct run *run, const struct bench_ep_point *point, struct bench_ep_found *found) {
  int err = bench_ep_found_open(found, point->ranks);
  for (uint32_t i = 0; i < bench_ep_lead_takes(&run->lead, point) && !err; i++)
    err = bench_ep_found_take(found, (uint32_t)run->lead.board->first_rank + i, run->host, run->lead.board, i);
  found->count = err ? 0 : found->ranks[0].result.count;
  found->stopped = is_stopped(run);
  return err;
}

static int tell_rows(struct run *run, uint32_t num_rows) {
  struct figures *figures = run->figures;
  int err = 0;
  figures->elapsed_s = (double)(clock_ns() - run->begin_ns) / 1e9;
  for (uint32_t i = figures->num_rows - num_rows; i < figures->num_rows && !err; i++)
    err = run->sink->row(run->sink->arg, figures, &figures->rows[i]);
  return err;
}

static int measure(struct run *run, uint32_t place, uint32_t turn) {
  const struct bench_ep_point *point = &run->sweep.points[place];
  struct bench_ep_found found = {0};
  uint32_t num_rows = 0;
  struct bench_ep_command command = {.point = place, .sequence = run->measured};
  int err = bench_ep_lead_measure(&run->lead, &command);
  if (!err)
    err = gather(run, point, &found);
  if (!err)
    err = bench_ep_add_rows(run->figures, run->config, &run->sweep, point, turn, &found, &num_rows);
  bench_ep_found_free(&found);
  return err ? err : tell_rows(run, num_rows);
}

// Each point once, then each again: what changes in the host as time goes on meets all of them alike.
static int measure_all(struct run *run) {
  int err = 0;
  for (uint32_t turn = 0; turn < run->repeat && !err; turn++)
    for (uint32_t place = 0; place < run->sweep.count && !err && !is_stopped(run); place++) {
      err = measure(run, place, turn);
      run->measured += !err;
    }
  return err;
}

static void close_run(struct run *run) {
  bench_ep_lead_close(&run->lead);
  weft_store_server_stop(run->server);
  bench_ep_sweep_free(&run->sweep);
}

int bench_ep_run(struct bench_ep_config *config, uint32_t repeat, const struct bench_ep_sink *sink,
                 struct figures *figures) {
  struct run run = {.config = config,
                    .sink = sink,
                    .repeat = repeat,
                    .figures = figures,
                    .begin_ns = clock_ns(),
                    .lead = {.lost = -1}};
  int err = figures_begin(figures, "ep");
  if (!err)
    err = open_run(&run);
  if (!err)
    err = measure_all(&run);
  figures->elapsed_s = (double)(clock_ns() - run.begin_ns) / 1e9;
  figures->complete = !err && run.measured == run.sweep.count * repeat && !is_stopped(&run);
  figures->passed = !err;
  if (err)
    snprintf(figures->error, sizeof figures->error, "%s", weft_last_error());
  close_run(&run);
  return err ? fail(err, "%s", figures->error) : 0;
}
