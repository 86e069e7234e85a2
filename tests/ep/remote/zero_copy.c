// Rows that are sent to another host from the caller's own memory: after a call for both halves has returned, nothing
// reads the rows any more, whatever happened to the peer. The rows are larger than the sockets between the two ranks
// can hold, so most of them are unread while the peer is stopped. The rows' pages are given back to the kernel, so that
// a read would make them present again. The same holds if the transport breaks its contract and does not release the
// rows.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "ep/remote/remote_link.h"
#include "ep/support/processes.h"
#include "ep/support/touched_pages.h"
#include "support/emulated.h"

enum { RANKS = 2, ROWS = 512, HIDDEN = 16384, SIZE = ROWS * HIDDEN * 2, DEADLINE_MS = 60000, POISON = 0xEE };

enum befalls { GOES_ON, STAYS_STOPPED, IS_KILLED };

// What does not come, and does not end when it is cancelled: until its peer is disconnected, or the transport closed.
#define UNTIL_DISCONNECTED "fault:1:big@65535+cling@1:ucx"
#define UNTIL_CLOSED       "fault:1:big@65535+cling@2:ucx"

struct scenario {
  enum befalls befalls; // rank 1, that is stopped before rank 0's rows
  bool combine;         // the rows are answers
  const char *faults;   // the transport does not take the rows; else NULL
  // Shared by the processes.
  struct meeting meeting;
  _Atomic pid_t reader;
};

static uint16_t value_at(uint32_t row, uint32_t column) {
  return (uint16_t)((row * 131 + column) & 0x3fff);
}

static uint16_t *make_rows(void) {
  uint16_t *rows = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (rows == MAP_FAILED)
    return NULL;
  madvise(rows, SIZE, MADV_NOHUGEPAGE);
  for (uint32_t i = 0; i < ROWS; i++)
    for (uint32_t j = 0; j < HIDDEN; j++)
      rows[(size_t)i * HIDDEN + j] = value_at(i, j);
  return rows;
}

static bool are_right(const uint16_t *row, uint32_t number) {
  for (uint32_t j = 0; j < HIDDEN; j++)
    if (row[j] != value_at(number, j))
      return false;
  return true;
}

static bool is_stopped(pid_t pid) {
  char path[64], line[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  bool stopped = file && fgets(line, sizeof line, file) && strrchr(line, ')') && strrchr(line, ')')[2] == 'T';
  if (file)
    fclose(file);
  return stopped;
}

static bool await_stop(struct rank *rank, const struct scenario *scenario) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!scenario->reader || !is_stopped(scenario->reader)) {
    if (clock_passed(deadline))
      return rank_fail(rank, "rank 1 did not stop");
    poll(NULL, 0, 1);
  }
  return true;
}

// All rows have been written, or handed over: now something happens to the rank that should take them.
static void on_row(void *arg, uint32_t rows, uint32_t peers_done) {
  struct scenario *scenario = arg;
  (void)peers_done;
  if (scenario->befalls == GOES_ON && rows == ROWS)
    kill(scenario->reader, SIGCONT);
  if (scenario->befalls == IS_KILLED && rows == ROWS / 2)
    kill(scenario->reader, SIGKILL);
}

static bool dispatch(struct rank *rank, const void *x, bool send, uint64_t *op) {
  static int64_t experts[ROWS];
  for (int i = 0; i < ROWS; i++)
    experts[i] = 1 - rank->index; // the other's only one
  struct weft_ep_dispatch_args args = {
      .size = sizeof args, .x = x, .num_tokens = send ? ROWS : 0, .topk_idx = experts, .topk_weights = rank->weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = rank->rows,
                                   .rows_at = rank->rows_at,
                                   .counts = rank->counts};
  rank->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  int rc = weft_ep_dispatch(rank->ep, &args, &recv, &rank->info, op);
  return rc == 0 || rank_fail(rank, "dispatch: %s", weft_last_error());
}

static bool combine(struct rank *rank, uint64_t op, const void *y) {
  struct weft_ep_combine_args args = {.size = sizeof args, .y = y, .out = rank->out};
  return weft_ep_combine(rank->ep, op, &args, NULL) == 0 || rank_fail(rank, "combine: %s", weft_last_error());
}

