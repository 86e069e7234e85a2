// Many rank processes on one machine: all claim their ranks, connect to one another, run an operation that the oracle
// checks on every rank, and leave. Nothing is left behind.
//
//   test_ep_scale [ranks]
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/processes.h"
#include "support/entries.h"

enum { STORE_EMPTY_MS = 60000 };

enum step { CLAIMED, CONNECTED, OPERATED, LEFT, STEPS };

static const char *const step_names[STEPS] = {"claimed", "connected", "operated", "left"};

struct board {
  uint64_t begun_ns;
  struct {
    uint64_t at_ns[STEPS];
    uint64_t cpu_us[STEPS]; // of the process until then
    uint64_t window_bytes;
  } rank[PROCESSES_MAX];
};

static uint32_t num_ranks = 64;
static int32_t founders[PROCESSES_MAX];

static void note(struct board *board, int32_t rank, enum step step) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  board->rank[rank].at_ns[step] = clock_ns();
  board->rank[rank].cpu_us[step] = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                                   (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static bool live(struct rank *rank, void *arg) {
  struct board *board = arg;
  int32_t index = rank->index;
  if (!rank_open(rank, &rank->setup, index, founders, num_ranks))
    return false;
  note(board, index, CLAIMED);
  if (!rank_activate(rank))
    return false;
  note(board, index, CONNECTED);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  if (weft_ep_get_stats(rank->ep, &stats) != 0 || stats.connected != num_ranks - 1)
    return rank_fail(rank, "%" PRIu64 " peers are connected", stats.connected);
  if (!rank_operate(rank))
    return false;
  if (rank->checked != 1 || rank->info.num_ranks != num_ranks)
    return rank_fail(rank, "the operation had %u ranks and was%s judged", rank->info.num_ranks,
                     rank->checked ? "" : " not");
  note(board, index, OPERATED);
  board->rank[index].window_bytes = stats.window_bytes;
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  note(board, index, LEFT);
  return true;
}

// Ranks that leave together may give up taking themselves out of the view one by one: its lease takes it away then.
static void await_empty_store(const struct processes *processes) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = weft_store_server_url(processes->server);
  weft_store_t *store;
  assert_int_equal(weft_store_open(&store, &options), 0);
  uint64_t begun = clock_ns(), deadline = clock_deadline_ms(STORE_EMPTY_MS);
  for (size_t count = 1; count > 0;) {
    struct weft_store_list *left = NULL;
    assert_int_equal(weft_store_range(store, "", true, 0, &left), 0);
    count = left->count;
    if (count > 0 && clock_passed(deadline))
      fail_msg("%zu keys are left in the store, among them %s", count, left->kvs[0]->key);
    weft_store_list_free(left);
    poll(NULL, 0, 20);
  }
  print_message("  store empty   after %6.2f s more\n", (double)(clock_ns() - begun) / 1e9);
  weft_store_close(store);
}

// When the last rank came to each step, and what all had spent on it.
static void print_steps(const struct board *board) {
  for (enum step step = 0; step < STEPS; step++) {
    uint64_t last = 0, cpu = 0;
    for (uint32_t i = 0; i < num_ranks; i++) {
      last = board->rank[i].at_ns[step] > last ? board->rank[i].at_ns[step] : last;
      cpu += board->rank[i].cpu_us[step];
    }
    print_message("  all %-9s after %6.2f s, %7.2f s of CPU in the ranks\n", step_names[step],
                  (double)(last - board->begun_ns) / 1e9, (double)cpu / 1e6);
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  print_message("  windows of one rank: %.2f MB; CPU of the store's process: %.2f s\n",
                (double)board->rank[0].window_bytes / 1e6,
                (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

static void all_claim_connect_operate_and_leave(void **state) {
  (void)state;
  // Of what is Weft's: tests of UCX and libfabric may run beside this one.
  int descriptors = support_descriptors(), shared = support_entries("/dev/shm", "weft");
  struct board *board = processes_share(sizeof *board);
  for (uint32_t i = 0; i < num_ranks; i++)
    founders[i] = (int32_t)i;
  struct setup setup = {.capacity = num_ranks,
                        .tokens = 2,
                        .hidden = 128,
                        .topk = 4,
                        .experts = 1,
                        .timeout_ms = 60000,
                        .wait_limit_s = 200};
  struct processes processes;
  board->begun_ns = clock_ns();
  processes_start(&processes, num_ranks, &setup, live, board);
  uint32_t failed = 0;
  for (uint32_t i = 0; i < num_ranks; i++) {
    int status = processes_reap(&processes, i);
    if (status != 0 && failed++ < 3)
      print_error("rank %u ended with status %d: %s\n", i, status, processes.errors[i]);
  }
  if (failed > 0)
    fail_msg("%u of %u ranks failed", failed, num_ranks);
  print_message("%u ranks:\n", num_ranks);
  print_steps(board);
  await_empty_store(&processes);
  processes_end(&processes);
  munmap(board, sizeof *board);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
  assert_int_equal(support_descriptors(), descriptors);
  assert_int_equal(support_entries("/dev/shm", "weft"), shared);
}

int main(int argc, char **argv) {
  if (argc > 1)
    num_ranks = (uint32_t)strtoul(argv[1], NULL, 10);
  if (num_ranks < 2 || num_ranks > PROCESSES_MAX) {
    print_error("from 2 to %d ranks\n", PROCESSES_MAX);
    return 2;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_claim_connect_operate_and_leave)};
  return cmocka_run_group_tests_name("ep_scale", tests, NULL, NULL);
}
