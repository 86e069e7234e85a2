// A rank that was stopped and resumes before the others have agreed on the view without it. It must not exclude the
// others: neither because they released its link, nor because of the time in which it did not run.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum { RANKS = 4, DEADLINE_MS = 60000, TIMEOUT_MS = 800, BEFORE = 5, ALONE = 20, AFTER = 10 };

// In shared memory.
struct board {
  _Atomic bool hold;              // no survivor's transaction goes out
  _Atomic uint32_t let_go[RANKS]; // operations that a rank has run without the victim
  _Atomic uint32_t alone;         // operations that the victim has run since it woke
  _Atomic bool fenced;            // the victim is
  _Atomic uint64_t woken_ns;      // 0: it sleeps
};

static struct board *board;
static int32_t victim;
static enum place place;
static bool is_victim; // this process

int __real_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result);
int __wrap_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result);

int __wrap_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (board && board->hold && !is_victim && !clock_passed(deadline))
    poll(NULL, 0, 1);
  return __real_weft_store_txn_commit(store, txn, result);
}

static void stop(struct rank *rank) {
  board->hold = true;
  kill(getpid(), SIGSTOP);
  rank->unjudged = true; // rubbish from here on
}

static bool operate_alone(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  place_arm(rank, place, stop);
  while (rank_operate(rank) && !clock_passed(deadline))
    board->alone++;
  board->fenced = strstr(rank->error, "FENCED") != NULL;
  return board->fenced;
}

static bool outlive(struct rank *rank) {
  int32_t left[RANKS];
  uint32_t count = 0, after = 0;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (int32_t r = 0; r < RANKS; r++)
    if (r != victim)
      left[count++] = r;
  while (rank->info.mark < 1 && !clock_passed(deadline)) {
    if (!rank_operate(rank))
      return false;
    board->let_go[rank->index] += rank->info.num_lost > 0;
    after += rank_sees(rank, left, count);
    if (after == AFTER)
      weft_ep_set_mark(rank->ep, 1);
  }
  return rank->info.mark == 1 ? true : rank_fail(rank, "the end did not come");
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1, 2, 3};
  (void)arg;
  is_victim = rank->index == victim;
  if (!rank_open(rank, &rank->setup, rank->index, founders, RANKS) || !rank_activate(rank) ||
      !rank_operate_n(rank, BEFORE))
    return false;
  return is_victim ? operate_alone(rank) : outlive(rank);
}

static bool all_have_let_go(void) {
  for (int32_t r = 0; r < RANKS; r++)
    if (r != victim && board->let_go[r] < 3)
      return false;
  return true;
}

static void begin(void) {
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(board != MAP_FAILED);
}

static void end(struct processes *processes, uint32_t count) {
  bool good = true;
  for (uint32_t i = 0; i < count; i++)
    good &= processes_expect(processes, i, 0);
  munmap(board, sizeof *board);
  board = NULL;
  processes_end(processes);
  assert_true(good);
}

static void await_stop(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
}

// The survivors have let go of the victim, and their transaction is on its way when it wakes: its own gets there first.
static void wake_it_early(int32_t rank, enum place where) {
  struct processes processes;
  begin();
  victim = rank;
  place = where;
  processes_start(&processes, RANKS, &(struct setup){.timeout_ms = TIMEOUT_MS, .apart = true, .at = place_reach}, live,
                  NULL);
  await_stop(processes.pids[victim]);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS / 2);
  while (!all_have_let_go() && !clock_passed(deadline))
    poll(NULL, 0, 1);
  bool let_go = all_have_let_go();
  kill(processes.pids[victim], SIGCONT);
  while (board->alone < ALONE && !board->fenced && !clock_passed(deadline))
    poll(NULL, 0, 1);
  board->hold = false;
  end(&processes, RANKS);
  assert_true(let_go);
}

static void a_rank_that_wakes_too_late_between_operations_puts_nobody_out(void **state) {
  (void)state;
  for (int32_t rank = 0; rank < RANKS; rank += 3)
    wake_it_early(rank, PLACE_BETWEEN);
}

static void a_rank_that_wakes_too_late_in_a_dispatch_puts_nobody_out(void **state) {
  (void)state;
  wake_it_early(0, PLACE_DISPATCH_PEERS);
  wake_it_early(0, PLACE_DISPATCH_SENT);
}

static void a_rank_that_wakes_too_late_in_a_combine_puts_nobody_out(void **state) {
  (void)state;
  wake_it_early(0, PLACE_COMBINE_PEERS);
  wake_it_early(0, PLACE_COMBINE_SENT);
}

// --- the time that it did not look ---

static void *stop_in_sleep(void *arg) {
  struct rank *rank = arg;
  while (!atomic_load(&ep_own_bell(rank->ep)->waiting_ns))
    poll(NULL, 0, 1);
  kill(getpid(), SIGSTOP);
  return NULL;
}

// Rank 1 waits for rank 0, is stopped in its sleep, and is woken when its deadline has passed twice over. Rank 0 comes
// only when rank 1 has looked and gone to sleep again.
static bool meet(struct rank *rank, void *arg) {
  static const int32_t founders[] = {0, 1};
  bool sleeps = rank->index == 1;
  pthread_t thread;
  (void)arg;
  if (!rank_open(rank, &rank->setup, rank->index, founders, 2) || !rank_activate(rank) || !rank_operate_n(rank, BEFORE))
    return false;
  if (sleeps) {
    atomic_store(&ep_own_bell(rank->ep)->waiting_ns, 0);
    if (pthread_create(&thread, NULL, stop_in_sleep, rank) != 0)
      return rank_fail(rank, "no thread");
  } else {
    struct ep_doorbell *bell = ep_link_bell(atomic_load(&rank->ep->links.by_rank[1]));
    uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
    while ((board->woken_ns == 0 || atomic_load(&bell->waiting_ns) <= board->woken_ns) && !board->alone &&
           !clock_passed(deadline))
      poll(NULL, 0, 1);
  }
  if (!rank_operate(rank))
    return false;
  board->alone++; // so that nobody waits for a sleep that does not come
  if (sleeps)
    pthread_join(thread, NULL);
  if (rank->info.num_lost > 0 || rank->result.num_missing > 0)
    return rank_fail(rank, "operation %llu lost a rank that lives", (unsigned long long)rank->info.op);
  return rank_operate_n(rank, AFTER);
}

static void the_time_that_a_rank_is_stopped_does_not_count_against_its_peers(void **state) {
  struct processes processes;
  (void)state;
  begin();
  victim = 1;
  processes_start(&processes, 2, &(struct setup){.timeout_ms = TIMEOUT_MS}, meet, NULL);
  await_stop(processes.pids[1]);
  uint64_t until = clock_deadline_ms(2 * TIMEOUT_MS); // what is tested is that this time passes
  while (!clock_passed(until))
    poll(NULL, 0, clock_left_ms(until));
  board->woken_ns = clock_ns();
  kill(processes.pids[1], SIGCONT);
  end(&processes, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_that_wakes_too_late_between_operations_puts_nobody_out),
      cmocka_unit_test(a_rank_that_wakes_too_late_in_a_dispatch_puts_nobody_out),
      cmocka_unit_test(a_rank_that_wakes_too_late_in_a_combine_puts_nobody_out),
      cmocka_unit_test(the_time_that_a_rank_is_stopped_does_not_count_against_its_peers),
  };
  return cmocka_run_group_tests_name("ep_stopped_rank", tests, NULL, NULL);
}
