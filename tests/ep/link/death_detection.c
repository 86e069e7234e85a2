// A death is reported at once, even if another process still holds the dead process's sockets: here a forked child,
// which keeps them open until the test is over. (The kernel does the same while it frees a large process.)
//
// Between hosts this holds over shm only, which watches the process by a pidfd. Over a network, only the end of its
// connections shows that a process is dead, and a child that holds the sockets keeps the connections up: its host
// answers for it. Such a death costs the others the time limit of one operation, as silence does (ep_stop).
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "ep/support/processes.h"

#ifndef SYS_futex_waitv // headers before Linux 5.16
#define SYS_futex_waitv 449
#endif

enum { RANKS = 3, TIMEOUT_MS = 20000, DEADLINE_MS = 100000, AFTER = 10, SKIPPED = 77 };

struct board {
  _Atomic uint32_t late[RANKS]; // operations that took the whole deadline
  _Atomic uint32_t lost[RANKS]; // operations that reported a loss
};

struct scenario {
  struct board *board;
  int32_t victim;
  int ends[2]; // a pipe; the children live until its writing end is closed
};

static void die(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg;
  if (peers_done == 0 && rows_written == 2)
    raise(SIGKILL);
}

// Forks a child that has every descriptor of this process, then sees to its own death.
static bool leave_a_child(struct rank *rank, const struct scenario *scenario) {
  pid_t child = fork();
  if (child < 0)
    return rank_fail(rank, "cannot fork");
  if (child == 0) {
    char byte;
    close(scenario->ends[1]);
    while (read(scenario->ends[0], &byte, 1) < 0 && errno == EINTR)
      ;
    _exit(0);
  }
  ep_fault_set(rank->ep, die, NULL);
  return true;
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2};
  const struct scenario *scenario = arg;
  if (rank->index != scenario->victim)
    close(scenario->ends[1]);
  if (!rank_open(rank, &rank->setup, rank->index, all, RANKS) || !rank_activate(rank) || !rank_operate_n(rank, 5))
    return false;
  if (rank->index == scenario->victim && !leave_a_child(rank, scenario))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  uint32_t after = 0;
  while (rank->info.mark < 1 && !clock_passed(deadline)) {
    uint64_t began = clock_ns();
    if (!rank_operate(rank))
      return false;
    scenario->board->late[rank->index] += clock_ns() - began >= TIMEOUT_MS * 1000000ull;
    scenario->board->lost[rank->index] += rank->info.num_lost + rank->result.num_lost > 0;
    after += rank->info.num_ranks == RANKS - 1;
    if (after == AFTER)
      weft_ep_set_mark(rank->ep, 1);
  }
  return rank->info.mark == 1 ? true : rank_fail(rank, "the end did not come");
}

static void run_scenario(int32_t victim) {
  struct scenario scenario = {.board = processes_share(sizeof *scenario.board), .victim = victim};
  struct processes processes;
  assert_int_equal(pipe(scenario.ends), 0);
  assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  processes_start(&processes, RANKS, &(struct setup){.tokens = 8, .timeout_ms = TIMEOUT_MS}, live, &scenario);
  close(scenario.ends[0]);
  for (int32_t i = 0; i < RANKS; i++) {
    int status = processes_reap(&processes, (uint32_t)i);
    if (i == victim ? !WIFSIGNALED(status) : !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail_msg("rank %d ended with status %d: %s", i, status, processes.errors[i]);
  }
  close(scenario.ends[1]);
  assert_true(waitpid(-1, NULL, 0) > 0); // the child, which has become this process's
  for (int32_t i = 0; i < RANKS; i++) {
    if (i == victim)
      continue;
    assert_true(scenario.board->lost[i] >= 1);
    assert_int_equal(scenario.board->late[i], 0);
  }
  processes_end(&processes);
}

static void a_death_is_reported_before_the_sockets_close(void **state) {
  (void)state;
  for (int32_t victim = 0; victim < RANKS; victim++)
    run_scenario(victim);
}

int main(void) {
  if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == -1 && errno != EINVAL) {
    fprintf(stderr, "skipped: no futex_waitv on this system: a death is noticed by the sockets alone\n");
    return SKIPPED;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_death_is_reported_before_the_sockets_close)};
  return cmocka_run_group_tests_name("ep_death_detection", tests, NULL, NULL);
}
