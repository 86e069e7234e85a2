// Ranks that die or fall silent: processes, and real signals.
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "ep/support/processes.h"

enum { RANKS = 4, DEADLINE_MS = 60000 };

// Shared by the processes of a test.
struct board {
  _Atomic uint64_t operations[RANKS]; // that a rank has run
  _Atomic uint32_t lost_in[RANKS];    // operations in which it lost somebody
  _Atomic uint32_t late[RANKS];       // operations that took a whole deadline
  _Atomic uint32_t missing[RANKS];    // selections that brought nothing in them
  _Atomic uint32_t wrong[RANKS];      // of those, selections of another rank's experts than the victim's
  _Atomic uint32_t fenced[RANKS];
};

struct fault_scenario {
  struct setup setup;
  int32_t victim;
  void (*prepare)(struct rank *rank); // of the victim
  bool expect_fenced;                 // of the victim
};

static struct board *board;

static void die_in_dispatch(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg;
  if (peers_done == 1 && rows_written % 4 == 2)
    kill(getpid(), SIGKILL);
}

static void kill_in_dispatch(struct rank *rank) {
  ep_fault_set(rank->ep, die_in_dispatch, NULL);
}
static void kill_between(struct rank *rank) {
  (void)rank;
  kill(getpid(), SIGKILL);
}
static void stop(struct rank *rank) {
  (void)rank;
  kill(getpid(), SIGSTOP);
}

static void stop_in_dispatch(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg;
  static bool stopped;
  if (stopped || peers_done != 1 || rows_written % 4 != 2)
    return;
  stopped = true;
  kill(getpid(), SIGSTOP);
}

static void stop_when_sending(struct rank *rank) {
  ep_fault_set(rank->ep, stop_in_dispatch, NULL);
}

static void note_loss(struct rank *rank, const struct fault_scenario *scenario) {
  int me = rank->index;
  if (rank->info.num_lost == 0 && rank->result.num_lost == 0 && rank->result.num_missing == 0)
    return;
  board->lost_in[me]++;
  board->missing[me] += rank->result.num_missing;
  for (uint32_t i = 0; i < rank->result.num_missing; i++)
    if (rank->missing[i].expert / rank->setup.experts != scenario->victim)
      board->wrong[me]++;
}

// One rank's life: operations until the view without the victim has come, and some more; every rank agrees on the end.
static bool live(struct rank *rank, const struct fault_scenario *scenario) {
  static const int32_t all[RANKS] = {0, 1, 2, 3};
  bool victim = rank->index == scenario->victim;
  if (!rank_open(rank, &rank->setup, rank->index, all, RANKS) || !rank_activate(rank) || !rank_operate_n(rank, 10))
    return false;
  if (victim)
    scenario->prepare(rank);
  int32_t left[RANKS];
  uint32_t count = 0;
  for (int32_t i = 0; i < RANKS; i++)
    if (i != scenario->victim)
      left[count++] = i;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  uint32_t after = 0;
  while (rank->info.mark < 1 && !clock_passed(deadline)) {
    uint64_t began = clock_ns();
    bool ok = rank_operate(rank);
    board->late[rank->index] += clock_ns() - began >= rank->setup.timeout_ms * 1000000ull;
    if (!ok) {
      if (!victim || !scenario->expect_fenced || !strstr(rank->error, "FENCED"))
        return false;
      board->fenced[rank->index] = 1;
      return true;
    }
    board->operations[rank->index]++;
    note_loss(rank, scenario);
    after += rank_sees(rank, left, count);
    if (after == 20)
      weft_ep_set_mark(rank->ep, 1);
  }
  return rank->info.mark == 1
             ? true
             : rank_fail(rank, "the end did not come, %u after the view without rank %d", after, scenario->victim);
}

static bool live_scenario(struct rank *rank, void *arg) {
  return live(rank, arg);
}

