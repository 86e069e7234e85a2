// The whole benchmark: processes, store, meeting, worker, figures.
#include "bench/traffic/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "base/text/digits.h"
#include "base/time/clock.h"
#include "bench/common/children.h"
#include "bench/common/output.h"
#include "bench/common/progress.h"
#include "bench/common/store.h"
#include "bench/common/verdict.h"
#include "bench/traffic/book.h"
#include "bench/traffic/run.h"

static const char command[] = "weft bench traffic";

enum { CLOSE_MS = 10000, ALONE_MS = 500, GRACE_NS = 1000000000, WHY = 1024 };

// One worker's work in this process.
struct job {
  const struct traffic_config *config;
  struct bench_store *store;
  const char *token;               // the token that agents share; NULL if there is none
  bool front;                      // the user started this process
  struct bench_children *children; // the workers that the front process started; NULL in other processes
  char child_ended[192];           // how a child ended, if one did before all workers had met
  uint64_t ended_ns;
  struct bench_progress progress;
  struct bench_output output;
  struct figures figures;
  uint64_t begun_ns;
  json_int_t clock_error_ns; // the largest of all batches
  struct limits *limits;
  struct traffic_book *book;
  bool reports;
  struct bench_verdict verdict;
};

// --- what must be equal in all workers ---

static uint64_t digest_pattern(uint64_t digest, const struct traffic_pattern *pattern) {
  digest = random_mix(digest ^ pattern->ranks);
  digest =
      random_mix(digest ^ ((uint64_t)pattern->op << 8 | (pattern->memory_given ? 1 + (uint64_t)pattern->memory : 0)));
  digest = random_mix(digest ^ (uint64_t)(pattern->before_s * 1e6));
  digest = random_mix(digest ^ (uint64_t)(pattern->after_s * 1e6));
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    const struct traffic_pair *pair = &pattern->pairs[i];
    digest = random_mix(digest ^ ((uint64_t)pair->from << 32 | pair->to));
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
      digest = random_mix(random_mix(digest ^ pair->kinds[kind].bytes) ^ pair->kinds[kind].count);
  }
  return digest;
}

static json_t *settings_of(const struct traffic_config *config) {
  uint64_t digest = 0;
  char text[17];
  for (uint32_t i = 0; i < config->plan->num_patterns; i++)
    digest = digest_pattern(digest, &config->plan->patterns[i]);
  snprintf(text, sizeof text, "%016" PRIx64, digest);
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:b}", "benchmark", "traffic",
                   "patterns_digest", text, "patterns", (json_int_t)config->plan->num_patterns, "workers",
                   (json_int_t)config->workers, "iterations", (json_int_t)config->iterations, "warmup",
                   (json_int_t)config->warmup, "alone", (json_int_t)config->alone, "repeat",
                   (json_int_t)config->options->repeat, "seed", (json_int_t)config->seed, "memory",
                   traffic_memory_names[config->memory], "transport", config->transport ? config->transport : "",
                   "check", config->check, "isolate_pairs", config->isolate_pairs);
}

// --- the reporter ---

static json_t *patterns_of(const struct traffic_plan *plan) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < plan->num_patterns; i++) {
    const struct traffic_pattern *pattern = &plan->patterns[i];
    json_t *one = json_pack("{s:s, s:I, s:f, s:f, s:I}", "name", pattern->name, "shards", (json_int_t)pattern->shards,
                            "sleep_before_launch_sec", pattern->before_s, "sleep_after_launch_sec", pattern->after_s,
                            "ranks", (json_int_t)pattern->ranks);
    if (pattern->metadata)
      json_object_set(one, "metadata", pattern->metadata);
    json_array_append_new(list, one);
  }
  return list;
}

// `worker` is NULL if the workers have not met.
static void describe(struct job *job, const struct traffic_worker *worker) {
  char host[256] = "this host";
  gethostname(host, sizeof host - 1);
  for (uint32_t i = 0; i < (worker ? worker->sync.size : 1); i++)
    json_array_append_new(job->figures.hosts, json_string(worker ? meet_host(worker->meet, i) : host));
  json_t *settings = settings_of(job->config);
  json_object_update(job->figures.settings, settings);
  json_decref(settings);
  json_object_set_new(job->figures.settings, "plan", patterns_of(job->config->plan));
}

