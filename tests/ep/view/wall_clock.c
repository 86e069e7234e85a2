// The wall clock is stepped forward and back all the time, in the ranks and in the store's server
// (support/clock_steps.c): no code that waits, renews or times out may use it.
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/view/support/fault_scenario.h"

enum { DEADLINE_MS = 60000, RANKS = 3, LEASE_S = 3, OUTAGE_MS = 500 };
enum { STOPPED_MS = 2000 }; // a live rank must send within this time on a busy machine, too

// Whether a reading of the clock, less the time that passed, went forward and back by half an hour within two seconds.
static bool is_stepped(long long (*read_s)(void)) {
  uint64_t begin = clock_ns(), deadline = clock_deadline_ms(2000);
  long long first = read_s(), least = 0, most = 0;
  while (!clock_passed(deadline) && most - least < 1800) {
    long long step = read_s() - first - (long long)((clock_ns() - begin) / 1000000000u);
    least = step < least ? step : least;
    most = step > most ? step : most;
    poll(NULL, 0, 10);
  }
  return most - least >= 1800;
}

static long long by_gettime(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}
static long long by_timeofday(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return now.tv_sec;
}
static long long by_time(void) {
  return time(NULL);
}

static void the_clock_of_these_tests_is_stepped(void **state) {
  (void)state;
  assert_true(is_stepped(by_gettime) && is_stepped(by_timeofday) && is_stepped(by_time));
}

static void a_killed_rank_costs_what_it_always_does(void **state) {
  (void)state;
  fault_scenario_run(&(struct fault_scenario){.ranks = 4, .victims = 2, .place = PLACE_DISPATCH_ROWS});
  fault_scenario_run(&(struct fault_scenario){.ranks = 4, .victims = 5, .place = PLACE_COMBINE_PEERS});
}

static void a_stopped_rank_is_found_out_and_rejoins(void **state) {
  (void)state;
  fault_scenario_run(&(struct fault_scenario){
      .setup = {.timeout_ms = STOPPED_MS}, .ranks = 3, .victims = 2, .place = PLACE_BETWEEN, .blow = SCENARIO_STOP});
}

// --- leases ---

struct board {
  _Atomic uint32_t running; // ranks that are active
  _Atomic uint32_t outage;  // 1: the store is down, 2: it is back, empty
};

static struct board *board;

static bool lost_nothing(struct rank *rank) {
  return rank->info.num_lost == 0 && rank->result.num_missing == 0
             ? true
             : rank_fail(rank, "operation %llu lost a rank that lives", (unsigned long long)rank->info.op);
}

// Operates until `mark` is everybody's. This rank sets it when `ready` is.
static bool operate_until(struct rank *rank, uint64_t mark, bool (*ready)(struct rank *rank, uint64_t since_ns)) {
  uint64_t since = clock_ns(), deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank->info.mark < mark && !clock_passed(deadline)) {
    if (!rank_operate(rank) || !lost_nothing(rank))
      return false;
    if (ready(rank, since))
      weft_ep_set_mark(rank->ep, mark);
  }
  return rank->info.mark >= mark ? true : rank_fail(rank, "mark %llu did not come", (unsigned long long)mark);
}

// Two leases would have run out, and steps of both kinds have come between renewals.
static bool is_long_enough(struct rank *rank, uint64_t since_ns) {
  (void)rank;
  return clock_ns() - since_ns > 2ull * LEASE_S * 1000000000u;
}

static bool live_long(struct rank *rank, void *arg) {
  static const int32_t founders[] = {0, 1};
  bool founder = rank->index < 2;
  (void)arg;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!founder && board->running < 2 && !clock_passed(deadline))
    poll(NULL, 0, 1);
  if (!rank_open(rank, &rank->setup, rank->index, founder ? founders : NULL, founder ? 2 : 0) || !rank_activate(rank))
    return false;
  board->running++;
  return operate_until(rank, 1, is_long_enough);
}

static void end(struct processes *processes) {
  bool good = true;
  for (uint32_t i = 0; i < processes->count; i++)
    good &= processes_expect(processes, i, 0);
  processes_end(processes);
  assert_true(good);
}

static void leases_are_kept_and_a_rank_joins(void **state) {
  struct processes processes;
  (void)state;
  board = processes_share(sizeof *board);
  processes_start(&processes, RANKS, &(struct setup){.lease_s = LEASE_S}, live_long, NULL);
  end(&processes);
}

// --- an outage ---

static bool outage_is_over(struct rank *rank, uint64_t since_ns) {
  (void)rank;
  (void)since_ns;
  return board->outage == 2;
}

static bool live_through_outage(struct rank *rank, void *arg) {
  static const int32_t founders[] = {0, 1, 2}, left[] = {0, 1};
  (void)arg;
  if (!rank_open(rank, &rank->setup, rank->index, founders, RANKS) || !rank_activate(rank))
    return false;
  board->running++;
  if (!operate_until(rank, 1, outage_is_over))
    return false;
  // To leave needs the store, in which the group has put itself back.
  return rank->index == 2 ? rank_leave(rank) : rank_operate_until(rank, left, 2);
}

static void a_store_that_is_away_and_comes_back_empty_is_filled_again(void **state) {
  struct processes processes;
  (void)state;
  board = processes_share(sizeof *board);
  processes_start(&processes, RANKS, &(struct setup){0}, live_through_outage, NULL);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (board->running < RANKS && !clock_passed(deadline))
    poll(NULL, 0, 1);
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  const char *colon = strrchr(weft_store_server_url(processes.server), ':');
  options.port = (uint16_t)strtoul(colon + 1, NULL, 10);
  weft_store_server_stop(processes.server);
  processes.server = NULL;
  board->outage = 1;
  uint64_t until = clock_deadline_ms(OUTAGE_MS); // what is tested is that this time passes
  while (!clock_passed(until))
    poll(NULL, 0, clock_left_ms(until));
  int err;
  while ((err = weft_store_server_start(&processes.server, &options)) == WEFT_ERR_BUSY && !clock_passed(deadline))
    poll(NULL, 0, 10);
  board->outage = 2;
  end(&processes);
  assert_int_equal(err, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_clock_of_these_tests_is_stepped),
      cmocka_unit_test(a_killed_rank_costs_what_it_always_does),
      cmocka_unit_test(a_stopped_rank_is_found_out_and_rejoins),
      cmocka_unit_test(leases_are_kept_and_a_rank_joins),
      cmocka_unit_test(a_store_that_is_away_and_comes_back_empty_is_filled_again),
  };
  return cmocka_run_group_tests_name("ep_wall_clock", tests, NULL, NULL);
}