// The call has returned. What was lent is written at once, where rank 1 still takes it; else given back to the kernel
// and looked at when rank 1 has had its time to take what it should not.
static bool is_free(struct rank *rank, struct scenario *scenario, uint16_t *rows) {
  struct ep_net *net = rank->ep->net;
  if (net->zero_copies != 0 ||
      (net->worker == NULL) != (scenario->faults && strcmp(scenario->faults, UNTIL_CLOSED) == 0))
    return rank_fail(rank, "%u requests read the rows still, or the transport was closed in vain", net->zero_copies);
  if (scenario->befalls == GOES_ON && !scenario->faults) {
    memset(rows, POISON, SIZE);
    return rank->info.num_lost == 0 || rank_fail(rank, "rank 1 was lost, though it went on");
  }
  if (madvise(rows, SIZE, MADV_DONTNEED) != 0 || pages_present(rows, SIZE) != 0)
    return rank_fail(rank, "it is unknown which pages are there");
  if (scenario->befalls == STAYS_STOPPED)
    kill(scenario->reader, SIGCONT);
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  int present = pages_present(rows, SIZE);
  return present == 0 || rank_fail(rank, "%d pages were read after the call had returned", present);
}

// Ranks that lose nobody end together.
static bool part(struct rank *rank, struct scenario *scenario) {
  return scenario->befalls != GOES_ON || scenario->faults || meeting_wait(&scenario->meeting, rank, RANKS, 1);
}

static bool write_rows(struct rank *rank, struct scenario *scenario) {
  uint64_t op;
  uint16_t *rows = make_rows();
  if (!rows)
    return rank_fail(rank, "no memory");
  if (scenario->combine && !dispatch(rank, NULL, false, &op))
    return false;
  if (!await_stop(rank, scenario))
    return false;
  ep_fault_set(rank->ep, on_row, scenario);
  bool done = scenario->combine ? combine(rank, op, rows) : dispatch(rank, rows, true, &op);
  return done && is_free(rank, scenario, rows) && part(rank, scenario);
}

// Stops when everything that it sends before the rows has been sent.
static void stop(struct rank *rank, struct scenario *scenario) {
  ep_remote_flush(rank->ep);
  scenario->reader = getpid();
  raise(SIGSTOP);
}

static bool take_dispatch(struct rank *rank, struct scenario *scenario) {
  struct weft_ep_dispatch_args args = {.size = sizeof args};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = rank->rows,
                                   .rows_at = rank->rows_at,
                                   .counts = rank->counts};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  if (weft_ep_dispatch_send(rank->ep, &args, &op) != 0)
    return rank_fail(rank, "dispatch_send: %s", weft_last_error());
  stop(rank, scenario);
  if (weft_ep_dispatch_recv(rank->ep, op, &recv, &info) != 0)
    return rank_fail(rank, "dispatch_recv: %s", weft_last_error());
  if (scenario->befalls == GOES_ON && !scenario->faults && info.num_rows != ROWS)
    return rank_fail(rank, "%u rows came, not %d", info.num_rows, ROWS);
  for (uint32_t i = 0; i < info.num_rows; i++)
    if (!are_right(rank->rows_at[i], i))
      return rank_fail(rank, "row %u is not what was given", i);
  weft_ep_finish(rank->ep, op);
  return part(rank, scenario);
}

static bool take_combine(struct rank *rank, struct scenario *scenario) {
  uint64_t op;
  uint16_t *rows = make_rows();
  struct weft_ep_combine_args args = {.size = sizeof args, .out = rank->out};
  if (!rows || !dispatch(rank, rows, true, &op))
    return rank_fail(rank, "no rows");
  if (weft_ep_combine_send(rank->ep, op, &args) != 0)
    return rank_fail(rank, "combine_send: %s", weft_last_error());
  stop(rank, scenario);
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  if (weft_ep_combine_recv(rank->ep, op, &args, &result) != 0)
    return rank_fail(rank, "combine_recv: %s", weft_last_error());
  for (uint32_t i = 0; i < ROWS && result.num_missing == 0; i++)
    if (!are_right(rank->out + (size_t)i * HIDDEN, i))
      return rank_fail(rank, "row %u is not what was answered", i);
  return true;
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1};
  struct scenario *scenario = arg;
  const struct setup setup = rank->setup;
  if (!rank_open(rank, &setup, rank->index, founders, RANKS) || !rank_activate(rank))
    return false;
  if (weft_ep_barrier(rank->ep) != 0) // the transports are connected
    return rank_fail(rank, "barrier: %s", weft_last_error());
  if (rank->index == 0)
    return write_rows(rank, scenario);
  return scenario->combine ? take_combine(rank, scenario) : take_dispatch(rank, scenario);
}

