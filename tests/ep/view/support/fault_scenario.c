// Runs a group in which ranks are killed or stopped at a point, and checks the survivors' results.
#include "ep/view/support/fault_scenario.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/core/engine.h"
#include "ep/view/support/held_resources.h"

enum { DEADLINE_MS = 60000, BEFORE = 10, AFTER = 10, END_MARK = 1 };

// Data that the processes share.
struct board {
  _Atomic uint64_t sent[SCENARIO_RANKS];   // the newest operation that a rank has sent, plus 1
  _Atomic uint64_t struck[SCENARIO_RANKS]; // the operation in which a rank was killed or stopped, plus 1
  _Atomic uint32_t recovered;              // survivors that have run a while without the victims
  _Atomic uint32_t fenced;                 // bit r: the stopped rank r has found that it is fenced
  char names[2 * SCENARIO_RANKS][64];      // name of each process's listener
};

static struct board *board;
static const struct fault_scenario *current;

static bool is_victim(int32_t rank) {
  return current->victims >> rank & 1;
}

static uint32_t num_victims(void) {
  return (uint32_t)__builtin_popcount(current->victims);
}

static bool await_count(const _Atomic uint32_t *word, uint32_t count) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (*word < count && !clock_passed(deadline))
    poll(NULL, 0, 1);
  return *word >= count;
}

// Waits until every survivor has sent its data of this operation. Otherwise the losses of a survivor would depend on
// whether it or the victim came first.
static void await_survivors(uint64_t op) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t r = 0; r < current->ranks; r++)
    while (!is_victim((int32_t)r) && board->sent[r] <= op && !clock_passed(deadline))
      poll(NULL, 0, 1);
}

// Kills or stops this rank, which is a victim. A stopped rank continues here when it is woken.
static void strike(struct rank *rank) {
  bool counted = current->place > PLACE_DISPATCH_PEERS && current->place < PLACE_BETWEEN;
  uint64_t op = weft_ep_next_op(rank->ep) - counted; // dispatch_send increments next_op at its end
  if (current->place < PLACE_BETWEEN)
    await_survivors(op);
  board->struck[rank->index] = op + 1;
  if (current->blow == SCENARIO_KILL)
    kill(getpid(), SIGKILL);
  kill(getpid(), SIGSTOP);
  rank->unjudged = true; // from here on its data is wrong
  memset(rank->x, 0x55, (size_t)rank->setup.tokens * rank->setup.hidden * 2);
  memset(rank->y, 0x55, (size_t)rank->rows * rank->setup.experts * rank->setup.hidden * 2);
}

static void at(struct rank *rank, enum rank_step step) {
  if (step == RANK_SENT)
    board->sent[rank->index] = weft_ep_next_op(rank->ep);
  place_reach(rank, step);
}

// --- the checks of a survivor ---

static bool lists_lost(const struct rank *rank, int32_t victim) {
  for (uint32_t i = 0; i < rank->info.num_lost; i++)
    if (rank->lost[i] == victim)
      return true;
  return false;
}

static bool lists_missing(const struct rank *rank, int32_t victim) {
  for (uint32_t i = 0; i < rank->result.num_missing; i++)
    if (rank->missing[i].expert / rank->setup.experts == victim)
      return true;
  return false;
}

static bool in_view(const struct rank *rank, int32_t victim) {
  for (uint32_t i = 0; i < rank->num_view; i++)
    if (rank->view[i] == victim)
      return true;
  return false;
}

// Whether `rank` is the peer to which the victim sends first.
static bool is_next(int32_t rank, int32_t victim) {
  return rank == (victim + 1) % (int32_t)current->ranks;
}

static bool check_victim(struct rank *rank, int32_t victim) {
  uint64_t op = rank->info.op, struck = board->struck[victim];
  bool lost = lists_lost(rank, victim), missing = lists_missing(rank, victim);
  bool must_lose = false, must_miss = false;
  if (struck == op + 1) {
    enum place place = current->place;
    must_lose = place == PLACE_BETWEEN || place < PLACE_DISPATCH_PEERS ||
                (place == PLACE_DISPATCH_PEERS && !is_next(rank->index, victim));
    must_miss = place != PLACE_COMBINE_SENT && !(place == PLACE_COMBINE_PEERS && is_next(rank->index, victim));
  } else if (struck != 0 && struck <= op) {
    bool adopted = rank->info.epoch != rank->view_epoch; // data that was sent in the previous view may be missing
    must_lose = adopted ? lost : in_view(rank, victim);
    must_miss = adopted ? missing : must_lose;
  }
  if (lost == must_lose && missing == must_miss)
    return true;
  // Between hosts, data that was sent just before the fault may still have been under way.
  if (getenv("WEFT_TEST_HOSTS") && (struck == op + 1 || struck == op + 2) && lost >= must_lose && missing >= must_miss)
    return true;
  return rank_fail(rank, "operation %llu: rank %d is %slisted as lost, its experts %sas missing; it was struck in %lld",
                   (unsigned long long)op, victim, lost ? "" : "not ", missing ? "" : "not ", (long long)struck - 1);
}

static bool check_losses(struct rank *rank) {
  for (int32_t r = 0; r < (int32_t)current->ranks; r++) {
    if (is_victim(r) ? !check_victim(rank, r) : lists_lost(rank, r) || lists_missing(rank, r))
      return rank_fail(rank, "operation %llu: rank %d, which lives, is listed as lost or its experts as missing",
                       (unsigned long long)rank->info.op, r);
  }
  return true;
}

// --- the bodies of the processes ---

