// Measures whether a join delays the running ranks. Four ranks operate without end while four other processes start:
// (a) to found their own group, which costs the processors the same, or (b) to join. Both take turns. The cost of the
// join is what (b) takes more than (a), and what the running ranks do in an operation besides waiting for peers and for
// a processor.
// Usage: bench_ep_join [--json] [--rounds N] [--tokens N] [--store embedded|etcd]
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "support/ranks.h"

enum { OLD = 4, NEW = 4, ALL = OLD + NEW, RING = 1 << 15, SETTLE = 40, MAX_ROUNDS = 100, MAX_OPS = 1 << 20 };

// One operation of one rank. Times in ns, then two counts.
struct entry {
  struct bench_times times;
  uint64_t cpu, delay; // the owner's thread: on a processor; ready, but waiting for one
  uint64_t waited;     // waiting for peers
  uint64_t helpers;    // processor time of the other threads of the process
  uint32_t faults, num_ranks;
};

struct board {
  _Atomic uint64_t round; // the round of the other processes; flags below are for this round
  _Atomic bool end_round, stop;
  struct {
    _Atomic uint64_t next; // the next operation
    _Atomic uint32_t num_ranks;
    struct entry ring[RING];
  } rank[OLD];
  struct newcomer {
    _Atomic uint64_t forked_ns, opened_ns, active_ns, operations;
    struct entry first; // the first operation
  } other[MAX_ROUNDS][2][NEW];
};

static struct board *board;
static struct {
  uint32_t rounds, tokens;
  const char *store;
  bool json;
} setup = {.rounds = 10, .tokens = 16, .store = "embedded"};

// --- accounts of a thread ---

struct account {
  uint64_t cpu, delay, process, waited;
  uint32_t faults;
};

