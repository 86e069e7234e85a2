// Measures whether a rank that lives is ever declared dead. Ranks operate while processes that never sleep compete for
// the processors; half of these count, and half move memory. Prints how long a peer was silent in each operation,
// against the time limit, and how many ranks were removed for it.
// Usage: bench_ep_alarm [--json] [--ranks N] [--tokens N] [--load N] [--timeout MS] [--seconds N] [--hours N]: each row
// ends after N seconds (5), or when it has run as many operations as full-sized ranks run in N hours.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "base/time/histogram.h"
#include "support/ranks.h"

enum { MAX_LOAD = 64, HOG_BYTES = 32 << 20, REJOIN_MS = 2000, HOUR_S = 3600, HOUR_SAMPLE_S = 3, MIN_OPERATIONS = 10 };

struct board {
  _Atomic bool stop;
  struct {
    _Atomic uint64_t operations;
    _Atomic uint32_t alarms;   // peers that this rank reported, all of which live
    _Atomic uint32_t put_out;  // times that this rank was removed
    _Atomic uint32_t gave_up;  // times that it could not come back
    struct histogram silence;  // how long this rank waited for one peer in an operation, ns
    struct histogram duration; // how long an operation took, ns
  } rank[BENCH_RANKS];
};

static struct board *board;
static struct {
  uint32_t ranks, tokens, loads[3], timeouts[4], seconds, hours;
  int num_loads, num_timeouts;
  bool json;
} setup = {.ranks = 8,
           .tokens = 4,
           .loads = {0, 2, 4},
           .timeouts = {5000, 100, 50, 20},
           .seconds = 5,
           .num_loads = 3,
           .num_timeouts = 4};

// --- the load ---

static int count_for_ever(void *arg) {
  (void)arg;
  volatile uint64_t i = 0;
  while (i < UINT64_MAX)
    i++;
  return 0;
}

static int move_for_ever(void *arg) {
  (void)arg;
  char *memory = malloc(2 * (size_t)HOG_BYTES);
  if (!memory)
    return 3;
  memset(memory, 1, 2 * (size_t)HOG_BYTES);
  for (uint64_t i = 0; i < UINT64_MAX; i++) {
    memory[i % HOG_BYTES]++; // changes the memory, so that each copy has to be made
    memcpy(memory + HOG_BYTES, memory, HOG_BYTES);
    atomic_signal_fence(memory_order_seq_cst);
  }
  return 0;
}

static uint32_t processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static void start_load(pid_t *pids, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    pids[i] = bench_fork(i % 2 ? move_for_ever : count_for_ever, NULL);
}

// --- a rank ---

struct life {
  const char *url;
  int32_t index;
  struct bench_shape shape;
};

static void count_alarms(const struct bench_rank *rank, int32_t index) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(rank->ep, &event) > 0)
    board->rank[index].alarms += event.kind == WEFT_EP_EVENT_PEER_LOST && !board->stop;
}

// The longest that this rank waited for one peer since the last call.
static uint64_t silence(const struct bench_rank *rank, uint64_t *waited) {
  uint64_t longest = 0;
  for (int32_t i = 0; i < (int32_t)setup.ranks; i++) {
    struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
    if (i == rank->index || weft_ep_get_peer_stats(rank->ep, i, &stats) != 0)
      continue;
    uint64_t since = stats.wait_ns > waited[i] ? stats.wait_ns - waited[i] : 0; // a new incarnation begins at 0
    waited[i] = stats.wait_ns;
    longest = since > longest ? since : longest;
  }
  return longest;
}

// Operates until the rank is removed, or all know that the run ends. True: the run ends.
static bool operate(struct bench_rank *rank, int32_t index) {
  uint64_t waited[BENCH_RANKS] = {0};
  while (rank->info.mark < 1) {
    struct bench_times times;
    weft_ep_set_mark(rank->ep, board->stop);
    if (bench_operate(rank, &times) != 0)
      return false;
    board->rank[index].operations++;
    count_alarms(rank, index);
    histogram_add(&board->rank[index].duration, times.end - times.begin);
    histogram_add(&board->rank[index].silence, silence(rank, waited));
  }
  return true;
}

