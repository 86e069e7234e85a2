// Two groups with the same rank numbers on one store, under different prefixes: events in one group do not affect the
// other.
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum { RANKS = 3, VICTIM = 1, DEADLINE_MS = 60000, BEFORE = 10, AFTER = 20 };

// In shared memory.
struct board {
  _Atomic uint32_t recovered; // survivors of the first group
  _Atomic uint32_t rejoined;  // the victim's next life has run a while
};

static struct board *board;

static void die(struct rank *rank) {
  (void)rank;
  kill(getpid(), SIGKILL);
}

// The first group: one is killed, the others go on, it comes back.
static bool suffer(struct rank *rank) {
  static const int32_t left[] = {0, 2}, all[] = {0, 1, 2};
  if (rank->index == VICTIM)
    place_arm(rank, PLACE_DISPATCH_ROWS, die);
  if (!rank_operate_until(rank, left, 2) || !rank_operate_n(rank, AFTER))
    return false;
  board->recovered++;
  return rank_operate_until(rank, all, RANKS) && rank_end_together(rank);
}

static bool come_back(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (board->recovered < RANKS - 1 && !clock_passed(deadline))
    poll(NULL, 0, 1);
  if (!rank_open(rank, &rank->setup, VICTIM, NULL, 0) || !rank_activate(rank) || !rank_operate_n(rank, AFTER) ||
      !rank_end_together(rank))
    return false;
  board->rejoined = 1;
  return true;
}

// The second group: one view all the time, and nobody lost.
static bool see_nothing(struct rank *rank) {
  uint64_t epoch = 0, deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank->info.mark < 1 && !clock_passed(deadline)) {
    if (!rank_operate(rank))
      return false;
    weft_ep_committed_view(rank->ep, &epoch, NULL, 0, NULL);
    bool ended = rank->info.mark >= 1; // then the others may have left already
    if ((epoch != 1 && !ended) || rank->info.num_lost > 0 || rank->result.num_missing > 0)
      return rank_fail(rank, "view %llu, %u lost: another group's trouble has come here", (unsigned long long)epoch,
                       rank->info.num_lost);
    if (board->rejoined)
      weft_ep_set_mark(rank->ep, 1);
  }
  return rank->info.mark >= 1 ? true : rank_fail(rank, "the other group did not come to its end");
}

// Processes 0 to 2 are the first group, 3 to 5 the second, 6 the victim's next life.
static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[RANKS] = {0, 1, 2};
  bool second = rank->index >= RANKS && rank->index < 2 * RANKS;
  (void)arg;
  rank->setup.prefix = second ? "/weft/second/" : "/weft/first/";
  if (rank->index == 2 * RANKS)
    return come_back(rank);
  if (!rank_open(rank, &rank->setup, rank->index % RANKS, founders, RANKS) || !rank_activate(rank) ||
      !rank_operate_n(rank, BEFORE))
    return false;
  return second ? see_nothing(rank) : suffer(rank);
}

static void a_death_and_a_rejoin_in_one_group_are_not_seen_in_another(void **state) {
  struct processes processes;
  bool good = true;
  (void)state;
  board = processes_share(sizeof *board);
  processes_start(&processes, 2 * RANKS + 1, &(struct setup){.apart = true, .at = place_reach}, live, NULL);
  for (uint32_t i = 0; i < processes.count; i++)
    good &= processes_expect(&processes, i, i == VICTIM ? SIGKILL : 0);
  processes_end(&processes);
  assert_true(good);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_death_and_a_rejoin_in_one_group_are_not_seen_in_another),
  };
  return cmocka_run_group_tests_name("ep_two_groups", tests, NULL, NULL);
}
