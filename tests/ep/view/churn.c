// Two hundred joins during one rank's life: processes join, run briefly, and leave or are killed. At the end the rank
// holds the same resources as after the first of them.
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/doorbell.h"
#include "ep/core/fault.h"
#include "ep/remote/net/net.h"
#include "ep/support/processes.h"
#include "support/entries.h"
#include "support/sanitized.h"

// Three at a time come and go. In the first rounds everything is allocated that stays, such as the views that a rank
// remembers.
enum {
  SENDERS = 3,
  FIRST_ROUNDS = SUPPORT_SANITIZED ? 4 : 16,
  ROUNDS = SUPPORT_SANITIZED ? 10 : 67,
  DEADLINE_MS = 60000,
  LIFE_MS = 270000, // two hundred processes under an emulator; the test may take five minutes
  HEAP_SLACK = 32 * 1024,
  RSS_SLACK_KIB = 2048,
};

struct held {
  uint64_t heap, window_bytes;
  int descriptors, maps;
  long rss_kib;
};

struct board {
  struct meeting meeting;         // of the senders and the founder
  _Atomic uint32_t founded, done; // done: senders that have come to the end of a part
  _Atomic uint32_t joined, killed;
  struct held held[2];
};

// --- The founder.

static int count_lines(const char *path) {
  FILE *file = fopen(path, "re");
  int lines = 0;
  for (int c; file && (c = getc(file)) != EOF;)
    lines += c == '\n';
  if (file)
    fclose(file);
  return lines;
}

static long read_rss_kib(void) {
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  long kib = 0;
  while (file && fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %ld", &kib) != 1)
    ;
  if (file)
    fclose(file);
  return kib;
}

static bool look(struct rank *rank, struct held *held) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  if (weft_ep_get_stats(rank->ep, &stats) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  *held = (struct held){.heap = mallinfo2().uordblks,
                        .window_bytes = stats.window_bytes,
                        .descriptors = support_descriptors(),
                        .maps = count_lines("/proc/self/maps"),
                        .rss_kib = read_rss_kib()};
  return true;
}

// Operates until it is alone, and its last guest's windows are unmapped.
static bool await_solitude(struct rank *rank) {
  static const int32_t self[] = {0};
  if (!rank_operate_until(rank, self, 1))
    return false;
  struct weft_ep_stats stats = {.size = sizeof stats, .window_bytes = 0};
  for (uint64_t deadline = clock_deadline_ms(DEADLINE_MS); stats.window_bytes != EP_DOORBELL_SIZE;) {
    if (!rank_operate(rank) || weft_ep_get_stats(rank->ep, &stats) != 0)
      return rank_fail(rank, "%s", weft_last_error());
    if (clock_passed(deadline))
      return rank_fail(rank, "alone, with windows of %" PRIu64 " bytes", stats.window_bytes);
  }
  return true;
}

static bool stay(struct rank *rank, struct board *board) {
  if (!rank_open(rank, &rank->setup, 0, NULL, 0) || !rank_activate(rank))
    return false;
  board->founded = 1;
  for (uint32_t part = 0; part < 2; part++) {
    while (board->done < (part + 1) * SENDERS)
      if (!rank_operate(rank))
        return false;
    if (!await_solitude(rank) || !look(rank, &board->held[part]) ||
        !meeting_wait(&board->meeting, rank, SENDERS + 1, part + 1))
      return false;
  }
  return true;
}

// --- A guest, in a process of its own.

static void die(void *arg, uint32_t rows_written, uint32_t peers_done) {
  struct board *board = arg;
  (void)peers_done;
  if (rows_written < 2)
    return;
  board->killed++;
  kill(getpid(), SIGKILL);
}

// Every third one is killed in the middle of a dispatch.
static bool visit(struct rank *rank, struct board *board, uint32_t round) {
  if (!rank_open(rank, &rank->setup, rank->index, NULL, 0) || !rank_activate(rank))
    return false;
  board->joined++;
  if ((round + (uint32_t)rank->index) % 3 == 0)
    ep_fault_set(rank->ep, die, board);
  return rank_operate_n(rank, 10) && rank_leave(rank); // the killed one does not come here: it sends rows by then
}

static void be_guest(const struct rank *sender, struct board *board, char error[1024], uint32_t round) {
  static struct rank rank;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = weft_store_name(sender->setup.store);
  rank.setup = sender->setup;
  rank.index = sender->index;
  if (weft_store_open(&rank.setup.store, &options) != 0)
    _exit(3);
  weft_store_t *store = rank.setup.store;
  bool ok = visit(&rank, board, round);
  if (!ok)
    snprintf(error, 1024, "%s", rank.error);
  rank_close(&rank);
  weft_store_close(store);
  _exit(ok ? 0 : 1);
}

// --- A process that sends one guest after another.

static bool send_guests(struct rank *rank, struct board *board) {
  char *error = processes_share(1024);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!board->founded && !clock_passed(deadline))
    poll(NULL, 0, 1);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    pid_t pid = fork();
    if (pid < 0)
      return rank_fail(rank, "fork: %s", strerror(errno));
    if (pid == 0)
      be_guest(rank, board, error, round);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
      ;
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && status != 0)
      return rank_fail(rank, "guest %u ended with status %d: %s", round, status, error);
    if (round != FIRST_ROUNDS - 1 && round != ROUNDS - 1)
      continue;
    board->done++;
    if (!meeting_wait(&board->meeting, rank, SENDERS + 1, round == ROUNDS - 1 ? 2 : 1))
      return false;
  }
  return true;
}