static void run_scenario(struct fault_scenario scenario, int victim_signal) {
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(board != MAP_FAILED);
  struct processes processes;
  processes_start(&processes, RANKS, &scenario.setup, live_scenario, &scenario);
  const pid_t *pids = processes.pids;
  if (scenario.expect_fenced) { // it lies stopped: wake it when the others have gone on without it
    int status;
    assert_int_equal(waitpid(pids[scenario.victim], &status, WUNTRACED), pids[scenario.victim]);
    if (!WIFSTOPPED(status))
      fail_msg("rank %d did not come to where it stops, but ended with status 0x%x%s: %s", scenario.victim,
               (unsigned)status, board->fenced[scenario.victim] ? ", fenced" : "", processes.errors[scenario.victim]);
    uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
    while (board->operations[0] < 15 && !clock_passed(deadline))
      poll(NULL, 0, 5);
    kill(pids[scenario.victim], SIGCONT);
  }
  bool good = true;
  uint32_t late = UINT32_MAX;
  for (int i = 0; i < RANKS; i++)
    good &= processes_expect(&processes, (uint32_t)i, i == scenario.victim ? victim_signal : 0);
  assert_true(good);
  for (int i = 0; i < RANKS; i++) {
    if (i == scenario.victim) {
      assert_int_equal(board->fenced[i], victim_signal == 0);
      continue;
    }
    assert_int_equal(board->wrong[i], 0);
    assert_true(board->lost_in[i] >= 1);
    late = board->late[i] < late ? board->late[i] : late;
  }
  // The kernel reports a death; silence costs one deadline. Until the view without the victim takes effect, operations
  // go on without it: a rank that waits for it makes all others wait. A rank that also had to wait for a processor
  // makes the others wait for it, but does not wait itself.
  assert_true(late <= (scenario.expect_fenced ? 1 : 0));
  munmap(board, sizeof *board);
  processes_end(&processes);
}

static void killed_in_mid_dispatch(void **state) {
  (void)state;
  for (int32_t victim = 1; victim < 4; victim += 2)
    for (int in_place = 0; in_place < 2; in_place++)
      run_scenario((struct fault_scenario){.setup = {.tokens = 32,
                                                     .in_place = in_place,
                                                     .placed = in_place,
                                                     .layout = in_place ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT},
                                           .victim = victim,
                                           .prepare = kill_in_dispatch},
                   SIGKILL);
}

static void killed_between_operations(void **state) {
  (void)state;
  run_scenario((struct fault_scenario){.victim = 2, .prepare = kill_between}, SIGKILL);
  run_scenario((struct fault_scenario){.setup = {.in_place = true}, .victim = 2, .prepare = kill_between}, SIGKILL);
}

static void the_lowest_rank_is_killed(void **state) {
  (void)state;
  run_scenario((struct fault_scenario){.setup = {.late_weights = true}, .victim = 0, .prepare = kill_in_dispatch},
               SIGKILL);
}

static void losses_are_made_up_for_when_asked(void **state) {
  (void)state;
  run_scenario((struct fault_scenario){.setup = {.renormalize = true, .dtype = WEFT_EP_FP8},
                                       .victim = 3,
                                       .prepare = kill_in_dispatch},
               SIGKILL);
}

static void stopped_past_the_deadline_is_fenced_when_it_wakes(void **state) {
  (void)state;
  run_scenario(
      (struct fault_scenario){.setup = {.timeout_ms = 2000}, .victim = 1, .prepare = stop, .expect_fenced = true}, 0);
}

// One peer has the victim's rows and goes on to wait for the combine of the others, which still wait for the rows: that
// is not silence.
static void stopped_in_mid_dispatch_costs_nobody_else(void **state) {
  (void)state;
  for (int32_t victim = 1; victim < 4; victim++)
    run_scenario((struct fault_scenario){.setup = {.timeout_ms = 2000, .tokens = 32},
                                         .victim = victim,
                                         .prepare = stop_when_sending,
                                         .expect_fenced = true},
                 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_in_mid_dispatch),
      cmocka_unit_test(killed_between_operations),
      cmocka_unit_test(the_lowest_rank_is_killed),
      cmocka_unit_test(losses_are_made_up_for_when_asked),
      cmocka_unit_test(stopped_past_the_deadline_is_fenced_when_it_wakes),
      cmocka_unit_test(stopped_in_mid_dispatch_costs_nobody_else),
  };
  return cmocka_run_group_tests_name("ep_loss", tests, NULL, NULL);
}
