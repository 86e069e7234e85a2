// Workers in separate processes, on the server of a test.
#include "meet/processes.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "group/support/processes.h"
#include "meet/meet.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft/err.h>
#include <weft/store.h>

enum { URL = 64 };
enum { MANY = 64, FEW = 4, KILLS = 10, KILL_WITHIN_US = 250000, COME_MS = 2000 };

struct part {
  const char *url; // NULL: the worker has the store itself, and tells its URL first
  uint32_t size;
  bool endless;    // steps until something ends them
  bool says_begun; // tells also when it has taken a step with all the others, for whom it then waits long enough
};

// What a worker tells.
struct report {
  int err;
  uint32_t rank;
  uint64_t at_ns;
  char why[512];
};

static void send_report(int say, const struct meet *meet, int err) {
  struct report report = {.err = err, .rank = meet ? meet_rank(meet) : UINT32_MAX, .at_ns = clock_ns()};
  if (err)
    snprintf(report.why, sizeof report.why, "%s", weft_last_error());
  if (write(say, &report, sizeof report) != sizeof report)
    _exit(1);
}

static int take_steps(struct meet *meet, int say, const struct part *part) {
  int err = 0;
  for (uint32_t step = 0; !err && (part->endless || step < 3); step++) {
    if (step == 1 && part->says_begun)
      send_report(say, meet, 0);
    json_t *all[MANY], *mine = json_integer(meet_rank(meet));
    err = meet_all_gather(meet, "a step", mine, PROCESSES_DEADLINE_MS, all);
    json_decref(mine);
    for (uint32_t rank = 0; rank < meet_size(meet) && !err; rank++) {
      if (json_integer_value(all[rank]) != rank)
        err = WEFT_ERR_DATA;
      json_decref(all[rank]);
    }
  }
  return err;
}

static void serve(int say, char *url) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  weft_store_server_t *server; // until the end of the process
  if (weft_store_server_start(&server, &options) != 0)
    _exit(1);
  snprintf(url, URL, "%s", weft_store_server_url(server));
  if (write(say, url, URL) != URL)
    _exit(1);
}

static void work(int hear, int say, const void *arg) {
  const struct part *part = arg;
  char url[URL] = "";
  struct weft_store_options store_options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  struct meet *meet = NULL;
  if (!part->url)
    serve(say, url);
  store_options.endpoints = part->url ? part->url : url;
  store_options.request_timeout_ms = PROCESSES_DEADLINE_MS / 3;
  if (weft_store_open(&store, &store_options) != 0)
    _exit(1);
  const struct meet_options options = {.store = store,
                                       .prefix = "weft/processes/",
                                       .size = part->size,
                                       .host = "here",
                                       .timeout_ms =
                                           part->endless && !part->says_begun ? COME_MS : PROCESSES_DEADLINE_MS};
  int err = meet_open(&meet, &options);
  if (!err)
    err = take_steps(meet, say, part);
  send_report(say, meet, err);
  processes_await_end(hear);
  meet_close(meet);
  weft_store_close(store);
}

// Asked by a process of its own: one that has a client had better fork no more.
static void count_keys(int hear, int say, const void *arg) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  struct weft_store_list *list;
  weft_store_t *store;
  (void)hear;
  options.endpoints = arg;
  if (weft_store_open(&store, &options) != 0 || weft_store_range(store, "weft/processes/", true, 0, &list) != 0)
    _exit(1);
  for (size_t i = 0; i < list->count; i++)
    fprintf(stderr, "left in the store: %s\n", list->kvs[i]->key);
  uint64_t count = list->count;
  if (write(say, &count, sizeof count) != sizeof count)
    _exit(1);
  weft_store_list_free(list);
  weft_store_close(store);
}

static void expect_empty(const char *url) {
  uint64_t count, deadline = clock_deadline_ms(PROCESSES_DEADLINE_MS);
  struct child asker = processes_start(count_keys, url);
  processes_hear(&asker, &count, sizeof count, deadline, "who looks into the store");
  close(asker.say);
  processes_end(&asker);
  assert_int_equal(count, 0);
}

static void reap(struct child *child) {
  kill(child->pid, SIGKILL);
  waitpid(child->pid, NULL, 0);
  close(child->hear);
  close(child->say);
}

static void expect_ranks(const char *url, uint32_t size) {
  const struct part part = {.url = url, .size = size};
  struct child children[MANY];
  bool taken[MANY] = {false};
  uint64_t deadline = clock_deadline_ms(PROCESSES_DEADLINE_MS);
  for (uint32_t i = 0; i < size; i++)
    children[i] = processes_start(work, &part);
  for (uint32_t i = 0; i < size; i++) {
    struct report report;
    processes_hear(&children[i], &report, sizeof report, deadline, "a worker");
    assert_string_equal(report.why, "");
    assert_int_equal(report.err, 0);
    assert_true(report.rank < size && !taken[report.rank]);
    taken[report.rank] = true;
  }
  for (uint32_t i = 0; i < size; i++)
    close(children[i].say);
  for (uint32_t i = 0; i < size; i++)
    processes_end(&children[i]);
}

void meet_many(const char *url) {
  uint64_t begin = clock_ns();
  expect_ranks(url, MANY);
  print_message("%d workers met, took 3 steps and left in %.2f s\n", MANY, (double)(clock_ns() - begin) / 1e9);
  expect_empty(url);
}