static int live(void *arg) {
  struct life *life = arg;
  int32_t founders[BENCH_RANKS];
  for (int32_t i = 0; i < BENCH_RANKS; i++)
    founders[i] = i;
  for (bool founder = true; founder || !board->stop; founder = false) {
    struct bench_rank rank;
    int rc = bench_rank_open(&rank, &life->shape, life->url, "/weft/bench/", life->index, founder ? founders : NULL,
                             founder ? setup.ranks : 0);
    if (rc == 0)
      rc = weft_ep_activate(rank.ep, founder ? BENCH_DEADLINE_MS : REJOIN_MS);
    bool end = rc == 0 && operate(&rank, life->index);
    if (rank.ep)
      count_alarms(&rank, life->index);
    if (rc != 0)
      board->rank[life->index].gave_up++;
    else if (!end && !board->stop)
      board->rank[life->index].put_out++;
    bench_rank_close(&rank);
    if (end)
      break;
  }
  return 0;
}

// --- the program ---

struct outcome {
  uint64_t operations; // of the rank with the most; all ranks took part in nearly all of them
  uint32_t alarms, put_out, gave_up;
  struct histogram silence, duration;
};

static void merge(struct histogram *into, const struct histogram *from) {
  into->count += from->count;
  into->sum += from->sum;
  into->max = from->max > into->max ? from->max : into->max;
  into->min = into->min == 0 || from->min < into->min ? from->min : into->min;
  for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
    into->buckets[i] += from->buckets[i];
}

static void collect(struct outcome *outcome) {
  *outcome = (struct outcome){0};
  for (uint32_t i = 0; i < setup.ranks; i++) {
    uint64_t operations = board->rank[i].operations;
    outcome->operations = operations > outcome->operations ? operations : outcome->operations;
    outcome->alarms += board->rank[i].alarms;
    outcome->put_out += board->rank[i].put_out;
    outcome->gave_up += board->rank[i].gave_up;
    merge(&outcome->silence, &board->rank[i].silence);
    merge(&outcome->duration, &board->rank[i].duration);
  }
}

// Runs for `seconds`, or until rank 0 has run that many operations.
static void run(uint32_t load, const struct bench_shape *shape, uint32_t seconds, double operations,
                struct outcome *outcome) {
  struct bench_store store;
  struct life lives[BENCH_RANKS];
  pid_t pids[BENCH_RANKS], hogs[MAX_LOAD] = {0};
  uint32_t count = load * processors() < MAX_LOAD ? load * processors() : MAX_LOAD;
  memset(board, 0, sizeof *board);
  bench_store_start(&store, BENCH_EMBEDDED);
  start_load(hogs, count);
  for (uint32_t i = 0; i < setup.ranks; i++) {
    lives[i] = (struct life){store.url, (int32_t)i, *shape};
    pids[i] = bench_fork(live, &lives[i]);
  }
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  while (board->rank[0].operations == 0 && !clock_passed(deadline))
    poll(NULL, 0, 10);
  deadline = clock_deadline_ms(seconds * 1000u);
  uint64_t last = deadline + BENCH_DEADLINE_MS * 1000000ull; // on a very busy machine even a few operations take long
  while ((board->rank[0].operations < MIN_OPERATIONS && !clock_passed(last)) ||
         (!clock_passed(deadline) && (double)board->rank[0].operations < operations))
    poll(NULL, 0, 50);
  collect(outcome); // before the end, since the last ranks to leave may report the others as lost
  board->stop = true;
  bench_kill(hogs, count);
  for (uint32_t i = 0; i < setup.ranks; i++)
    bench_reap(pids[i]);
  bench_store_stop(&store);
}