// The times that only some patterns may have.
static const char *const *times_of_gaps(const struct traffic_plan *plan) {
  static const char *const times[] = {"gap_before", "gap_after", NULL};
  bool before = false, after = false;
  for (uint32_t i = 0; i < plan->num_patterns; i++) {
    before |= plan->patterns[i].before_s > 0;
    after |= plan->patterns[i].after_s > 0;
  }
  static const char *const only_before[] = {"gap_before", NULL};
  return before && after ? times : before ? only_before : after ? times + 1 : NULL;
}

static int open_report(struct job *job, const struct traffic_worker *worker) {
  static const char *const keys[2][2][9] = {
      {{"step", "pattern", "op", "senders", "bytes"}, {"step", "pattern", "op", "senders", "from", "to", "bytes"}},
      {{"step", "pattern", "op", "senders", "rank", "bytes"},
       {"step", "pattern", "op", "senders", "rank", "from", "to", "bytes"}}};
  static const char *const columns[] = {"latency", "bandwidth", "alone_latency", "alone_bandwidth", NULL};
  static const char *const worker_keys[] = {"rank", "host", "from", "to", NULL};
  const struct traffic_config *config = job->config;
  int rc = figures_begin(&job->figures, "traffic");
  if (rc == 0)
    rc = limits_open(&job->limits);
  if (rc == 0)
    rc = traffic_book_open(&job->book, worker);
  if (rc != 0)
    return rc;
  describe(job, worker);
  job->figures.passed = true;
  job->begun_ns = clock_ns();
  bench_output_init(&job->output, config->options);
  job->output.color = config->color;
  job->output.unicode = config->unicode;
  job->output.width = config->width;
  job->output.columns = keys[config->show_workers][config->show_pairs];
  job->output.figures = columns;
  if (config->show_workers || config->show_pairs)
    job->output.more_keys = worker_keys + (config->show_workers ? 0 : 2);
  job->output.more_times = times_of_gaps(config->plan);
  job->output.progress = &job->progress;
  rc = bench_output_begin(&job->output, &job->figures);
  job->reports = rc == 0;
  return rc;
}

static int take(void *arg, const struct traffic_batch *batch) {
  static const char *const names[] = {"alone", "in the sequence", "pair by pair"};
  struct job *job = arg;
  bench_progress(&job->progress, batch->done, 1, "%s", names[batch->stage]);
  json_int_t error_ns = job->clock_error_ns;
  for (uint32_t i = 0; i < job->config->workers; i++) {
    json_int_t its = json_integer_value(json_object_get(batch->reports[i], "clock_error_ns"));
    error_ns = its > error_ns ? its : error_ns;
  }
  job->clock_error_ns = error_ns;
  json_object_set_new(job->figures.settings, "clock_error_us", json_real(digits_rounded((double)error_ns / 1e3)));
  return traffic_book_take(job->book, batch);
}

// Ends the report with the figures so far. `err` says why there are no more, and `why` is its sentence.
static int close_report(struct job *job, uint32_t repeat, int err, const char *why) {
  int rc = err ? traffic_book_rows(job->book, &job->figures, &job->output, job->limits, repeat) : 0;
  job->figures.complete = err == 0;
  job->figures.elapsed_s = (double)(clock_ns() - job->begun_ns) / 1e9;
  if (err == WEFT_ERR_CANCELED)
    snprintf(job->figures.cut_short, sizeof job->figures.cut_short, "%s", stop_came() ? stop_name() : "stopped");
  else if (err)
    snprintf(job->figures.error, sizeof job->figures.error, "%.255s", why);
  job->figures.passed = job->figures.passed && job->figures.complete;
  bench_progress_hide(&job->progress);
  int written = bench_output_end(&job->output, &job->figures);
  return rc == 0 ? written : rc;
}

