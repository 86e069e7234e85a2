// Measures what a death costs. Ranks run operations without end; one of them kills itself with SIGKILL while it writes
// its rows, the others go on, and a new process takes its place. Times begin at the victim's last reading of the clock.
// Usage: bench_ep_death [--json] [--kills N] [--ranks N] [--store embedded|etcd] [--tokens N] [--ballast MB]
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ep_limits.h"
#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "support/ranks.h"

enum { RING = 1 << 14, SETTLE = 15, MAX_KILLS = 200, ROUNDS = MAX_KILLS + 1 };

struct entry {
  struct bench_times times;
  uint32_t num_ranks;
  bool lost, combine_lost; // the dispatch reported a loss; the combine did
};

// When one survivor got the two events of one death.
struct news {
  _Atomic uint64_t heard_ns, agreed_ns; // events
};

struct board {
  _Atomic int32_t victim; // the rank that has to die; -1 if none has to
  _Atomic int round;      // a round has a death and a return; round 0 is the founding
  _Atomic bool stop;
  uint64_t kill_ns[ROUNDS], kill_op[ROUNDS];
  uint64_t opened_ns[ROUNDS], active_ns[ROUNDS], back_ns[ROUNDS]; // times of the successor
  struct {
    _Atomic uint64_t next; // the next operation; those before it are in the ring
    _Atomic uint32_t num_ranks;
    struct news news[ROUNDS];
    struct entry ring[RING];
  } rank[BENCH_RANKS];
};

static struct board *board;
static struct {
  const char *stores[2];
  uint32_t ranks[2];
  int num_stores, num_ranks;
  uint32_t kills, tokens, ballast_mb;
  bool json;
} setup = {.stores = {"embedded", "etcd"}, .ranks = {3, 8}, .num_stores = 2, .num_ranks = 2, .kills = 20};

// --- a rank ---

struct life {
  const char *url;
  int32_t index;
  uint32_t count;
  int born_in; // the round in which it started; 0 for a founder
};

static void hear(const struct bench_rank *rank) {
  struct news *news = &board->rank[rank->index].news[board->round];
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(rank->ep, &event) > 0) {
    if (event.kind == WEFT_EP_EVENT_PEER_LOST && news->heard_ns == 0)
      news->heard_ns = event.time_ns;
    if (event.kind == WEFT_EP_EVENT_COMMITTED && news->agreed_ns == 0)
      news->agreed_ns = event.time_ns;
  }
}

struct death {
  struct bench_rank *rank;
  uint32_t rows; // rows that the last complete dispatch wrote
  bool armed;
};

static void fault(void *arg, uint32_t rows_written, uint32_t peers_done) {
  struct death *death = arg;
  (void)peers_done;
  if (!death->armed) {
    death->rows = rows_written;
  } else if (rows_written > death->rows / 2) {
    board->kill_op[board->round] = weft_ep_next_op(death->rank->ep);
    board->kill_ns[board->round] = clock_ns();
    raise(SIGKILL);
  }
}

static void note(const struct bench_rank *rank, const struct bench_times *times) {
  struct entry *entry = &board->rank[rank->index].ring[rank->info.op % RING];
  *entry = (struct entry){*times, rank->info.num_ranks, rank->info.num_lost > 0, rank->result.num_lost > 0};
  board->rank[rank->index].num_ranks = rank->info.num_ranks;
  board->rank[rank->index].next = rank->info.op + 1;
}