static void report(uint32_t load, uint32_t timeout_ms, double hour, const struct outcome *o) {
  double p[5];
  static const double percents[5] = {50, 99, 99.9, 99.99, 100};
  for (int i = 0; i < 5; i++)
    p[i] = (double)histogram_percentile(&o->silence, percents[i]) / 1e6;
  if (setup.json)
    printf("{\"load\": %u, \"timeout_ms\": %u, \"operations\": %llu, \"hours\": %.3f, \"alarms\": %u, \"put_out\": %u, "
           "\"gave_up\": %u, \"silence_ms\": [%.3f, %.3f, %.3f, %.3f, %.3f]}\n",
           load, timeout_ms, (unsigned long long)o->operations, (double)o->operations / hour, o->alarms, o->put_out,
           o->gave_up, p[0], p[1], p[2], p[3], p[4]);
  else
    printf("%3ux %10u %11llu %7.2f %8u %8u %8u  %8.2f %8.2f %8.2f %8.2f %8.2f\n", load, timeout_ms,
           (unsigned long long)o->operations, (double)o->operations / hour, o->alarms, o->put_out, o->gave_up, p[0],
           p[1], p[2], p[3], p[4]);
  fflush(stdout);
}

// The number of full-sized operations that ranks run in an hour at this load. Rows count their small operations against
// it.
static double hour_of(uint32_t load) {
  static struct outcome outcome;
  run(load, &(struct bench_shape){.capacity = setup.ranks}, HOUR_SAMPLE_S, 1e9, &outcome);
  double ms = (double)histogram_percentile(&outcome.duration, 50) / 1e6;
  if (setup.json)
    printf("{\"load\": %u, \"full_size_ms\": %.3f, \"an_hour\": %.0f}\n", load, ms, HOUR_S * 1e3 / ms);
  else
    printf("%3ux: an operation of 128 tokens x 7168 takes %.1f ms; an hour's worth are %.0f\n", load, ms,
           HOUR_S * 1e3 / ms);
  return HOUR_S * 1e3 / ms;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--json") == 0) {
      setup.json = true;
      continue;
    }
    if (strcmp(argv[i], "--ranks") == 0) {
      setup.ranks = bench_number("bench_ep_alarm", value, 2, BENCH_RANKS);
    } else if (strcmp(argv[i], "--tokens") == 0) {
      setup.tokens = bench_number("bench_ep_alarm", value, 1, 128);
    } else if (strcmp(argv[i], "--seconds") == 0) {
      setup.seconds = bench_number("bench_ep_alarm", value, 1, HOUR_S);
    } else if (strcmp(argv[i], "--hours") == 0) {
      setup.hours = bench_number("bench_ep_alarm", value, 1, 24);
    } else if (strcmp(argv[i], "--load") == 0) {
      setup.loads[0] = bench_number("bench_ep_alarm", value, 0, 16);
      setup.num_loads = 1;
    } else if (strcmp(argv[i], "--timeout") == 0) {
      setup.timeouts[0] = bench_number("bench_ep_alarm", value, 1, 60000);
      setup.num_timeouts = 1;
    } else {
      fprintf(stderr, "usage: bench_ep_alarm [--json] [--ranks N] [--tokens N] [--load N] [--timeout MS] "
                      "[--seconds N] [--hours N]\n");
      exit(2);
    }
    i++;
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  static struct outcome outcome;
  double hours[3];
  board = bench_shared(sizeof *board);
  if (!setup.json)
    printf("%u ranks on %u processors; load: so many processes per processor that never sleep, of the ranks' own "
           "priority\n",
           setup.ranks, processors());
  for (int l = 0; l < setup.num_loads; l++)
    hours[l] = hour_of(setup.loads[l]);
  if (!setup.json)
    printf(
        "\noperations of %u tokens x 256; alarms: peers that live and were reported; out: ranks put out for it; lost: "
        "could not come\nback at once; ms that a rank waited for one peer in an operation\n\n"
        "%4s %10s %11s %7s %8s %8s %8s  %8s %8s %8s %8s %8s\n",
        setup.tokens, "load", "timeout ms", "operations", "hours", "alarms", "out", "lost", "p50", "p99", "p99.9",
        "p99.99", "max");
  for (int l = 0; l < setup.num_loads; l++)
    for (int t = 0; t < setup.num_timeouts; t++) {
      struct bench_shape shape = {
          .tokens = setup.tokens, .hidden = 256, .capacity = setup.ranks, .timeout_ms = setup.timeouts[t]};
      uint32_t seconds = setup.hours ? HOUR_S : setup.seconds;
      run(setup.loads[l], &shape, seconds, setup.hours ? setup.hours * hours[l] : 1e9, &outcome);
      report(setup.loads[l], setup.timeouts[t], hours[l], &outcome);
    }
  return 0;
}