static bool live(struct rank *rank, void *arg) {
  return rank->index == 0 ? stay(rank, arg) : send_guests(rank, arg);
}

static void what_a_rank_holds_does_not_grow(void **state) {
  (void)state;
  struct board *board = processes_share(sizeof *board);
  struct setup setup = {.tokens = 8, .hidden = 128, .topk = 2, .capacity = SENDERS + 1, .deaths = true};
  struct processes processes;
  processes_start(&processes, SENDERS + 1, &setup, live, board);
  for (uint32_t i = SENDERS + 1; i-- > 0;) { // the senders first: when one fails, the founder stays for ever
    int status = processes_reap_within(&processes, i, LIFE_MS);
    if (status != 0) {
      for (uint32_t j = 0; j < i; j++) {
        kill(processes.pids[j], SIGKILL);
        waitpid(processes.pids[j], NULL, 0);
        if (processes.errors[j][0] != '\0') // it may be the one that failed first, for which the others waited
          print_error("process %u: %s\n", j, processes.errors[j]);
      }
      fail_msg("process %u ended with status %d: %s", i, status, processes.errors[i]);
    }
  }
  const struct held *first = &board->held[0], *last = &board->held[1];
  print_message("%u joined, %u of them were killed\n", board->joined, board->killed);
  print_message("heap %" PRIu64 " -> %" PRIu64 " bytes, resident %ld -> %ld KiB, %d -> %d descriptors, %d -> %d maps\n",
                first->heap, last->heap, first->rss_kib, last->rss_kib, first->descriptors, last->descriptors,
                first->maps, last->maps);
  assert_int_equal(board->joined, SENDERS * ROUNDS);
  assert_true(board->killed >= SENDERS * (ROUNDS / 3));
  assert_int_equal(last->window_bytes, EP_DOORBELL_SIZE);
  assert_int_equal(last->descriptors, first->descriptors);
  if (!SUPPORT_SANITIZED) { // which have maps and a heap of their own
    assert_true(last->maps <= first->maps + 2 + (getenv("WEFT_TEST_HOSTS") ? EP_NET_QUARANTINE : 0));
    assert_true(last->heap < first->heap + HEAP_SLACK);
    assert_true(last->rss_kib < first->rss_kib + RSS_SLACK_KIB);
  }
  processes_end(&processes);
  munmap(board, sizeof *board);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_rank_holds_does_not_grow)};
  return cmocka_run_group_tests_name("ep_churn", tests, NULL, NULL);
}