static uint64_t cpu_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t run_queue_ns(int schedstat) {
  char text[128] = "";
  unsigned long long cpu = 0, delay = 0;
  if (pread(schedstat, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%llu %llu", &cpu, &delay) != 2)
    bench_fail("no /proc/thread-self/schedstat");
  return delay;
}

static struct account look(int schedstat, weft_ep_t *ep) {
  struct rusage usage;
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  getrusage(RUSAGE_THREAD, &usage);
  weft_ep_get_stats(ep, &stats);
  return (struct account){.cpu = cpu_ns(CLOCK_THREAD_CPUTIME_ID),
                          .delay = run_queue_ns(schedstat),
                          .process = cpu_ns(CLOCK_PROCESS_CPUTIME_ID),
                          .waited = stats.wait_ns,
                          .faults = (uint32_t)usage.ru_minflt};
}

static uint64_t since(uint64_t ns, uint64_t from) {
  return ns > from ? ns - from : 0;
}

// --- the ranks ---

struct life {
  const char *url;
  int32_t index;
  bool joins;
  uint32_t round;
};

static const int32_t indices[ALL] = {0, 1, 2, 3, 4, 5, 6, 7};
static const struct bench_shape *shape(void) {
  static struct bench_shape shape = {.capacity = ALL, .max_tokens = 128};
  shape.tokens = setup.tokens;
  return &shape;
}

static struct entry operate(struct bench_rank *rank, int schedstat, struct account *before) {
  struct entry entry = {0};
  if (bench_operate(rank, &entry.times) != 0)
    bench_fail("rank %d", rank->index);
  struct account after = look(schedstat, rank->ep);
  entry.cpu = after.cpu - before->cpu;
  entry.delay = after.delay - before->delay;
  entry.waited = after.waited - before->waited;
  entry.helpers = since(after.process - before->process, entry.cpu);
  entry.faults = after.faults - before->faults;
  entry.num_ranks = rank->info.num_ranks;
  *before = after;
  return entry;
}

static int live_old(void *arg) {
  const struct life *life = arg;
  struct bench_rank rank;
  int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (bench_rank_open(&rank, shape(), life->url, "/weft/bench/", life->index, indices, OLD) != 0 ||
      weft_ep_activate(rank.ep, BENCH_DEADLINE_MS) != 0)
    bench_fail("rank %d", life->index);
  struct account before = look(schedstat, rank.ep);
  while (rank.info.mark < 1) {
    weft_ep_set_mark(rank.ep, board->stop);
    struct entry entry = operate(&rank, schedstat, &before);
    if (rank.info.num_lost > 0)
      bench_fail("rank %d lost somebody", life->index);
    board->rank[life->index].ring[rank.info.op % RING] = entry;
    board->rank[life->index].num_ranks = rank.info.num_ranks;
    board->rank[life->index].next = rank.info.op + 1;
  }
  bench_rank_close(&rank);
  return 0;
}

static bool round_over(const struct life *life) {
  return board->round == life->round && board->end_round;
}

static int live_new(void *arg) {
  const struct life *life = arg;
  struct bench_rank rank;
  char prefix[64];
  snprintf(prefix, sizeof prefix, "/weft/bench-%u/", life->round);
  int32_t index = life->joins ? OLD + life->index : life->index;
  int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  struct newcomer *own = &board->other[life->round][life->joins][life->index];
  if (bench_rank_open(&rank, shape(), life->url, life->joins ? "/weft/bench/" : prefix, index,
                      life->joins ? NULL : indices, life->joins ? 0 : NEW) != 0)
    bench_fail("the new rank %d cannot open", life->index);
  own->opened_ns = clock_ns();
  if (weft_ep_activate(rank.ep, BENCH_DEADLINE_MS) != 0)
    bench_fail("the new rank %d is not active", life->index);
  own->active_ns = clock_ns();
  struct account before = look(schedstat, rank.ep);
  bool leaving = false;
  while (life->joins ? weft_ep_is_active(rank.ep) : rank.info.mark < 1) {
    if (!life->joins)
      weft_ep_set_mark(rank.ep, round_over(life));
    else if (!leaving && round_over(life))
      leaving = weft_ep_disconnect(rank.ep, &index, 1, BENCH_DEADLINE_MS) == 0;
    struct entry entry = operate(&rank, schedstat, &before);
    if (own->operations == 0)
      own->first = entry;
    own->operations++;
  }
  bench_rank_close(&rank);
  return 0;
}

// --- the program ---

enum kind { ALONE, START_A, BESIDE, START_B, CHANGE, EIGHT, FIRST_A, FIRST_B, KINDS };
static const char *const kinds[KINDS] = {
    "4 alone",
    "(a) 4, while 4 others start",
    "(a) 4, while 4 others operate",
    "(b) 4, while 4 join",
    "(b) first operation of a larger view",
    "(b) 8",
    "(a) a new rank's own first operation",
    "(b) a new rank's own first operation",
};

enum measure { GAP, DELAY, REST, CPU, BLOCKED, MEASURES };

struct samples {
  uint64_t value[KINDS][MEASURES][MAX_OPS / 64];
  size_t count[KINDS];
  uint64_t faults[KINDS], helpers[KINDS]; // sums over all operations
  uint64_t times[2][3][MAX_ROUNDS * NEW]; // of the others since their fork: opened, active, end of the first operation
};

static bool has_run(uint32_t num_ranks, uint64_t from) {
  for (int i = 0; i < OLD; i++)
    if (board->rank[i].num_ranks != num_ranks || board->rank[i].next < from + SETTLE)
      return false;
  return true;
}

static uint64_t newest(void) {
  uint64_t next = 0;
  for (int i = 0; i < OLD; i++)
    next = board->rank[i].next > next ? board->rank[i].next : next;
  return next;
}

static uint64_t oldest(void) {
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < OLD; i++)
    next = board->rank[i].next < next ? board->rank[i].next : next;
  return next;
}

// Waits until the running ranks have a view of this size, and have run SETTLE operations in it.
static void await_old(uint32_t num_ranks) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS), from = 0;
  for (; !has_run(num_ranks, from) || from == 0; poll(NULL, 0, 2)) {
    if (clock_passed(deadline))
      bench_fail("not all ran in a view of %u by the deadline", num_ranks);
    if (has_run(num_ranks, 0) && from == 0)
      from = newest();
  }
}

static void await_others(uint32_t round, bool joins) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  for (int i = 0; i < NEW; i++)
    while (board->other[round][joins][i].operations < SETTLE) {
      if (clock_passed(deadline))
        bench_fail("the new ranks did not run by the deadline");
      poll(NULL, 0, 2);
    }
}

static const struct entry *entry_of(int rank, uint64_t op) {
  return &board->rank[rank].ring[op % RING];
}

