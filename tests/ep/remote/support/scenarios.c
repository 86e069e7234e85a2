// Which rank is struck when; how processes have to end.
#include "ep/remote/support/scenarios.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "cmocka_all.h"

#include "base/time/clock.h"

void (*scenario_of_test)(struct scenario scene);

// Waits until the victim has been stopped and the others have long gone on without it, and wakes it.
static void wake(const struct processes *processes, const struct scenario *of) {
  int status;
  pid_t pid = processes->pids[of->victim];
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
  uint64_t before = of->board->operations[2];
  while (of->board->operations[2] < before + STEPS_AFTER / 2 && !clock_passed(deadline))
    poll(NULL, 0, 5);
  kill(pid, SIGCONT);
}

void scenario_run(struct scenario scene, uint32_t ranks, struct setup setup, process_body live) {
  bool stops = scene.strikes == CARRIER_STOPPED_BEFORE || scene.strikes == READER_STOPPED;
  bool survives = stops || scene.strikes == SOURCE_LIES;
  setup.timeout_ms = stops ? 2000 : 2 * DEADLINE_MS; // no operation ends by its deadline, unless a rank is stopped
  scene.ranks = ranks;
  scene.cannot_map = -1;
  scene.board = processes_share(sizeof *scene.board);
  struct processes processes;
  processes_start(&processes, ranks, &setup, live, &scene);
  if (stops)
    wake(&processes, &scene);
  bool good = true;
  for (uint32_t i = 0; i < ranks; i++)
    good &= processes_expect(&processes, i, (int32_t)i == scene.victim && !survives ? SIGKILL : 0);
  assert_true(good);
  assert_int_equal(scene.board->wrong, 0);
  assert_int_equal(scene.board->fenced, survives);
  assert_true(scene.strikes == SOURCE_KILLED || scene.board->struck);
  assert_true(scene.strikes != CARRIER_KILLED_AFTER || scene.board->read_of_the_dead > 0);
  processes_end(&processes);
}

void a_carrier_dies_before_its_rows_have_arrived(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = CARRIER_KILLED_BEFORE, .victim = CARRIER});
}

void a_carrier_dies_before_its_rows_are_read(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = CARRIER_KILLED_AFTER, .victim = CARRIER});
}

void a_carrier_is_stopped_before_its_rows_have_arrived(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = CARRIER_STOPPED_BEFORE, .victim = CARRIER});
}

void a_source_dies_when_one_rank_has_its_piece(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = SOURCE_KILLED, .victim = SOURCE});
}

void a_reader_dies(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = READER_KILLED, .victim = READER});
}

// What it reads is overwritten meanwhile.
void a_reader_is_stopped_past_the_deadline(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = READER_STOPPED, .victim = READER});
}

// A row beyond the window, and one in the window of a rank that nobody is.
void a_source_that_lies_is_excluded(void **state) {
  (void)state;
  scenario_of_test((struct scenario){.strikes = SOURCE_LIES, .victim = SOURCE, .lie = ep_where(0, 65535)});
  scenario_of_test((struct scenario){.strikes = SOURCE_LIES, .victim = SOURCE, .lie = ep_where(12345, 0)});
}