// A run that fails before its report is open writes its files here, since those of an earlier run would be taken for
// its own. Wrong options leave them as they were; with workers elsewhere another process may be the reporter. Returns
// `err` with its sentence.
static int report_failure(struct job *job, int err) {
  struct figures *figures = &job->figures;
  char why[WHY];
  snprintf(why, sizeof why, "%s", weft_last_error());
  if (err == WEFT_ERR_INVALID || job->reports || job->config->local != job->config->workers)
    return err;
  if (figures_begin(figures, "traffic") != 0)
    return fail(err, "%s", why);
  describe(job, NULL);
  bench_output_init(&job->output, job->config->options);
  int written = bench_output_begin(&job->output, figures);
  if (written == 0) {
    job->output.out = NULL; // without rows there is no table
    snprintf(figures->error, sizeof figures->error, "%.255s", why);
    if (err == WEFT_ERR_CANCELED)
      snprintf(figures->cut_short, sizeof figures->cut_short, "%s", stop_came() ? stop_name() : "stopped");
    written = bench_output_end(&job->output, figures);
  }
  figures_free(figures);
  return bench_output_result(&job->output, err, why, written);
}

// --- the worker ---

static int measure(struct job *job, struct traffic_worker *worker) {
  const struct traffic_config *config = job->config;
  bool reports = worker->reporter == worker->sync.rank;
  uint32_t repeat = 0;
  char why[WHY];
  int rc = reports ? open_report(job, worker) : 0;
  for (; rc == 0 && repeat < config->options->repeat; repeat++) {
    rc = traffic_run_all(worker, repeat, reports ? take : NULL, job);
    if (rc == 0 && reports)
      rc = traffic_book_rows(job->book, &job->figures, &job->output, job->limits, repeat);
    if (rc != 0)
      break;
  }
  if (rc == 0)
    rc = bench_verdict_share(worker->meet, worker->reporter, reports ? &job->figures : NULL,
                             CLOSE_MS + 2 * worker->sync.timeout_ms, &job->verdict);
  if (rc == WEFT_ERR_CANCELED && stop_came())
    stop_check(); // its sentence names the signal
  snprintf(why, sizeof why, "%s", rc ? weft_last_error() : "");
  if (rc != 0 && !meet_lost(worker->meet, NULL, NULL, 0))
    meet_fail(worker->meet, rc, why); // first of all, so that no worker waits
  int written = job->reports ? close_report(job, repeat, rc, why) : 0;
  return bench_output_result(&job->output, rc, why, written);
}

static void free_report(struct job *job) {
  traffic_book_close(job->book);
  limits_close(job->limits);
  if (job->figures.kind[0])
    figures_free(&job->figures);
}

static bool ask(void *arg) {
  struct job *job = arg;
  uint32_t index;
  bool well;
  char how[128];
  if (stop_came())
    return true;
  if (job->children && !job->child_ended[0] && bench_children_ended(job->children, &index, &well, how, sizeof how))
    snprintf(job->child_ended, sizeof job->child_ended, "worker process %u of this host %s", index, how);
  if (job->child_ended[0] && job->ended_ns == 0)
    job->ended_ns = clock_ns();
  // Within this time the meeting may report a better reason.
  return job->ended_ns && clock_ns() - job->ended_ns > GRACE_NS;
}

static void count_in(void *arg, uint32_t come, uint32_t size) {
  struct job *job = arg;
  if (job->front)
    bench_progress(&job->progress, come, size, "%u of %u workers have come", come, size);
}

static int meet_others(struct job *job, struct meet **meet) {
  char host[256] = "this host";
  gethostname(host, sizeof host - 1);
  json_t *settings = settings_of(job->config);
  struct meet_options options = {.store = job->store->client,
                                 .prefix = job->store->prefix,
                                 .size = job->config->workers,
                                 .settings = settings,
                                 .follows = job->store->follows,
                                 .host = host,
                                 .address = job->store->address[0] ? job->store->address : NULL,
                                 .timeout_ms = job->config->options->startup_timeout_s * 1000,
                                 .interrupted = ask,
                                 .waiting = count_in,
                                 .arg = job};
  int rc = settings ? meet_open(meet, &options) : fail(WEFT_ERR_NOMEM, "no memory for settings");
  json_decref(settings);
  if (rc == WEFT_ERR_CANCELED && job->child_ended[0])
    return fail(WEFT_ERR_PEER_LOST, "%s", job->child_ended);
  return rc == WEFT_ERR_CANCELED && stop_came() ? stop_check() : rc;
}