static void add(struct samples *samples, enum kind kind, uint64_t op) {
  size_t at = samples->count[kind];
  if (at == MAX_OPS / 64)
    return;
  samples->count[kind]++;
  uint64_t worst[MEASURES] = {0};
  for (int i = 0; i < OLD; i++) {
    const struct entry *e = entry_of(i, op);
    uint64_t wall = e->times.end - entry_of(i, op - 1)->times.end, other = e->cpu + e->delay + e->waited;
    uint64_t value[MEASURES] = {[GAP] = wall, [CPU] = e->cpu, [BLOCKED] = since(wall, other), [DELAY] = e->delay};
    for (int m = 0; m < MEASURES; m++)
      worst[m] = value[m] > worst[m] ? value[m] : worst[m];
    samples->faults[kind] += e->faults;
    samples->helpers[kind] += e->helpers;
  }
  worst[REST] = since(worst[GAP], worst[DELAY]);
  for (int m = 0; m < MEASURES; m++)
    samples->value[kind][m][at] = worst[m];
}

// One rank's operation in an entry of its own.
static void add_one(struct samples *samples, enum kind kind, const struct entry *e) {
  size_t at = samples->count[kind]++;
  uint64_t wall = e->times.end - e->times.begin;
  samples->value[kind][GAP][at] = wall;
  samples->value[kind][DELAY][at] = e->delay;
  samples->value[kind][REST][at] = since(wall, e->delay);
  samples->value[kind][CPU][at] = e->cpu;
  samples->value[kind][BLOCKED][at] = since(wall, e->cpu + e->delay + e->waited);
  samples->faults[kind] += e->faults * OLD;
  samples->helpers[kind] += e->helpers;
}

// Sorts the operations of one half of a round by kind. `begin` is the operation that ran when the others were forked.
static void sort_operations(struct samples *samples, bool joins, uint64_t begin, uint64_t end, uint64_t active_ns) {
  for (uint64_t op = begin; op < end; op++) {
    uint32_t now = entry_of(0, op)->num_ranks, before = entry_of(0, op - 1)->num_ranks;
    if (now > before)
      add(samples, CHANGE, op);
    else if (now == ALL)
      add(samples, EIGHT, op);
    else if (now == OLD)
      add(samples, joins ? START_B : entry_of(0, op)->times.end < active_ns ? START_A : BESIDE, op);
  }
}

static void run_half(struct samples *samples, const char *url, uint32_t round, bool joins) {
  struct life lives[NEW];
  pid_t pids[NEW];
  uint64_t alone = oldest() - SETTLE + 5, begin = newest(), active_ns = 0;
  for (uint64_t op = alone; op < begin - 1; op++)
    add(samples, ALONE, op);
  board->end_round = false;
  board->round = round;
  for (int i = 0; i < NEW; i++) {
    lives[i] = (struct life){url, i, joins, round};
    board->other[round][joins][i].forked_ns = clock_ns();
    pids[i] = bench_fork(live_new, &lives[i]);
  }
  await_others(round, joins);
  for (int i = 0; i < NEW; i++) {
    uint64_t at = board->other[round][joins][i].active_ns;
    active_ns = at > active_ns ? at : active_ns;
  }
  sort_operations(samples, joins, begin, oldest(), active_ns);
  board->end_round = true;
  for (int i = 0; i < NEW; i++) {
    if (!bench_reap(pids[i]))
      bench_fail("a new rank failed");
    add_one(samples, joins ? FIRST_B : FIRST_A, &board->other[round][joins][i].first);
    uint64_t from = board->other[round][joins][i].forked_ns, *to[3];
    for (int t = 0; t < 3; t++)
      to[t] = &samples->times[joins][t][round * NEW + (uint32_t)i];
    *to[0] = board->other[round][joins][i].opened_ns - from;
    *to[1] = board->other[round][joins][i].active_ns - from;
    *to[2] = board->other[round][joins][i].first.times.end - from;
  }
  await_old(OLD);
}

static void run(struct samples *samples) {
  struct bench_store store;
  struct life lives[OLD];
  pid_t pids[OLD];
  bench_store_start(&store, strcmp(setup.store, "etcd") == 0 ? BENCH_ETCD : BENCH_EMBEDDED);
  for (int i = 0; i < OLD; i++) {
    lives[i] = (struct life){.url = store.url, .index = i};
    pids[i] = bench_fork(live_old, &lives[i]);
  }
  await_old(OLD);
  for (uint32_t round = 0; round < setup.rounds; round++) {
    run_half(samples, store.url, round, round % 2 == 0); // the two halves change their order from round to round
    run_half(samples, store.url, round, round % 2 != 0);
  }
  board->stop = true;
  for (int i = 0; i < OLD; i++)
    bench_reap(pids[i]);
  bench_store_stop(&store);
}