static int live(void *arg) {
  struct life *life = arg;
  struct bench_rank rank;
  int32_t founders[BENCH_RANKS];
  for (int32_t i = 0; i < BENCH_RANKS; i++)
    founders[i] = i;
  bool founder = life->born_in == 0;
  struct bench_shape shape = {.tokens = setup.tokens, .capacity = life->count};
  if (bench_rank_open(&rank, &shape, life->url, "/weft/bench/", life->index, founder ? founders : NULL,
                      founder ? life->count : 0) != 0)
    bench_fail("rank %d cannot open", life->index);
  size_t ballast = (size_t)setup.ballast_mb << 20;
  char *memory = ballast ? malloc(ballast) : NULL;
  if (memory)
    memset(memory, 1, ballast);
  if (!founder)
    board->opened_ns[life->born_in] = clock_ns();
  if (weft_ep_activate(rank.ep, BENCH_DEADLINE_MS) != 0)
    bench_fail("rank %d is not active", life->index);
  if (!founder)
    board->active_ns[life->born_in] = clock_ns();
  struct death death = {.rank = &rank};
  ep_fault_set(rank.ep, fault, &death);
  while (rank.info.mark < 1) {
    struct bench_times times;
    death.armed = board->victim == life->index && death.rows > 0;
    weft_ep_set_mark(rank.ep, board->stop);
    if (bench_operate(&rank, &times) != 0)
      bench_fail("rank %d", life->index);
    hear(&rank);
    if (!founder && board->back_ns[life->born_in] == 0)
      board->back_ns[life->born_in] = times.end;
    note(&rank, &times);
  }
  bench_rank_close(&rank);
  free(memory);
  return 0;
}

// --- the program ---

enum measure {
  CLOSED,   // the kernel has closed the victim's descriptors
  HEARD,    // the slowest survivor's service thread knows
  BACK,     // the dispatch or combine that reported the loss has returned
  ENDED,    // the operation in which it died has ended
  NEXT,     // the operation after it has ended
  AGREED,   // all survivors know the view without it
  EFFECT,   // the first operation in that view has ended
  LATER,    // the number of operations between the one in which it died and that one
  BORN,     // the successor's rank is claimed; from here on times begin at its fork
  ACTIVE,   // weft_ep_activate has returned
  REJOINED, // its first operation has ended
  DISPATCH, // a dispatch without a loss, of the same ranks
  OPERATION,
  MEASURES,
};
static const struct {
  const char *name, *what;
} measures[MEASURES] = {
    {"closed", "the kernel has closed the victim's sockets"},
    {"heard", "every survivor's service thread knows it"},
    {"back", "the call that tells the loss has returned everywhere"},
    {"ended", "the operation in which it died has ended everywhere"},
    {"next", "the one after it has ended everywhere"},
    {"agreed", "every survivor knows the view without the victim"},
    {"effect", "the first operation in that view has ended everywhere"},
    {"later", "(operations from the death to that one)"},
    {"claimed", "successor, from its fork: its rank is claimed"},
    {"active", "successor: weft_ep_activate has returned"},
    {"rejoined", "successor: its first operation has ended"},
    {"dispatch", "a plain dispatch, slowest rank, in the same run"},
    {"operation", "a plain dispatch and combine, slowest rank, in the same run"},
};

struct samples {
  uint64_t value[MEASURES][MAX_KILLS * SETTLE];
  size_t count[MEASURES];
};

static void add(struct samples *samples, enum measure measure, uint64_t value) {
  samples->value[measure][samples->count[measure]++] = value;
}

// Whether every rank except `without` has run SETTLE operations in views of `num_ranks`. from[] is the first operation
// of each rank that counts.
static bool settled(uint32_t count, int32_t without, uint32_t num_ranks, uint64_t *from) {
  bool all = true;
  for (uint32_t i = 0; i < count; i++) {
    if ((int32_t)i == without)
      continue;
    uint64_t next = board->rank[i].next;
    if (board->rank[i].num_ranks != num_ranks)
      from[i] = UINT64_MAX;
    else if (from[i] > next)
      from[i] = next;
    all &= from[i] <= next && next - from[i] > SETTLE;
  }
  return all;
}

static void await_view(uint32_t count, int32_t without, uint32_t num_ranks) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS), from[BENCH_RANKS];
  memset(from, 0xff, sizeof from);
  while (!settled(count, without, num_ranks, from)) {
    if (clock_passed(deadline))
      bench_fail("not all ran in a view of %u by the deadline", num_ranks);
    poll(NULL, 0, 2);
  }
}