static int work(struct job *job) {
  struct meet *meet = NULL;
  struct traffic_worker worker;
  char why[WHY];
  int rc = meet_others(job, &meet);
  if (rc != 0) {
    // The front process sees only that this worker ended, so this one prints its error.
    if (!job->front && rc != WEFT_ERR_CANCELED && rc != WEFT_ERR_INVALID)
      fprintf(stderr, "%s: a worker process: %s\n", command, weft_last_error());
    return rc;
  }
  job->children = NULL; // from now on the meeting notices deaths
  rc = traffic_worker_open(&worker, job->config, meet, job->token, job->front);
  if (rc == 0) {
    rc = measure(job, &worker);
  } else if (!meet_lost(meet, NULL, NULL, 0)) {
    if (rc == WEFT_ERR_CANCELED && stop_came())
      stop_check();
    snprintf(why, sizeof why, "%s", weft_last_error());
    meet_fail(meet, rc, why);
    fail(rc, "%s", why);
  }
  snprintf(why, sizeof why, "%s", rc ? weft_last_error() : "");
  free_report(job);
  traffic_worker_close(&worker);
  meet_close(meet);
  return rc == 0 ? 0 : fail(rc, "%s", why);
}

// --- processes ---

static int be_child(void *arg, uint32_t index, int socket) {
  const struct traffic_config *config = arg;
  struct bench_store_place *place = calloc(1, sizeof *place);
  struct bench_store store;
  struct job job = {.config = config, .store = &store};
  (void)index;
  int rc = place ? bench_child_receive(socket, place, sizeof *place, config->options->startup_timeout_s * 1000)
                 : WEFT_ERR_NOMEM;
  if (rc == 0)
    rc = bench_store_join(&store, config->options, place);
  if (rc == 0) {
    job.token = place->token[0] ? place->token : NULL;
    bench_progress_begin(&job.progress, true);
    rc = work(&job);
    bench_store_close(&store);
  }
  free(place);
  return rc;
}

static int lead(const struct traffic_config *config, struct bench_children *children, int *status) {
  struct bench_store_place *place = calloc(1, sizeof *place);
  struct bench_store store;
  struct job job = {.config = config, .store = &store, .front = true, .children = children};
  int rc = place ? bench_store_open(&store, config->options, config->workers > config->local, command)
                 : fail(WEFT_ERR_NOMEM, "no memory for a store");
  if (rc != 0) {
    free(place);
    return report_failure(&job, rc);
  }
  bench_store_describe(&store, config->options, place);
  rc = bench_children_send(children, place, sizeof *place);
  job.token = place->token[0] ? place->token : NULL;
  bench_progress_begin(&job.progress, config->options->quiet);
  if (rc == 0)
    rc = work(&job);
  *status = rc == 0 && job.verdict.refused;
  if (rc == 0 && !job.reports)
    bench_verdict_print(&job.verdict, command);
  char why[WHY];
  snprintf(why, sizeof why, "%s", rc ? weft_last_error() : "");
  bench_progress_hide(&job.progress);
  // Before all have met, the children wait for a worker that will not come. A terminal sends its signal to them, too.
  bool alone = job.children && rc == WEFT_ERR_CANCELED;
  if (rc != WEFT_ERR_PEER_LOST || !job.child_ended[0])
    bench_children_wait(children, alone ? ALONE_MS : CLOSE_MS);
  bench_store_close(&store);
  explicit_bzero(place, sizeof *place);
  free(place);
  return rc == 0 ? 0 : report_failure(&job, fail(rc, "%s", why));
}

int traffic_bench(const struct traffic_config *config, int *status) {
  struct bench_children children;
  *status = 0;
  stop_watch(command);
  int rc = bench_options_check(config->options);
  if (rc == 0)
    rc = bench_children_start(&children, config->local - 1, be_child, (void *)config);
  if (rc != 0)
    return rc;
  rc = lead(config, &children, status);
  char why[WHY];
  snprintf(why, sizeof why, "%s", rc ? weft_last_error() : "");
  bench_children_end(&children);
  return rc == 0 ? 0 : fail(rc, "%s", why);
}
