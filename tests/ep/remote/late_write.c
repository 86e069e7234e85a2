// A rank is stopped while it writes its rows, is excluded, and resumes after the others have released its link: its
// pending writes reach no memory. The rank to which it writes is stopped first, so that the rows are held back in the
// sockets between the two, which cannot hold all of them.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/remote/remote_link.h"
#include "ep/support/processes.h"
#include "ep/support/touched_pages.h"

enum { RANKS = 2, ROWS = 512, HIDDEN = 16384, TIMEOUT_MS = 2000, DEADLINE_MS = 60000, IDLE = 1000 };

// Shared by the processes.
struct board {
  _Atomic pid_t writer;
  _Atomic bool ready;   // rank 1 is, for its rows
  _Atomic bool stopped; // rank 0 is, before them
  _Atomic bool ended;   // rank 1 has closed
  _Atomic bool lost;    // or UCX has ended it
};

// UCX ends the process at times when data is pending on a TCP connection that its peer has closed
// (docs/known-faults.md). By then that rank has been put out, and what is to be shown here, that nothing of it comes,
// holds all the same.
static bool is_ended_by_ucx(pid_t pid) {
  const char *transport = getenv("WEFT_EP_TRANSPORT");
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (file) {
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
      state = 0;
    fclose(file);
  }
  return transport && strcmp(transport, "ucx") == 0 && state == 'Z';
}

// Moves everything on until nothing moves.
static void drive(struct ep_net *net) {
  for (int idle = 0; idle < IDLE; idle++) {
    ep_net_lock(net);
    if (ep_net_progress(net) > 0)
      idle = 0;
    ep_net_unlock(net);
  }
}

static bool await_flag(struct rank *rank, struct board *board, const _Atomic bool *flag, const char *what) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!*flag) {
    if (flag == &board->ended && is_ended_by_ucx(board->writer))
      board->lost = board->ended = true;
    if (clock_passed(deadline))
      return rank_fail(rank, "%s did not come", what);
    poll(NULL, 0, 1);
  }
  return true;
}

static bool receive(struct rank *rank, uint64_t op) {
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = rank->rows,
                                   .rows_at = rank->rows_at,
                                   .counts = rank->counts};
  rank->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  int rc = weft_ep_dispatch_recv(rank->ep, op, &recv, &rank->info);
  return rc == 0 || rank_fail(rank, "dispatch_recv: %s", weft_last_error());
}

// Where the window of the link lay that has been let go of.
static bool find_quarantined(struct rank *rank, struct ep_window *window) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  do {
    ep_net_lock(rank->ep->net);
    *window = rank->ep->net->quarantine[0];
    ep_net_unlock(rank->ep->net);
    if (clock_passed(deadline))
      return rank_fail(rank, "the link to rank 1 is not let go of");
    poll(NULL, 0, 1);
  } while (!window->memory);
  return true;
}

static bool read_rows(struct rank *rank, struct board *board) {
  struct weft_ep_dispatch_args none = {.size = sizeof none};
  struct ep_window window;
  uint64_t op;
  if (!await_flag(rank, board, &board->ready, "rank 1"))
    return false;
  raise(SIGSTOP); // and is woken when rank 1 has been stopped in the midst of its rows
  if (weft_ep_dispatch_send(rank->ep, &none, &op) != 0)
    return rank_fail(rank, "dispatch_send: %s", weft_last_error());
  if (!receive(rank, op))
    return false;
  if (rank->info.num_lost != 1)
    return rank_fail(rank, "rank 1 is not lost, though it is stopped");
  if (weft_ep_finish(rank->ep, op) != 0 || !find_quarantined(rank, &window))
    return rank_fail(rank, "finish: %s", weft_last_error());
  int before = pages_present(window.memory, window.size);
  kill(board->writer, SIGCONT);
  if (!await_flag(rank, board, &board->ended, "the end of rank 1"))
    return false;
  drive(rank->ep->net);
  int after = pages_present(window.memory, window.size);
  return (before == 0 && after == 0) ||
         rank_fail(rank, "%d pages where the window was were written, and %d when rank 1 had gone on", before, after);
}

static bool write_rows(struct rank *rank, struct board *board) {
  static int64_t experts[ROWS];
  struct weft_ep_dispatch_args rows = {.size = sizeof rows,
                                       .x = rank->x,
                                       .num_tokens = ROWS,
                                       .topk_idx = experts, // rank 0's only one
                                       .topk_weights = rank->weights};
  uint64_t op;
  if (!await_flag(rank, board, &board->stopped, "the stop of rank 0"))
    return false;
  if (weft_ep_dispatch_send(rank->ep, &rows, &op) != 0)
    return rank_fail(rank, "dispatch_send: %s", weft_last_error());
  drive(rank->ep->net);
  raise(SIGSTOP);
  bool received = receive(rank, op);
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  board->ended = true;
  return received;
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1};
  struct board *board = arg;
  const struct setup setup = rank->setup;
  if (!rank_open(rank, &setup, rank->index, founders, RANKS) || !rank_activate(rank))
    return false;
  if (weft_ep_barrier(rank->ep) != 0) // the transports are connected
    return rank_fail(rank, "barrier: %s", weft_last_error());
  if (rank->index == 0)
    return read_rows(rank, board);
  board->writer = getpid();
  board->ready = true;
  return write_rows(rank, board);
}

static void await_stop(const struct processes *processes, uint32_t rank) {
  int status;
  assert_int_equal(waitpid(processes->pids[rank], &status, WUNTRACED), processes->pids[rank]);
  if (!WIFSTOPPED(status))
    fail_msg("rank %u ended with status %d: %s", rank, status, processes->errors[rank]);
}

static void what_comes_late_comes_nowhere(void **state) {
  (void)state;
  struct board *board = processes_share(sizeof *board);
  struct processes processes;
  struct setup setup = {.capacity = RANKS,
                        .tokens = ROWS,
                        .hidden = HIDDEN,
                        .topk = 1,
                        .experts = 1,
                        .layout = WEFT_EP_RANK_MAJOR,
                        .in_place = true,
                        .timeout_ms = TIMEOUT_MS,
                        .lease_s = 60};
  processes_start(&processes, RANKS, &setup, live, board);
  await_stop(&processes, 0);
  board->stopped = true;
  await_stop(&processes, 1);
  kill(processes.pids[0], SIGCONT);
  bool ok = processes_expect(&processes, 0, 0);
  int late = processes_reap(&processes, 1);
  bool by_ucx = board->lost && WIFSIGNALED(late);
  if (by_ucx)
    print_message("UCX has ended rank 1, which was put out, with status 0x%x\n", (unsigned)late);
  else if (late != 0)
    print_error("rank 1 ended with status 0x%x: %s\n", (unsigned)late, processes.errors[1]);
  ok &= late == 0 || by_ucx;
  processes_end(&processes);
  munmap(board, sizeof *board);
  assert_true(ok);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_comes_late_comes_nowhere)};
  return cmocka_run_group_tests_name("ep_late_write", tests, NULL, NULL);
}