// --- the report ---

static void report_kind(struct samples *samples, enum kind kind) {
  static const char *const names[MEASURES] = {"gap", "delay", "rest", "cpu", "blocked"};
  size_t n = samples->count[kind];
  struct bench_spread s[MEASURES];
  for (int m = 0; m < MEASURES; m++)
    s[m] = bench_spread(samples->value[kind][m], n, 1e6);
  double faults = n ? (double)samples->faults[kind] / (double)n / OLD : 0;
  double helpers = (double)samples->helpers[kind] / 1e6 / OLD / setup.rounds;
  if (!setup.json) {
    printf("%-37s %6zu  %6.2f %6.2f %6.2f %6.2f  %6.2f %6.2f  %6.2f %6.2f  %5.2f %5.2f  %5.2f %5.2f %6.1f %7.2f\n",
           kinds[kind], n, s[GAP].p50, s[GAP].p90, s[GAP].p99, s[GAP].max, s[DELAY].p50, s[DELAY].max, s[REST].p50,
           s[REST].max, s[CPU].p50, s[CPU].max, s[BLOCKED].p50, s[BLOCKED].max, faults, helpers);
    return;
  }
  printf("{\"operations\": \"%s\", \"count\": %zu, \"faults\": %.2f, \"helpers_ms\": %.3f", kinds[kind], n, faults,
         helpers);
  for (int m = 0; m < MEASURES; m++)
    printf(", \"%s_ms\": [%.3f, %.3f, %.3f, %.3f]", names[m], s[m].p50, s[m].p90, s[m].p99, s[m].max);
  printf("}\n");
}

static void report_times(struct samples *samples) {
  static const char *const names[3] = {"rank claimed", "active", "first operation"};
  for (int joins = 0; joins < 2; joins++)
    for (int t = 0; t < 3; t++) {
      struct bench_spread s = bench_spread(samples->times[joins][t], (size_t)setup.rounds * NEW, 1e6);
      if (setup.json)
        printf("{\"others\": \"%s\", \"until\": \"%s\", \"ms\": [%.3f, %.3f, %.3f, %.3f]}\n", joins ? "join" : "found",
               names[t], s.p10, s.p50, s.p90, s.max);
      else
        printf("%s a new rank, from its fork to: %-16s %8.1f (%.1f-%.1f), at most %.1f ms\n", joins ? "(b)" : "(a)",
               names[t], s.p50, s.p10, s.p90, s.max);
    }
}

static void report(struct samples *samples) {
  if (!setup.json)
    printf("%u tokens x 7168 per rank and operation, windows for 128; %s store; %u rounds of (a) and (b) in turn\n"
           "ms, of the worst of the four ranks in each operation: gap between the ends of two operations; run-queue "
           "delay of the thread that\noperates; the gap without it; that thread's processor time, and its time blocked "
           "by anything but peers. Page faults per rank and\noperation. Processor ms of a running rank's other threads "
           "per round\n\n%-37s %6s  %27s  %13s  %13s  %11s  %11s %6s %7s\n"
           "%-37s %6s  %6s %6s %6s %6s  %6s %6s  %6s %6s  %5s %5s  %5s %5s\n",
           setup.tokens, setup.store, setup.rounds, "", "", "gap", "delay", "rest", "processor", "blocked", "faults",
           "helpers", "", "count", "p50", "p90", "p99", "max", "p50", "max", "p50", "max", "p50", "max", "p50", "max");
  for (int kind = 0; kind < KINDS; kind++)
    report_kind(samples, kind);
  if (!setup.json)
    printf("\n");
  report_times(samples);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--json") == 0) {
      setup.json = true;
    } else if (strcmp(argv[i], "--rounds") == 0) {
      setup.rounds = bench_number("bench_ep_join", value, 1, MAX_ROUNDS);
      i++;
    } else if (strcmp(argv[i], "--tokens") == 0) {
      setup.tokens = bench_number("bench_ep_join", value, 1, 128);
      i++;
    } else if (strcmp(argv[i], "--store") == 0 && value) {
      setup.store = argv[++i];
    } else {
      fprintf(stderr, "usage: bench_ep_join [--json] [--rounds N] [--tokens N] [--store embedded|etcd]\n");
      return 2;
    }
  }
  board = bench_shared(sizeof *board);
  struct samples *samples = calloc(1, sizeof *samples);
  if (!samples)
    bench_fail("no memory");
  run(samples);
  report(samples);
  free(samples);
  return 0;
}
