// Several events at once: ranks that die together, a joiner or a leaver that dies in transition, operations that
// overlap. The test uses processes and real signals. Each case ends when the survivors have run for a while in the
// expected view.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "ep/support/processes.h"

enum { RANKS = 5, DEADLINE_MS = 60000, AFTER = 20 };

enum role {
  STAYS,
  DIES_IN_DISPATCH,  // when the scenario's moment has come
  JOINS,             // and stays
  DIES_AS_IT_JOINS,  // when the view with it is agreed on
  DIES_AS_IT_LEAVES, // when the view without it is agreed on, in the next dispatch
};

struct fault_scenario {
  enum role role[RANKS];
  uint32_t num_ranks, num_founders;
  int32_t last[RANKS]; // the view that must come
  uint32_t num_last;
  uint64_t after_epoch; // and it is newer than this one; ranks die in a dispatch when a view as new is agreed on
  bool overlap;         // two operations are open at a time
};

// Shared by the processes of a test.
struct board {
  _Atomic uint32_t running; // founders that are active
};

static struct board *board;

static void die_in_dispatch(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg;
  if (peers_done == 1 && rows_written % 4 == 2)
    kill(getpid(), SIGKILL);
}

// For one that has no more than the next operations to die in, in each of which it sends 50 rows and more: where rows
// flow in pieces the place above may be in none of them.
static void die_in_this_dispatch(void *arg, uint32_t rows_written, uint32_t peers_done) {
  die_in_dispatch(arg, rows_written, peers_done);
  if (rows_written >= 30)
    kill(getpid(), SIGKILL);
}

static uint64_t agreed_epoch(struct rank *rank) {
  uint64_t epoch = 0;
  weft_ep_committed_view(rank->ep, &epoch, NULL, 0, NULL);
  return epoch;
}

static bool agreed_with(struct rank *rank, int32_t index) {
  int32_t ranks[RANKS];
  uint32_t count = 0;
  weft_ep_committed_view(rank->ep, NULL, ranks, RANKS, &count);
  for (size_t i = 0; i < count; i++)
    if (ranks[i] == index)
      return true;
  return false;
}

static void *die_when_agreed(void *arg) {
  struct rank *rank = arg;
  while (!agreed_with(rank, rank->index))
    poll(NULL, 0, 1);
  kill(getpid(), SIGKILL);
  return NULL;
}

// Sends two operations before it receives the first, and ends both without a combine.
static bool operate_two(struct rank *rank) {
  uint64_t ops[2];
  int32_t ranks[RANKS];
  uint32_t count;
  weft_ep_view(rank->ep, NULL, ranks, RANKS, &count);
  for (int i = 0; i < 2; i++) {
    struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
    dispatch.x = rank->x;
    dispatch.topk_idx = rank->topk_idx;
    dispatch.topk_weights = rank->weights;
    dispatch.num_tokens = pattern_fill(&rank->pattern, weft_ep_next_op(rank->ep), rank->index, ranks, (uint32_t)count,
                                       rank->x, rank->topk_idx, rank->weights);
    int rc = weft_ep_dispatch_send(rank->ep, &dispatch, &ops[i]);
    if (rc != 0)
      return rank_fail(rank, "dispatch_send: %s: %s", weft_err_name(rc), weft_last_error());
  }
  for (int i = 0; i < 2; i++) {
    rank->info = (struct weft_ep_info){.size = sizeof rank->info};
    if (weft_ep_dispatch_recv(rank->ep, ops[i], &rank->recv, &rank->info) != 0)
      return rank_fail(rank, "dispatch_recv: %s", weft_last_error());
    if (rank->info.op != ops[i])
      return rank_fail(rank, "operation %llu was received as %llu", (unsigned long long)ops[i],
                       (unsigned long long)rank->info.op);
  }
  for (int i = 0; i < 2; i++)
    if (weft_ep_finish(rank->ep, ops[i]) != 0)
      return rank_fail(rank, "finish: %s", weft_last_error());
  return true;
}

static bool leave_and_die(struct rank *rank) {
  if (weft_ep_disconnect(rank->ep, &rank->index, 1, DEADLINE_MS) != 0)
    return rank_fail(rank, "leave: %s", weft_last_error());
  ep_fault_set(rank->ep, die_in_this_dispatch, NULL);
  return true;
}

static bool live(struct rank *rank, const struct fault_scenario *scenario, enum role role) {
  static const int32_t founders[RANKS] = {0, 1, 2, 3, 4};
  bool founder = (uint32_t)rank->index < scenario->num_founders;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!founder && board->running < scenario->num_founders && !clock_passed(deadline))
    poll(NULL, 0, 1);
  if (!rank_open(rank, &rank->setup, rank->index, founder ? founders : NULL, founder ? scenario->num_founders : 0))
    return false;
  pthread_t thread;
  if (role == DIES_AS_IT_JOINS && pthread_create(&thread, NULL, die_when_agreed, rank) != 0)
    return rank_fail(rank, "no thread");
  if (!rank_activate(rank))
    return false;
  board->running++;
  uint32_t after = 0;
  for (uint64_t i = 0; rank->info.mark < 1 && !clock_passed(deadline); i++) {
    if (role == DIES_AS_IT_LEAVES && i == 10 && !leave_and_die(rank))
      return false;
    if (role == DIES_IN_DISPATCH && i >= 10 && agreed_epoch(rank) >= scenario->after_epoch)
      ep_fault_set(rank->ep, die_in_dispatch, NULL);
    if (!(scenario->overlap ? operate_two(rank) : rank_operate(rank)))
      return false;
    uint64_t epoch = 0;
    weft_ep_view(rank->ep, &epoch, NULL, 0, NULL);
    after += epoch > scenario->after_epoch && rank_sees(rank, scenario->last, scenario->num_last);
    if (after == AFTER)
      weft_ep_set_mark(rank->ep, 1);
  }
  return rank->info.mark == 1 ? true : rank_fail(rank, "the end did not come");
}

