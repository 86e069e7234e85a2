// The whole benchmark: the processes of this host, the store, the meeting, and the sweep.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "bench/common/children.h"
#include "bench/common/store.h"
#include "bench/common/verdict.h"
#include "bench/transfer/report.h"

struct running {
  struct transfer_call *call;
  struct transfer_plan plan;
  struct bench_verdict verdict;
  bool refused;
  bool reported; // the report has begun
};

// --- the sweep ---

struct sweep {
  struct running *running;
  struct transfer_worker *worker;
  struct transfer_report *report; // of rank 0; NULL on others
  double done, total;             // units of work: bytes, and a cost for each iteration
};

static double work_of(const struct transfer_plan *plan, uint64_t block, uint64_t batch) {
  enum { ITERATION_BYTES = 16384 };
  uint64_t iterations =
      (uint64_t)transfer_share(plan, plan->iterations + plan->warmup, block) * plan->config.num_threads;
  return (double)iterations * ((double)block * (double)batch + ITERATION_BYTES);
}

// Measures a row, again if initiators hardly moved at the same time: on a busy host one of them may have had no
// processor while others did all their work. All workers see the same window, so they decide alike. The report says
// whether the window of the last try is wide enough.
static int run_row(struct sweep *sweep, const struct transfer_row *row, struct transfer_gathered *all) {
  enum { TRIES = 4 };
  int err = 0;
  for (int i = 0; i < TRIES && !err; i++) {
    struct transfer_result result = {0};
    transfer_gathered_free(all);
    err = transfer_row_run(sweep->worker, row, &result);
    if (!err)
      err = transfer_gather(sweep->worker, &result, all);
    transfer_result_free(&result);
    if (!err && !all->again)
      break;
  }
  return err;
}

static int measure(struct sweep *sweep, const struct transfer_row *row) {
  const struct transfer_plan *plan = &sweep->running->plan;
  struct transfer_gathered all = {0};
  if (sweep->report)
    bench_progress(&sweep->report->progress, sweep->done, sweep->total, "%" PRIu64 " B by %s", row->block,
                   row->backend->name);
  int err = run_row(sweep, row, &all);
  if (!err && sweep->report)
    err = transfer_report_row(sweep->report, sweep->worker, row, &all);
  transfer_gathered_free(&all);
  sweep->done += work_of(plan, row->block, row->batch);
  return err ? fail_context(err, "%" PRIu64 " B by %s", row->block, row->backend->name) : 0;
}

// Measures one size: the repeats and the back ends by turns, A B A B.
static int measure_size(struct sweep *sweep, uint64_t block, uint64_t batch) {
  const struct transfer_plan *plan = &sweep->running->plan;
  int err = 0;
  for (uint32_t run = 0; run < plan->config.common.repeat; run++)
    for (uint32_t i = 0; i < plan->num_backends && !err; i++) {
      const struct transfer_row row = {.backend = &plan->backends[i], .block = block, .batch = batch, .run = run};
      err = measure(sweep, &row);
    }
  return err;
}

static void each_size(const struct transfer_plan *plan, struct sweep *sweep, int *err) {
  const struct transfer_config *config = &plan->config;
  for (uint64_t block = config->start_block_size; block <= config->max_block_size && !*err; block *= 2)
    for (uint64_t batch = config->start_batch_size; batch <= config->max_batch_size && !*err; batch *= 2) {
      if (sweep->worker)
        *err = measure_size(sweep, block, batch);
      else
        sweep->total += work_of(plan, block, batch) * config->common.repeat * plan->num_backends;
    }
}

// --- the report ---

// A run that fails before its first row has a report, too, since the files of an earlier run would be taken for its
// own. Wrong options leave the files as they were.
static bool may_report(int err) {
  return err != WEFT_ERR_INVALID;
}

// Returns `err` with its sentence, or why the report cannot begin.
static int begin_report(struct running *running, struct transfer_report *report, int err) {
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  running->reported = true;
  int begun = transfer_report_begin(report, running->call, &running->plan);
  return bench_output_result(&running->call->output, err, why, begun);
}

// For a run whose workers have not met. Returns `err` with its sentence.
static int report_failure(struct running *running, int err) {
  struct transfer_report report = {0};
  begin_report(running, &report, err);
  return transfer_report_end(&report, err, &running->refused);
}

// --- a worker ---

