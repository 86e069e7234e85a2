// No live rank is reported dead, however long it waits for a processor: ranks operate beside twice as many busy
// processes as there are processors. All of them are also stopped at once for longer than the time limit, as when a
// machine is suspended.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/processes.h"

enum { RANKS = 4, OPERATIONS = 2000, TIMEOUT_MS = 5000, MAX_LOAD = 16 };
enum { STILL_TIMEOUT_MS = 2000, STILL_MS = 3000, STILL_AFTER = 20, WAKE_GAP_MS = 20, DEADLINE_MS = 60000 };

struct still {
  _Atomic uint32_t operations; // that rank 0 has run
  _Atomic bool over;
};

static _Noreturn void burn(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(0);
  for (;;)
    ;
}

static uint32_t start_load(pid_t *pids) {
  cpu_set_t set;
  pid_t parent = getpid();
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  uint32_t wanted = 2 * (uint32_t)CPU_COUNT(&set), count = wanted < MAX_LOAD ? wanted : MAX_LOAD;
  for (uint32_t i = 0; i < count; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] == 0)
      burn(parent);
  }
  return count;
}

static void stop_load(const pid_t *pids, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3};
  (void)arg;
  if (!rank_open(rank, &rank->setup, rank->index, all, RANKS) || !rank_activate(rank))
    return false;
  for (uint32_t i = 0; i < OPERATIONS; i++) {
    if (!rank_operate(rank))
      return false;
    if (rank->info.num_lost + rank->result.num_lost > 0)
      return rank_fail(rank, "%u ranks were taken for dead, and all live", rank->info.num_lost);
  }
  return rank_sees(rank, all, RANKS) ? true : rank_fail(rank, "the view has changed, and nobody left");
}

static void nobody_is_taken_for_dead_under_load(void **state) {
  (void)state;
  pid_t load[MAX_LOAD];
  struct processes processes;
  uint32_t count = start_load(load);
  processes_start(&processes, RANKS, &(struct setup){.tokens = 4, .timeout_ms = TIMEOUT_MS}, live, NULL);
  int status[RANKS];
  for (uint32_t i = 0; i < RANKS; i++)
    status[i] = processes_reap(&processes, i);
  stop_load(load, count);
  for (uint32_t i = 0; i < RANKS; i++)
    if (!WIFEXITED(status[i]) || WEXITSTATUS(status[i]) != 0)
      fail_msg("rank %u ended with status %d: %s", i, status[i], processes.errors[i]);
  processes_end(&processes);
}

static bool live_still(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3};
  struct still *still = arg;
  if (!rank_open(rank, &rank->setup, rank->index, all, RANKS) || !rank_activate(rank))
    return false;
  while (rank->info.mark < 1) {
    weft_ep_set_mark(rank->ep, still->over);
    if (!rank_operate(rank))
      return false;
    if (rank->info.num_lost + rank->result.num_lost > 0)
      return rank_fail(rank, "%u ranks were taken for dead, and all live", rank->info.num_lost);
    still->operations += rank->index == 0;
  }
  return true;
}

static void await_operations(const struct still *still, uint32_t count) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (still->operations < count && !clock_passed(deadline))
    poll(NULL, 0, 5);
}

// Stops all, lets more than a time limit pass, and wakes one after the other.
static void a_machine_that_stands_still_costs_nobody(void **state) {
  (void)state;
  struct still *still = processes_share(sizeof *still);
  struct processes processes;
  processes_start(&processes, RANKS, &(struct setup){.tokens = 4, .timeout_ms = STILL_TIMEOUT_MS}, live_still, still);
  await_operations(still, STILL_AFTER);
  for (uint32_t i = 0; i < RANKS; i++) {
    int status;
    kill(processes.pids[i], SIGSTOP);
    assert_int_equal(waitpid(processes.pids[i], &status, WUNTRACED), processes.pids[i]);
    assert_true(WIFSTOPPED(status));
  }
  poll(NULL, 0, STILL_MS);
  for (uint32_t i = 0; i < RANKS; i++) {
    kill(processes.pids[i], SIGCONT);
    poll(NULL, 0, WAKE_GAP_MS);
  }
  await_operations(still, still->operations + STILL_AFTER);
  still->over = true;
  for (uint32_t i = 0; i < RANKS; i++) {
    int status = processes_reap(&processes, i);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail_msg("rank %u ended with status %d: %s", i, status, processes.errors[i]);
  }
  processes_end(&processes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_is_taken_for_dead_under_load),
      cmocka_unit_test(a_machine_that_stands_still_costs_nobody),
  };
  return cmocka_run_group_tests_name("ep_starved_cpu", tests, NULL, NULL);
}
