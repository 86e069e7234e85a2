// The process of one rank: it opens what it needs, runs the phases that the plan has for it, and reports the results.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "run/common/config_json.h"
#include "run/common/host.h"
#include "run/common/rank_pipe.h"
#include "run/common/store_json.h"
#include "run/rank/rank.h"

enum { FLUSH_MS = 5000, RETRY_MS = 50 };

// Takes the newest phase and the losses from a value of the store. Other values change nothing. Called on several
// threads.
static void learn(struct rank *rank, const char *value, size_t size) {
  json_t *json = json_loadb(value, size, JSON_DECODE_ANY, NULL);
  struct run_current read = {0};
  int err = run_current_from_json(&read, json);
  json_decref(json);
  pthread_mutex_lock(&rank->news.mutex);
  struct run_current *newest = &rank->news.current;
  bool newer = read.phase > newest->phase || read.num_lost > newest->num_lost;
  if (!err && read.phase <= rank->plan->num_phases && read.phase >= newest->phase && newer) {
    if (read.phase > newest->phase)
      rank->news.phase_ns = clock_ns();
    run_current_free(newest);
    *newest = read;
    read = (struct run_current){0};
    atomic_store(&rank->news.any, true);
  }
  pthread_mutex_unlock(&rank->news.mutex);
  run_current_free(&read);
}

static void on_store_event(void *arg, const struct weft_store_event *event) {
  struct rank *rank = arg;
  if (event->kind == WEFT_STORE_EVENT_PUT)
    learn(rank, event->kv->value, event->kv->value_len);
  else if (event->kind == WEFT_STORE_EVENT_RESET || event->kind == WEFT_STORE_EVENT_RESUMED)
    run_reporter_renew(rank->reporter); // to the watch a new store with as high a revision looks like the old one
}

// Reads the current phase from the store. `*next`: the revision from which to watch.
static int read_phase(struct rank *rank, int64_t *next) {
  char key[RUN_KEY_SIZE];
  struct weft_store_list *list;
  run_key(key, &rank->keys, "current");
  int err = weft_store_range(rank->store, key, false, 1, &list);
  if (err)
    return err;
  if (list->count > 0)
    learn(rank, list->kvs[0]->value, list->kvs[0]->value_len);
  *next = list->revision + 1;
  weft_store_list_free(list);
  return 0;
}

// The watch does not see changes that were made after the store returned and before the watch was open again.
static int on_renewed(void *arg) {
  int64_t next;
  return read_phase(arg, &next);
}

static int follow_phases(struct rank *rank) {
  char key[RUN_KEY_SIZE];
  int64_t next = 0;
  rank->news.current.phase = rank->current.phase = rank->task.phase; // the rank is launched after its begin
  rank->news.phase_ns = rank->phase_ns = rank->main_ns;
  int err = read_phase(rank, &next);
  run_key(key, &rank->keys, "current");
  return err ? err : weft_store_watch_open(rank->store, key, next, on_store_event, rank, &rank->watch);
}

// Reads the configuration and the plan of this rank's run.
static int read_run(struct rank *rank) {
  json_decref(rank->live);
  rank->live = NULL;
  int err = run_storage_get(rank->store, rank->keys.live, &rank->live);
  if (err)
    return err;
  const char *run = json_string_value(json_object_get(rank->live, "run"));
  if (!run || strcmp(run, rank->task.run) != 0)
    return fail(WEFT_ERR_NOT_FOUND, "run %s is no longer the current run of job '%s'", rank->task.run, rank->task.job);
  err = run_settings_from_json(&rank->config, json_object_get(rank->live, "config"));
  if (err)
    return err;
  char *plan = json_dumps(json_object_get(rank->live, "plan"), JSON_COMPACT);
  err = plan ? plan_from_text(&rank->plan, plan, strlen(plan)) : fail(WEFT_ERR_PROTOCOL, "the current run has no plan");
  free(plan);
  if (!err && rank->task.phase >= rank->plan->num_phases)
    err = fail(WEFT_ERR_PROTOCOL, "launched for phase %u of %u", rank->task.phase, rank->plan->num_phases);
  return err;
}

// Repeats a step of the start until it succeeds or the time is over: the store may not answer, or may not have the run
// again yet.
static int insist(struct rank *rank, int (*step)(struct rank *rank)) {
  uint64_t deadline = clock_deadline_ms((uint64_t)rank->task.wait_limit_s * 1000);
  for (;;) {
    int err = step(rank);
    if ((!run_storage_may_pass(err) && err != WEFT_ERR_NOT_FOUND) || clock_passed(deadline))
      return err;
    poll(NULL, 0, RETRY_MS);
  }
}