static bool live_scenario(struct rank *rank, void *arg) {
  const struct fault_scenario *scenario = arg;
  return live(rank, scenario, scenario->role[rank->index]);
}

// UCX 1.13 over TCP aborts the process by an assertion of its own when a peer dies while the connection to it is being
// made (docs/design/ep-remote.md). Then stderr, which is redirected to `output`, has its message;
// this function shows it, too.
static bool aborted_by_ucx(int output) {
  char text[65536];
  ssize_t size = pread(output, text, sizeof text - 1, 0);
  text[size > 0 ? size : 0] = '\0';
  fputs(text, stderr);
  return strstr(text, "wireup_ep->pending_count == 0") != NULL;
}

static void run_scenario(struct fault_scenario *scenario) {
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(board != MAP_FAILED);
  struct processes processes;
  FILE *output = tmpfile();
  int shown = dup(STDERR_FILENO);
  assert_true(output && shown >= 0 && dup2(fileno(output), STDERR_FILENO) == STDERR_FILENO);
  processes_start(&processes, scenario->num_ranks,
                  &(struct setup){.tokens = 32, .deaths = true, .apart = scenario->overlap}, live_scenario, scenario);
  int status[RANKS];
  for (uint32_t i = 0; i < scenario->num_ranks; i++)
    status[i] = processes_reap(&processes, i);
  assert_int_equal(dup2(shown, STDERR_FILENO), STDERR_FILENO);
  bool aborted = aborted_by_ucx(fileno(output));
  fclose(output);
  close(shown);
  for (uint32_t i = 0; i < scenario->num_ranks && !aborted; i++) {
    bool lives = scenario->role[i] == STAYS || scenario->role[i] == JOINS;
    if (lives ? !WIFEXITED(status[i]) || WEXITSTATUS(status[i]) != 0 : !WIFSIGNALED(status[i]))
      fail_msg("rank %u ended with status %d: %s", i, status[i], processes.errors[i]);
  }
  munmap(board, sizeof *board);
  processes_end(&processes);
  if (aborted) {
    print_message("skipped: UCX ended a process by an assertion of its own\n");
    skip();
  }
}

static void two_ranks_die_in_the_same_operation(void **state) {
  (void)state;
  run_scenario(&(struct fault_scenario){.role = {STAYS, DIES_IN_DISPATCH, STAYS, DIES_IN_DISPATCH, STAYS},
                                        .num_ranks = 5,
                                        .num_founders = 5,
                                        .last = {0, 2, 4},
                                        .num_last = 3});
}

static void a_joiner_dies_when_its_view_is_agreed_on(void **state) {
  (void)state;
  run_scenario(&(struct fault_scenario){.role = {STAYS, STAYS, STAYS, DIES_AS_IT_JOINS},
                                        .num_ranks = 4,
                                        .num_founders = 3,
                                        .last = {0, 1, 2},
                                        .num_last = 3,
                                        .after_epoch = 2});
}

static void a_leaver_dies_when_its_departure_is_agreed_on(void **state) {
  (void)state;
  run_scenario(&(struct fault_scenario){.role = {STAYS, STAYS, DIES_AS_IT_LEAVES, STAYS},
                                        .num_ranks = 4,
                                        .num_founders = 4,
                                        .last = {0, 1, 3},
                                        .num_last = 3});
}

static void a_rank_dies_as_another_joins(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++)
    run_scenario(&(struct fault_scenario){.role = {STAYS, DIES_IN_DISPATCH, STAYS, JOINS},
                                          .num_ranks = 4,
                                          .num_founders = 3,
                                          .last = {0, 2, 3},
                                          .num_last = 3,
                                          .after_epoch = 2});
}

static void overlapping_operations_go_across_a_death_and_a_join(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++)
    run_scenario(&(struct fault_scenario){.role = {STAYS, STAYS, DIES_IN_DISPATCH, JOINS},
                                          .num_ranks = 4,
                                          .num_founders = 3,
                                          .last = {0, 1, 3},
                                          .num_last = 3,
                                          .after_epoch = 2,
                                          .overlap = true});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_ranks_die_in_the_same_operation),
      cmocka_unit_test(a_joiner_dies_when_its_view_is_agreed_on),
      cmocka_unit_test(a_leaver_dies_when_its_departure_is_agreed_on),
      cmocka_unit_test(a_rank_dies_as_another_joins),
      cmocka_unit_test(overlapping_operations_go_across_a_death_and_a_join),
  };
  return cmocka_run_group_tests_name("ep_crash", tests, NULL, NULL);
}