// Some chunks of rows lack a token, so both ways are gone.
static bool operate(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1};
  const struct setup setup = rank->setup;
  (void)arg;
  return rank_open(rank, &setup, rank->index, founders, RANKS) && rank_activate(rank) && rank_operate_n(rank, 3) &&
         rank_end_together(rank);
}

static void rows_are_right_whichever_way_they_go(void **state) {
  (void)state;
  struct processes processes;
  struct setup setup = {.capacity = RANKS,
                        .tokens = 96,
                        .hidden = 4096,
                        .topk = 8,
                        .experts = 8,
                        .layout = WEFT_EP_RANK_MAJOR,
                        .drop = 0.1f};
  processes_start(&processes, RANKS, &setup, operate, NULL);
  bool ok = processes_expect(&processes, 0, 0);
  ok &= processes_expect(&processes, 1, 0);
  processes_end(&processes);
  assert_true(ok);
}

static void run_scenario_with(enum befalls befalls, bool combine, const char *faults) {
  struct scenario *scenario = processes_share(sizeof *scenario);
  struct processes processes;
  struct setup setup = {.capacity = RANKS,
                        .tokens = ROWS,
                        .hidden = HIDDEN,
                        .topk = 1,
                        .experts = 1,
                        .layout = WEFT_EP_RANK_MAJOR,
                        .in_place = true,
                        .timeout_ms = befalls == STAYS_STOPPED || faults ? 3000 : 20000,
                        .lease_s = 60};
  scenario->befalls = befalls;
  scenario->combine = combine;
  scenario->faults = faults;
  if (faults)
    setenv("WEFT_EP_TRANSPORT", faults, 1);
  processes_start(&processes, RANKS, &setup, live, scenario);
  bool ok = processes_expect(&processes, 0, 0);
  ok &= processes_expect(&processes, 1, befalls == IS_KILLED ? SIGKILL : 0);
  processes_end(&processes);
  munmap(scenario, sizeof *scenario);
  setenv("WEFT_EP_TRANSPORT", "ucx", 1);
  assert_true(ok);
}

// UCX over TCP can end the process when a peer closes to which something is still sent (docs/known-faults.md). By
// qemu-user rank 0 ended so in both runs that were looked at.
static void need_a_ucx_that_lives(void) {
  if (support_emulated()) {
    print_message("skipped: a peer that is stopped past the deadline: under an emulator UCX ends the process\n");
    skip();
  }
}

static void run_scenario(enum befalls befalls, bool combine) {
  run_scenario_with(befalls, combine, NULL);
}

static void the_peer_takes_them_late(void **state) {
  (void)state;
  run_scenario(GOES_ON, false);
}

static void the_peer_is_stopped_past_the_deadline(void **state) {
  (void)state;
  need_a_ucx_that_lives();
  run_scenario(STAYS_STOPPED, false);
}

static void the_peer_is_killed(void **state) {
  (void)state;
  run_scenario(IS_KILLED, false);
}

static void the_peer_is_stopped_past_the_deadline_of_a_combine(void **state) {
  (void)state;
  need_a_ucx_that_lives();
  run_scenario(STAYS_STOPPED, true);
}

static void the_transport_lets_go_when_the_peer_is_disconnected(void **state) {
  (void)state;
  run_scenario_with(GOES_ON, false, UNTIL_DISCONNECTED);
}

static void the_transport_lets_go_when_it_is_closed(void **state) {
  (void)state;
  run_scenario_with(GOES_ON, false, UNTIL_CLOSED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_right_whichever_way_they_go),
      cmocka_unit_test(the_peer_takes_them_late),
      cmocka_unit_test(the_peer_is_stopped_past_the_deadline),
      cmocka_unit_test(the_peer_is_killed),
      cmocka_unit_test(the_peer_is_stopped_past_the_deadline_of_a_combine),
      cmocka_unit_test(the_transport_lets_go_when_the_peer_is_disconnected),
      cmocka_unit_test(the_transport_lets_go_when_it_is_closed),
  };
  return cmocka_run_group_tests_name("ep_zero_copy", tests, NULL, NULL);
}