static void note_plain(struct samples *samples, uint32_t count) {
  uint64_t last = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++)
    if (board->rank[i].next - 1 < last)
      last = board->rank[i].next - 1;
  for (uint64_t op = last - SETTLE + 5; op < last; op++) {
    uint64_t dispatch = 0, operation = 0;
    for (uint32_t i = 0; i < count; i++) {
      const struct bench_times *t = &board->rank[i].ring[op % RING].times;
      dispatch = t->dispatched - t->begin > dispatch ? t->dispatched - t->begin : dispatch;
      operation = t->end - t->begin > operation ? t->end - t->begin : operation;
    }
    add(samples, DISPATCH, dispatch);
    add(samples, OPERATION, operation);
  }
}

static uint64_t since(uint64_t ns, uint64_t from) {
  return ns > from ? ns - from : 0;
}

static void note_death(struct samples *samples, int round, uint32_t count, int32_t victim) {
  uint64_t kill_ns = board->kill_ns[round], kill_op = board->kill_op[round];
  uint64_t worst[MEASURES] = {0};
  for (uint32_t i = 0; i < count; i++) {
    if ((int32_t)i == victim)
      continue;
    const struct entry *ring = board->rank[i].ring;
    uint64_t told = kill_op, effect = kill_op;
    while (!ring[told % RING].lost && !ring[told % RING].combine_lost && told < kill_op + 3)
      told++;
    const struct entry *teller = &ring[told % RING];
    while (ring[effect % RING].num_ranks == count && effect < board->rank[i].next)
      effect++;
    uint64_t value[MEASURES] = {[HEARD] = since(board->rank[i].news[round].heard_ns, kill_ns),
                                [BACK] = since(teller->lost ? teller->times.dispatched : teller->times.end, kill_ns),
                                [ENDED] = since(ring[kill_op % RING].times.end, kill_ns),
                                [NEXT] = since(ring[(kill_op + 1) % RING].times.end, kill_ns),
                                [AGREED] = since(board->rank[i].news[round].agreed_ns, kill_ns),
                                [EFFECT] = since(ring[effect % RING].times.end, kill_ns),
                                [LATER] = (effect - kill_op) * 1000000u};
    for (int m = 0; m < MEASURES; m++)
      worst[m] = value[m] > worst[m] ? value[m] : worst[m];
  }
  for (int m = HEARD; m <= LATER; m++)
    add(samples, m, worst[m]);
}

static uint64_t await_death(pid_t *pid, int probe) {
  struct pollfd entry = {.fd = probe, .events = POLLIN};
  if (poll(&entry, 1, BENCH_DEADLINE_MS) != 1)
    bench_fail("the victim did not die by the deadline");
  uint64_t closed = clock_ns();
  int status;
  if (waitpid(*pid, &status, 0) != *pid || !WIFSIGNALED(status))
    bench_fail("the victim did not die of its signal");
  *pid = 0;
  return closed;
}

// A rank, and the reading end of a pipe whose writing end only that rank's process holds.
static pid_t start(struct life *life, int *probe) {
  int ends[2];
  if (pipe(ends) != 0)
    bench_fail("no pipe (%s)", strerror(errno));
  pid_t pid = bench_fork(live, life);
  close(ends[1]);
  *probe = ends[0];
  return pid;
}