static int open_counters(struct rank *rank) {
  const struct run_task *task = &rank->task;
  if (task->num_counters == 0)
    return 0;
  if (task->counters_place >= task->num_counters)
    return fail(WEFT_ERR_PROTOCOL, "the task names place %u of %u counters", task->counters_place, task->num_counters);
  int err = run_counters_map(task->counters_fd, task->num_counters, &rank->counters);
  if (!err)
    run_counting_begin(&rank->counting, &rank->counters[task->counters_place]);
  close(task->counters_fd);
  return err;
}

static int open_store(struct rank *rank) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  run_task_store_options(&rank->task, &options);
  options.request_timeout_ms = RUN_REQUEST_MS;
  struct run_reporter_options reporter = {.live = rank->keys.live, .run = rank->task.run, .renewed = on_renewed};
  int err = weft_store_open(&rank->store, &options);
  if (!err)
    err = insist(rank, read_run);
  reporter.store = rank->store;
  reporter.lease = (int64_t)json_integer_value(json_object_get(rank->live, "lease"));
  reporter.arg = rank;
  if (!err)
    err = run_reporter_open(&rank->reporter, &reporter);
  if (!err)
    err = open_counters(rank);
  if (!err && !(rank->expected = malloc((rank->plan->ranks.count + 1) * sizeof *rank->expected)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a view");
  return err ? err : insist(rank, follow_phases);
}

static int open_home(struct rank *rank) {
  struct device_info info = {0};
  char why[DEVICE_WHY];
  int err = buffer_home_open(&rank->home, rank->task.gpu);
  if (!err && rank->home.api && !rank->home.api->describe(rank->task.gpu, &info, why))
    snprintf(rank->gpu_name, sizeof rank->gpu_name, "%.*s", (int)sizeof rank->gpu_name - 1, info.name);
  rank_record_begin(rank); // with the data that are known now
  return err;
}

static int open_ep(struct rank *rank) {
  const struct run_config *config = &rank->config;
  const struct plan_ranks *founders = &rank->plan->phases[0].live;
  char prefix[RUN_KEY_SIZE];
  run_key(prefix, &rank->keys, "ep/");
  struct weft_ep_options options = run_ep_options(config);
  options.store = rank->store;
  options.prefix = prefix;
  options.rank = rank->task.rank;
  options.capacity = rank->plan->capacity;
  options.founders = rank->task.phase == 0 ? founders->rank : NULL;
  options.num_founders = rank->task.phase == 0 ? founders->count : 0;
  options.flags = rank->task.phase > 0 ? WEFT_EP_OPTION_JOIN_ONLY : 0;
  options.device = rank->task.gpu;
  options.zero_copy_bytes = traffic_zero_copy_bytes(config, rank->plan->ranks.count);
  uint64_t deadline = clock_deadline_ms((uint64_t)config->startup_timeout_s * 1000);
  bool joins = rank->task.phase > 0;
  int err = open_home(rank);
  if (!err)
    err = weft_ep_open(&rank->ep, &options, config->startup_timeout_s * 1000);
  if (!err)
    err = traffic_open(&rank->traffic, rank->ep, config, &rank->home, rank->plan->capacity, rank->plan->ranks.count);
  if (!err && joins)
    err = traffic_rehearse(rank->traffic);
  if (joins)
    rank->offer_ns = clock_ns();
  if (!err)
    err = weft_ep_activate(rank->ep, (uint32_t)clock_left_ms(deadline));
  if (joins)
    rank->fixed_ns = clock_ns();
  return err;
}

static void announce_start(struct rank *rank) {
  char key[RUN_KEY_SIZE];
  run_key(key, &rank->keys, "start/%u/%d", rank->phase, rank->task.rank);
  run_reporter_put(rank->reporter, key, json_true());
  run_message_line(rank->task.message_fd, "global_rank=%d, local_rank=%u -> start phase %u", rank->task.rank,
                   rank->task.slot, rank->phase);
}

// Runs the phase, or repeats it, until it was measured among ranks of which none was lost meanwhile.
static int run_to_its_end(struct rank *rank, bool *left) {
  for (;; rank->again = true) {
    int err = rank_transition(rank, left);
    if (!err && *left)
      return 0;
    if (!err && !rank->announced)
      announce_start(rank);
    rank->announced |= !err;
    if (!err)
      err = rank_lose(rank);
    if (!err)
      err = rank_measure(rank);
    if (err != RANK_UNSETTLED)
      return err;
    rank_close_features(rank); // this route has ranks that are gone
  }
}

static int run_phase(struct rank *rank, bool *left) {
  if (!rank->again)
    rank_record_begin(rank);
  rank->announced = rank->again;
  int err = run_to_its_end(rank, left);
  if (err || *left)
    return err;
  rank_report_bandwidth(rank);
  run_message_line(rank->task.message_fd, "global_rank=%d, local_rank=%u -> end phase %u", rank->task.rank,
                   rank->task.slot, rank->phase);
  rank_record_put(rank, RESULTS_PASSED, "");
  return 0;
}

// Runs the phases in order. It goes back to the previous phase if that phase has lost ranks since this rank measured
// it.
static int run_phases(struct rank *rank) {
  bool left = false;
  for (rank->phase = rank->task.phase;;) {
    bool ends = rank->phase == rank->plan->num_phases;
    int err = ends ? rank_end(rank, &left) : run_phase(rank, &left);
    if (!err && left && !rank->must_leave) // the lead reports a leave that is not in the plan
      rank_record_put(rank, RESULTS_LEFT, "");
    rank->again = err == RANK_BACK;
    if (err == RANK_BACK) {
      rank_close_features(rank);
      if (!ends)
        rank_record_back(rank);
      rank->phase--;
    } else if (err || left || ends) {
      return err;
    } else {
      rank->phase++;
    }
  }
}

// Publishes the error in this rank's record and among the run's reasons to end.
static void report_failure(struct rank *rank, int err, const char *error) {
  char key[RUN_KEY_SIZE];
  if (!rank->reporter)
    return;
  if (rank->record.rank.host[0] && rank->phase < rank->plan->num_phases) // the record has been begun
    rank_record_put(rank, RESULTS_FAILED, error);
  run_key(key, &rank->keys, "fail/rank-%d", rank->task.rank);
  run_reporter_put(rank->reporter, key,
                   json_pack("{s:i, s:i, s:i, s:i, s:s, s:i, s:i}", "status", weft_err_exit_status(err), "rank",
                             (int)rank->task.rank, "phase", (int)rank->phase, "launched", (int)rank->task.phase,
                             "error", error, "lost", (int)rank->lost, "found_lost", (int)rank->found_lost));
}

static int run(struct rank *rank) {
  int err = open_store(rank);
  if (err)
    return err;
  rank_record_begin(rank); // later failures go into the record
  err = open_ep(rank);
  return err ? err : run_phases(rank);
}

static void close_rank(struct rank *rank) {
  weft_store_watch_close(rank->watch); // before the reporter, which its callback uses
  run_reporter_close(rank->reporter, clock_deadline_ms(FLUSH_MS));
  rank_close_features(rank);
  traffic_close(rank->traffic);
  rank_take_events(rank);
  weft_ep_close(rank->ep);
  buffer_home_close(&rank->home);
  weft_store_close(rank->store);
  run_counters_unmap(rank->counters, rank->task.num_counters);
  run_record_free(&rank->record);
  run_record_free(&rank->before);
  run_current_free(&rank->current);
  run_current_free(&rank->news.current);
  pthread_mutex_destroy(&rank->news.mutex);
  rank_events_free(&rank->events);
  free(rank->expected);
  plan_free(rank->plan);
  json_decref(rank->live);
  run_task_free(rank->task_json);
}

int run_rank_main(int argc, char **argv) {
  struct rank rank = {
      .main_ns = clock_ns(), .lost = -1, .found_lost = -1, .news = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
  (void)argc;
  (void)argv;
  signal(SIGPIPE, SIG_IGN);
  int err = run_task_receive(&rank.task, &rank.task_json);
  if (err) {
    log_error("%s", weft_last_error());
    return weft_err_exit_status(err);
  }
  if (getppid() != rank.task.agent_pid) {
    log_error("the agent that started this rank, process %lld, has ended", (long long)rank.task.agent_pid);
    run_task_free(rank.task_json);
    return weft_err_exit_status(WEFT_ERR_PEER_LOST);
  }
  rank.phase = rank.task.phase;
  run_host_describe(rank.host, sizeof rank.host, rank.boot, sizeof rank.boot);
  run_keys_init(&rank.keys, rank.task.job, rank.task.run);
  err = run(&rank);
  if (err) {
    char error[RESULTS_TEXT];
    snprintf(error, sizeof error, "%s", weft_last_error());
    log_error("rank %d: %s", rank.task.rank, error);
    printable_text(error); // it may end within a character, and JSON allows only UTF-8
    report_failure(&rank, err, error);
  }
  close_rank(&rank);
  return weft_err_exit_status(err);
}