// Returns how long the slowest took to name the dead one, in seconds; 0: it was not there yet.
static double kill_one(const char *url, unsigned *seed) {
  const struct part part = {.url = url, .size = FEW, .endless = true};
  struct child children[FEW];
  uint64_t deadline = clock_deadline_ms(PROCESSES_DEADLINE_MS), slowest = 0;
  unsigned victim = (unsigned)rand_r(seed) % FEW, delay_us = (unsigned)rand_r(seed) % KILL_WITHIN_US;
  char wanted[64], said[FEW * 512] = "";
  for (int i = 0; i < FEW; i++)
    children[i] = processes_start(work, &part);
  struct timespec delay = {.tv_nsec = (long)delay_us * 1000};
  nanosleep(&delay, NULL);
  uint64_t killed = clock_ns();
  snprintf(wanted, sizeof wanted, "(process %d)", (int)children[victim].pid);
  reap(&children[victim]);
  bool right = true;
  for (unsigned i = 0; i < FEW; i++) {
    struct report report;
    if (i == victim)
      continue;
    processes_hear(&children[i], &report, sizeof report, deadline, "a worker whose peer was killed");
    bool named = report.err == WEFT_ERR_PEER_LOST && strstr(report.why, wanted),
         missed = report.err == WEFT_ERR_TIMEOUT && strstr(report.why, "missing: rank");
    if (named && report.at_ns - killed > slowest)
      slowest = report.at_ns - killed;
    right &= named || missed;
    snprintf(said + strlen(said), sizeof said - strlen(said), "\n  process %d after %.1f ms (%s): %s",
             (int)children[i].pid, (double)(report.at_ns - killed) / 1e6, weft_err_name(report.err), report.why);
  }
  for (unsigned i = 0; i < FEW && !right; i++)
    if (i != victim)
      reap(&children[i]); // the next test finds none of them
  if (!right)
    fail_msg("killed after %u us, of %s they say:%s", delay_us, wanted, said);
  for (unsigned i = 0; i < FEW; i++)
    if (i != victim)
      close(children[i].say);
  for (unsigned i = 0; i < FEW; i++)
    if (i != victim)
      processes_end(&children[i]);
  return (double)slowest / 1e9;
}

void meet_kills(const char *url) {
  const char *given = getenv("WEFT_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  print_message("kills: WEFT_SEED=%u\n", seed);
  double slowest = 0;
  for (int i = 0; i < KILLS; i++) {
    double took = kill_one(url, &seed);
    slowest = took > slowest ? took : slowest;
    expect_empty(url);
  }
  print_message("of %d kills the slowest was named after %.3f s\n", KILLS, slowest);
}

void meet_restarts(const char *url) {
  const struct part part = {.url = url, .size = FEW, .endless = true};
  for (int round = 0; round < 4; round++) {
    struct child children[FEW];
    int count = round % 2 ? FEW - 1 : FEW; // one has not come yet: the meeting has room for one of the next run
    for (int i = 0; i < count; i++)
      children[i] = processes_start(work, &part);
    struct timespec delay = {.tv_nsec = 150000000 + 20000000 * round};
    nanosleep(&delay, NULL);
    for (int i = 0; i < count; i++)
      kill(children[i].pid, SIGKILL);
    for (int i = 0; i < count; i++)
      reap(&children[i]);
    uint64_t begin = clock_ns();
    expect_ranks(url, FEW);
    print_message("workers of a run that was killed were replaced in %.3f s\n", (double)(clock_ns() - begin) / 1e9);
  }
  expect_empty(url);
}

void meet_kill_of_the_store(void) {
  const struct part first = {.size = FEW, .endless = true, .says_begun = true};
  struct part other = first;
  struct report report;
  struct child holder = processes_start(work, &first), others[FEW - 1];
  uint64_t deadline = clock_deadline_ms(PROCESSES_DEADLINE_MS);
  char url[URL], wanted[64];
  processes_hear(&holder, url, sizeof url, deadline, "the worker with the store");
  other.url = url;
  for (int i = 0; i < FEW - 1; i++)
    others[i] = processes_start(work, &other);
  for (int i = 0; i < FEW - 1; i++) { // one that has not come yet would find no store
    processes_hear(&others[i], &report, sizeof report, deadline, "a worker that takes a step");
    assert_string_equal(report.why, "");
    assert_int_equal(report.err, 0);
  }
  snprintf(wanted, sizeof wanted, "(process %d)", (int)holder.pid);
  uint64_t killed = clock_ns();
  reap(&holder);
  for (int i = 0; i < FEW - 1; i++) {
    processes_hear(&others[i], &report, sizeof report, deadline, "a worker whose store was killed");
    if (report.err != WEFT_ERR_PEER_LOST || !strstr(report.why, wanted))
      fail_msg("a worker says (%s): %s", weft_err_name(report.err), report.why);
    print_message("the store's worker was named after %.3f s\n", (double)(report.at_ns - killed) / 1e9);
  }
  for (int i = 0; i < FEW - 1; i++)
    close(others[i].say);
  for (int i = 0; i < FEW - 1; i++)
    processes_end(&others[i]);
}