// `meet` is open during the call, or NULL.
static int run_worker(struct running *running, struct meet *meet) {
  struct transfer_worker worker = {0};
  struct transfer_report report = {0};
  struct sweep sweep = {.running = running};
  bool reports = !meet || meet_rank(meet) == 0;
  int err = 0;
  each_size(&running->plan, &sweep, &err); // only adds up the work, since there is no worker yet
  err = transfer_worker_open(&worker, &running->plan, meet);
  if (reports && may_report(err)) {
    sweep.report = &report;
    err = begin_report(running, &report, err);
  }
  if (!err && reports)
    transfer_report_head(&report, &worker);
  sweep.worker = &worker;
  if (!err)
    each_size(&running->plan, &sweep, &err);
  if (!err && meet)
    err = bench_verdict_share(meet, 0, reports ? &report.figures : NULL, running->plan.config.common.timeout_ms,
                              &running->verdict);
  int cause = err && meet ? meet_cause(meet, err) : 0;
  err = cause ? cause : err;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  // The store carries the message; the store may have ended with the lost worker, so the error is kept here.
  if (err && meet) {
    meet_fail(meet, err, why);
    fail(err, "%s", why);
  }
  if (sweep.report)
    err = transfer_report_end(&report, err, &running->refused);
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  transfer_worker_close(&worker);
  return err ? fail(err, "%s", why) : 0;
}

// --- the meeting ---

// The other workers of this process learn the store only when this process has its rank. So this process is the first
// of them, and the one that reports.
struct starting {
  struct running *running;
  struct bench_children *children;
  const struct bench_store_place *place;
  bool announced, met;
  int err;
  char child_ended[192]; // how a child ended, if one did before all workers had met
  uint64_t ended_ns;
};

static void start_children(void *arg, uint32_t come, uint32_t size) {
  struct starting *starting = arg;
  (void)come, (void)size;
  if (!starting->announced && starting->children)
    starting->err = bench_children_send(starting->children, starting->place, sizeof *starting->place);
  starting->announced = true;
}

static bool is_asked_to_end(void *arg) {
  enum { GRACE_NS = 1000000000 };
  struct starting *starting = arg;
  uint32_t index;
  bool well;
  char how[128];
  if (starting->err || stop_asked(NULL))
    return true;
  if (starting->children && !starting->ended_ns &&
      bench_children_ended(starting->children, &index, &well, how, sizeof how)) {
    snprintf(starting->child_ended, sizeof starting->child_ended, "worker process %u of this host %s", index, how);
    starting->ended_ns = clock_ns();
  }
  // Within this time the meeting may report a better reason.
  return starting->ended_ns && clock_ns() - starting->ended_ns > GRACE_NS;
}

static int meet_and_run(struct running *running, const struct bench_store *store, struct starting *starting) {
  char host[256] = "localhost", why[FAIL_DETAIL_SIZE];
  struct meet *meet = NULL;
  gethostname(host, sizeof host - 1);
  const struct meet_options options = {
      .store = store->client,
      .prefix = store->prefix,
      .size = running->plan.workers,
      .settings = running->call->agreed,
      .follows = store->follows,
      .host = host,
      .address = *store->address ? store->address : NULL,
      .timeout_ms = running->plan.config.common.startup_timeout_s * 1000,
      .interrupted = is_asked_to_end,
      .waiting = start_children,
      .arg = starting,
  };
  int err = meet_open(&meet, &options);
  if (err == WEFT_ERR_CANCELED && starting->ended_ns)
    err = fail(WEFT_ERR_PEER_LOST, "%s", starting->child_ended);
  if (err && stop_came())
    err = stop_check();
  starting->met = !err;
  if (!err)
    err = run_worker(running, meet);
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  meet_close(meet);
  return err ? fail(err, "%s", why) : 0;
}

// A worker that this process has started: the parent sends it the place of the store. All workers learn of an error
// through the meeting; the parent is one of them, and prints it.
static int be_child(void *arg, uint32_t index, int socket) {
  struct running *running = arg;
  struct starting alone = {.running = running};
  struct bench_store store;
  struct bench_store_place place;
  const struct bench_options *options = &running->plan.config.common;
  (void)index;
  int err = bench_child_receive(socket, &place, sizeof place, options->startup_timeout_s * 1000);
  if (!err)
    err = bench_store_join(&store, options, &place);
  explicit_bzero(&place, sizeof place);
  if (err)
    return err;
  err = meet_and_run(running, &store, &alone);
  bench_store_close(&store);
  return err;
}