static uint32_t list_ranks(bool victims_too, int32_t ranks[SCENARIO_RANKS]) {
  uint32_t count = 0;
  for (int32_t r = 0; r < (int32_t)current->ranks; r++)
    if (victims_too || !is_victim(r))
      ranks[count++] = r;
  return count;
}

// Runs operations until the rank has run AFTER of them in that view, and holds exactly the resources `due`.
static bool settle(struct rank *rank, bool victims_too, const struct held_resources *due,
                   bool (*check)(struct rank *)) {
  int32_t ranks[SCENARIO_RANKS];
  uint32_t count = list_ranks(victims_too, ranks), after = 0;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (after < AFTER || !held_resources_equal(due)) {
    if (clock_passed(deadline))
      return rank_fail(rank, "%u operations in the view of %u ranks; %s", after, count, held_resources_difference(due));
    if (!rank_operate(rank) || (check && !check(rank)))
      return false;
    after += rank_sees(rank, ranks, count);
  }
  return true;
}

static bool nothing_lost(struct rank *rank) {
  if (rank->info.num_lost == 0 && rank->result.num_missing == 0)
    return true;
  return rank_fail(rank, "operation %llu lost %u ranks and %u selections after all was well again",
                   (unsigned long long)rank->info.op, rank->info.num_lost, rank->result.num_missing);
}

// All end with the same operation.
static bool end_together(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  weft_ep_set_mark(rank->ep, END_MARK);
  while (rank->info.mark < END_MARK && !clock_passed(deadline))
    if (!rank_operate(rank) || !nothing_lost(rank))
      return false;
  return rank->info.mark >= END_MARK ? true : rank_fail(rank, "the end did not come");
}

static bool open_rank(struct rank *rank, int32_t index, uint32_t process, const int32_t *founders, uint32_t count) {
  if (!rank_open(rank, &rank->setup, index, founders, count))
    return false;
  snprintf(board->names[process], sizeof board->names[process], "%s", strchr(rank->ep->links.address, ' ') + 1);
  return rank_activate(rank);
}

static bool rejoin(struct rank *rank, int32_t index, uint32_t process) {
  if (!await_count(&board->recovered, current->ranks - num_victims()))
    return rank_fail(rank, "the others did not go on without rank %d", index);
  return open_rank(rank, index, process, NULL, 0) && rank_operate_n(rank, AFTER) && end_together(rank);
}

static bool survive(struct rank *rank, const struct held_resources *full) {
  struct held_resources without = *full;
  held_resources_less_peers(&without, num_victims());
  if (!settle(rank, false, &without, check_losses))
    return false;
  board->recovered++;
  return settle(rank, true, full, nothing_lost) && end_together(rank);
}

// Runs operations on a rank that was stopped and woken, until it finds that it is fenced. Then the rank rejoins.
static bool find_out(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank_operate(rank))
    if (clock_passed(deadline))
      return rank_fail(rank, "it was stopped, the others went on without it, and it does not find out");
  if (!strstr(rank->error, "FENCED"))
    return false;
  int32_t index = rank->index;
  board->fenced |= 1u << index;
  rank_close(rank);
  return rejoin(rank, index, SCENARIO_RANKS + (uint32_t)index);
}

static bool live(struct rank *rank, void *arg) {
  (void)arg;
  uint32_t process = (uint32_t)rank->index;
  int32_t founders[SCENARIO_RANKS];
  list_ranks(true, founders);
  rank->setup.apart = true;
  rank->setup.at = at;
  if (process >= current->ranks) { // this process takes the place of a killed victim
    int32_t victim = 0;
    for (uint32_t skip = process - current->ranks; !is_victim(victim) || skip-- > 0;)
      victim++;
    return rejoin(rank, victim, process);
  }
  if (!open_rank(rank, rank->index, process, founders, current->ranks) || !rank_operate_n(rank, BEFORE))
    return false;
  struct held_resources full = held_resources_settled();
  if (!is_victim(rank->index))
    return survive(rank, &full);
  place_arm(rank, current->place, strike);
  return find_out(rank);
}

// --- the test ---

static void wake_victims(const struct processes *processes) {
  for (uint32_t r = 0; r < current->ranks; r++) {
    int status;
    if (!is_victim((int32_t)r))
      continue;
    assert_int_equal(waitpid(processes->pids[r], &status, WUNTRACED), processes->pids[r]);
    if (!WIFSTOPPED(status))
      fail_msg("rank %u ended with status %d instead of being stopped: %s", r, status, processes->errors[r]);
  }
  await_count(&board->recovered, current->ranks - num_victims());
  for (uint32_t r = 0; r < current->ranks; r++)
    if (is_victim((int32_t)r))
      kill(processes->pids[r], SIGCONT);
}

void fault_scenario_run(const struct fault_scenario *scenario) {
  current = scenario;
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(board != MAP_FAILED);
  bool kills = scenario->blow == SCENARIO_KILL;
  struct processes processes;
  processes_start(&processes, scenario->ranks + (kills ? num_victims() : 0), &scenario->setup, live, NULL);
  if (!kills)
    wake_victims(&processes);
  bool good = true;
  for (uint32_t i = 0; i < processes.count; i++)
    good &= processes_expect(&processes, i, kills && i < scenario->ranks && is_victim((int32_t)i) ? SIGKILL : 0);
  assert_true(good);
  assert_int_equal(board->fenced, kills ? 0 : scenario->victims);
  for (uint32_t i = 0; i < 2 * SCENARIO_RANKS; i++)
    held_resources_assert_no_listener(board->names[i]);
  held_resources_assert_no_keys(weft_store_server_url(processes.server));
  munmap(board, sizeof *board);
  processes_end(&processes);
}