static void run(const char *store_name, uint32_t count, struct samples *samples) {
  struct bench_store store;
  struct life lives[BENCH_RANKS];
  pid_t pids[BENCH_RANKS] = {0};
  int probes[BENCH_RANKS];
  memset(board, 0, sizeof *board);
  board->victim = -1;
  bench_store_start(&store, strcmp(store_name, "etcd") == 0 ? BENCH_ETCD : BENCH_EMBEDDED);
  for (uint32_t i = 0; i < count; i++) {
    lives[i] = (struct life){store.url, (int32_t)i, count, 0};
    pids[i] = start(&lives[i], &probes[i]);
  }
  for (int round = 1; round <= (int)setup.kills; round++) {
    int32_t victim = (int32_t)((uint32_t)round % count);
    await_view(count, -1, count);
    note_plain(samples, count);
    board->round = round;
    board->victim = victim;
    uint64_t closed = await_death(&pids[victim], probes[victim]);
    board->victim = -1;
    add(samples, CLOSED, since(closed, board->kill_ns[round]));
    await_view(count, victim, count - 1);
    note_death(samples, round, count, victim);
    close(probes[victim]);
    lives[victim].born_in = round;
    uint64_t forked = clock_ns();
    pids[victim] = start(&lives[victim], &probes[victim]);
    await_view(count, -1, count);
    add(samples, BORN, since(board->opened_ns[round], forked));
    add(samples, ACTIVE, since(board->active_ns[round], forked));
    add(samples, REJOINED, since(board->back_ns[round], forked));
  }
  board->stop = true;
  for (uint32_t i = 0; i < count; i++) {
    bench_reap(pids[i]);
    close(probes[i]);
  }
  bench_store_stop(&store);
}

static void report(const char *store, uint32_t count, struct samples *samples) {
  if (!setup.json)
    printf("\n%u ranks, %s store, %u kills, %u tokens x 7168; ms after the victim's last reading of the clock, of the "
           "slowest\nsurvivor of each kill\n\n%-10s %8s %8s %8s %8s\n",
           count, store, setup.kills, setup.tokens ? setup.tokens : 128, "", "p10", "median", "p90", "max");
  for (int m = 0; m < MEASURES; m++) {
    struct bench_spread s = bench_spread(samples->value[m], samples->count[m], 1e6);
    if (setup.json)
      printf("{\"ranks\": %u, \"store\": \"%s\", \"tokens\": %u, \"measure\": \"%s\", \"count\": %zu, "
             "\"ms\": [%.3f, %.3f, %.3f, %.3f]}\n",
             count, store, setup.tokens ? setup.tokens : 128, measures[m].name, s.count, s.p10, s.p50, s.p90, s.max);
    else
      printf("%-10s %8.2f %8.2f %8.2f %8.2f  %s\n", measures[m].name, s.p10, s.p50, s.p90, s.max, measures[m].what);
  }
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--json") == 0) {
      setup.json = true;
      continue;
    }
    if (strcmp(argv[i], "--kills") == 0) {
      setup.kills = bench_number("bench_ep_death", value, 1, MAX_KILLS);
    } else if (strcmp(argv[i], "--tokens") == 0) {
      setup.tokens = bench_number("bench_ep_death", value, 1, EP_MAX_TOKENS);
    } else if (strcmp(argv[i], "--ballast") == 0) {
      setup.ballast_mb = bench_number("bench_ep_death", value, 0, 65536);
    } else if (strcmp(argv[i], "--ranks") == 0) {
      setup.ranks[0] = bench_number("bench_ep_death", value, 2, BENCH_RANKS);
      setup.num_ranks = 1;
    } else if (strcmp(argv[i], "--store") == 0 && value) {
      setup.stores[0] = value;
      setup.num_stores = 1;
    } else {
      fprintf(stderr, "usage: bench_ep_death [--json] [--kills N] [--ranks N] [--store embedded|etcd] [--tokens N] "
                      "[--ballast MB]\n");
      exit(2);
    }
    i++;
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  board = bench_shared(sizeof *board);
  struct samples *samples = calloc(1, sizeof *samples);
  if (!samples)
    bench_fail("no memory");
  for (int s = 0; s < setup.num_stores; s++)
    for (int r = 0; r < setup.num_ranks; r++) {
      if (strcmp(setup.stores[s], "etcd") == 0 && !bench_has_etcd()) {
        fprintf(stderr, "bench_ep_death: etcd is not installed; its part is left out\n");
        continue;
      }
      memset(samples, 0, sizeof *samples);
      run(setup.stores[s], setup.ranks[r], samples);
      report(setup.stores[s], setup.ranks[r], samples);
    }
  free(samples);
  return 0;
}