// How many workers this process runs.
static int count_local(const struct transfer_plan *plan, uint32_t *count) {
  const struct bench_options *options = &plan->config.common;
  bool named = options->store || options->rank_server || plan->config.runtime_type == TRANSFER_ASIO;
  *count = plan->config.local_workers ? plan->config.local_workers : named ? 1 : plan->workers;
  if (*count <= plan->workers)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "--local_workers %u: the benchmark has %u (--num_initiator_dev and --num_target_dev); want at most %u",
              *count, plan->workers, plan->workers);
}

// With ASIO, the process that can listen at the address has the store. On loopback both processes know its token.
static int open_by_asio(struct bench_store *store, struct running *running) {
  const struct transfer_config *config = &running->plan.config;
  struct bench_options options = config->common;
  bool loopback = strncmp(config->asio_address, "127.", 4) == 0 || strcmp(config->asio_address, "::1") == 0;
  if (!options.token && !loopback)
    return fail(WEFT_ERR_INVALID,
                "--runtime_type ASIO with --asio_address %s: both workers need the same token: set WEFT_TOKEN, or give "
                "--token_file",
                config->asio_address);
  if (!options.token)
    options.token = "weft-bench-on-loopback";
  options.quiet = true;
  options.listen = config->asio_address;
  options.store_port = config->asio_port;
  int err = bench_store_open(store, &options, running->plan.workers > 1, running->call->command);
  if (err != WEFT_ERR_BUSY && err != WEFT_ERR_SYSTEM)
    return err;
  options.listen = NULL;
  options.rank_server = config->asio_address;
  return bench_store_open(store, &options, false, running->call->command);
}

static int open_store(struct bench_store *store, struct running *running, bool others) {
  const struct bench_options *options = &running->plan.config.common;
  if (running->plan.config.runtime_type == TRANSFER_ASIO && !options->store && !options->rank_server)
    return open_by_asio(store, running);
  return bench_store_open(store, options, others, running->call->command);
}

static int run_with(struct running *running, struct bench_children *children, bool others) {
  struct bench_store store = {0};
  struct bench_store_place place;
  struct starting starting = {.running = running, .children = children, .place = &place};
  char why[FAIL_DETAIL_SIZE];
  int err = open_store(&store, running, others);
  if (err)
    return err;
  bench_store_describe(&store, &running->plan.config.common, &place);
  err = meet_and_run(running, &store, &starting);
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  explicit_bzero(&place, sizeof place);
  if (children && starting.announced) {
    enum { CLOSE_MS = 5000, ALONE_MS = 500 };
    // Before all have met, the children wait for a worker that will not come. A terminal sends its signal to them, too.
    bool alone = !starting.met && (err == WEFT_ERR_CANCELED || starting.ended_ns);
    // The children use the store, which closes after this.
    int ended = bench_children_wait(children, alone ? ALONE_MS : CLOSE_MS);
    if (!err && ended) {
      err = ended;
      snprintf(why, sizeof why, "%s", weft_last_error());
    }
  }
  bench_store_close(&store);
  return err ? fail(err, "%s", why) : 0;
}

static int run_joined(struct running *running) {
  struct bench_children children = {0};
  uint32_t local = 0;
  char why[FAIL_DETAIL_SIZE];
  int err = count_local(&running->plan, &local);
  if (!err && local > 1)
    err = bench_children_start(&children, local - 1, be_child, running);
  if (!err)
    err = run_with(running, local > 1 ? &children : NULL, local < running->plan.workers);
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  if (local > 1)
    bench_children_end(&children);
  if (err)
    fail(err, "%s", why);
  // Elsewhere another process may be the one that reports.
  bool alone = local == running->plan.workers;
  return err && alone && !running->reported && may_report(err) ? report_failure(running, err) : err;
}

int transfer_run(struct transfer_call *call, bool *refused) {
  struct running running = {.call = call};
  *refused = false;
  int err = transfer_settle(&running.plan, call->config);
  if (!err)
    err = bench_options_check(&call->config->common);
  if (err)
    return err;
  stop_watch(call->command);
  if (running.plan.storage == TRANSFER_OBJECTS)
    err = transfer_stored_set_client(call->config);
  if (!err)
    err = running.plan.storage != TRANSFER_NONE ? run_worker(&running, NULL) : run_joined(&running);
  if (!err && !running.reported)
    bench_verdict_print(&running.verdict, call->command);
  *refused = running.refused || running.verdict.refused;
  return err;
}
