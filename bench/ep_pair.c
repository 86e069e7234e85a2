// How close dispatch and combine come to bare copies: two ranks in two processes, pinned to two processors, against two
// processes that do nothing but copy the same wire bytes into each other's shared memory and out of their own. Both are
// measured in turn in the same run; the ratio is what counts. Usage: bench_ep_pair [--json]
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/clock.h"
#include "ep/oracle/pattern.h"

enum {
  TOKENS = 128,
  HIDDEN = 7168,
  TOPK = 8,
  EXPERTS = 8, // per rank: each token goes to both ranks
  RANKS = 2,
  ROUNDS = 200,
  WARM_UP = 20,
  WINDOW = 4 << 20,
  DEADLINE_MS = 30000,
};

enum measure { DISPATCH, DISPATCH_COPY, COMBINE, COMBINE_COPY, MEASURES };

struct shape {
  const char *name;
  enum weft_ep_dtype dtype;
  enum weft_ep_layout layout;
};

static const struct shape shapes[] = {
    {"bf16 rank-major", WEFT_EP_BF16, WEFT_EP_RANK_MAJOR},
    {"bf16 per-expert", WEFT_EP_BF16, WEFT_EP_PER_EXPERT},
    {"fp8 rank-major", WEFT_EP_FP8, WEFT_EP_RANK_MAJOR},
    {"fp8 per-expert", WEFT_EP_FP8, WEFT_EP_PER_EXPERT},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// What the two processes share: a barrier, the windows of the bare copies, and the times.
struct board {
  _Alignas(64) _Atomic uint32_t arrived;
  _Alignas(64) _Atomic uint64_t flag[RANKS][8];
  uint64_t ns[SHAPES][MEASURES][RANKS][ROUNDS];
  uint64_t wire_bytes[SHAPES][2][RANKS]; // dispatch, combine: of one operation
  _Alignas(4096) uint8_t window[RANKS][WINDOW];
};

static struct board *board;

static void fail_bench(const char *what) {
  fprintf(stderr, "bench_ep_pair: %s: %s\n", what, weft_last_error());
  _exit(1);
}

// Both processes come out of it at about the same moment.
static void meet(void) {
  uint32_t place = atomic_fetch_add(&board->arrived, 1) / RANKS;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (atomic_load(&board->arrived) < (place + 1) * RANKS)
    if (clock_passed(deadline)) {
      fprintf(stderr, "bench_ep_pair: the other process did not come\n");
      _exit(1);
    }
}

// Copies `bytes` into the other's window and out of one's own; a flag tells when it is full.
static uint64_t bare_copy(int rank, const uint8_t *from, uint8_t *to, size_t bytes, uint64_t round) {
  meet();
  uint64_t begin = clock_ns();
  memcpy(board->window[1 - rank], from, bytes);
  atomic_store_explicit(&board->flag[1 - rank][0], round, memory_order_release);
  while (atomic_load_explicit(&board->flag[rank][0], memory_order_acquire) < round)
    ;
  memcpy(to, board->window[rank], bytes);
  return clock_ns() - begin;
}

struct buffers {
  uint16_t x[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
  int64_t topk_idx[TOKENS * TOPK];
  float weights[TOKENS * TOPK];
  uint8_t from[WINDOW], to[WINDOW];
  uint16_t received[EXPERTS * RANKS * TOKENS * HIDDEN], y[EXPERTS * RANKS * TOKENS * HIDDEN];
  float scales[EXPERTS * RANKS * TOKENS * HIDDEN / 128];
  int32_t counts[EXPERTS], local_expert[RANKS * TOKENS * TOPK];
};

static weft_ep_t *open_rank(weft_store_t *store, int rank, int shape) {
  static const int32_t founders[RANKS] = {0, 1};
  char prefix[64];
  snprintf(prefix, sizeof prefix, "/weft/bench/%d/", shape);
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.prefix = prefix;
  options.rank = rank;
  options.capacity = RANKS;
  options.founders = founders;
  options.num_founders = RANKS;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  options.dtype = shapes[shape].dtype;
  weft_ep_t *ep;
  if (weft_ep_open(&ep, &options, DEADLINE_MS) != 0 || weft_ep_activate(ep, DEADLINE_MS) != 0)
    fail_bench("cannot start");
  return ep;
}

static void run_round(weft_ep_t *ep, int rank, int shape, struct buffers *b, uint64_t *sequence, int round) {
  struct weft_ep_dispatch dispatch = {
      .size = sizeof dispatch, .x = b->x, .num_tokens = TOKENS, .topk_idx = b->topk_idx, .topk_weights = b->weights};
  struct weft_ep_recv recv = {.size = sizeof recv,
                              .layout = shapes[shape].layout,
                              .rows = RANKS * TOKENS,
                              .x = b->received,
                              .scales = b->scales,
                              .counts = b->counts};
  if (shapes[shape].layout == WEFT_EP_RANK_MAJOR)
    recv.local_expert = b->local_expert;
  struct weft_ep_combine combine = {.size = sizeof combine, .y = b->y, .out = b->out};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op, ns[MEASURES];
  meet();
  uint64_t begin = clock_ns();
  if (weft_ep_dispatch(ep, &dispatch, &recv, &info, &op) != 0)
    fail_bench("dispatch");
  ns[DISPATCH] = clock_ns() - begin;
  ns[DISPATCH_COPY] = bare_copy(rank, b->from, b->to, info.wire_bytes, ++*sequence);
  meet();
  begin = clock_ns();
  if (weft_ep_combine(ep, op, &combine, &result) != 0)
    fail_bench("combine");
  ns[COMBINE] = clock_ns() - begin;
  ns[COMBINE_COPY] = bare_copy(rank, b->from, b->to, result.wire_bytes, ++*sequence);
  if (info.num_lost + result.num_lost > 0)
    fail_bench("a rank was lost");
  board->wire_bytes[shape][0][rank] = info.wire_bytes;
  board->wire_bytes[shape][1][rank] = result.wire_bytes;
  for (int m = 0; round >= 0 && m < MEASURES; m++)
    board->ns[shape][m][rank][round] = ns[m];
}

static int run_rank(int rank, const char *url) {
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  if (sched_setaffinity(0, sizeof processor, &processor) != 0) {
    fprintf(stderr, "bench_ep_pair: cannot pin to processor %d: %s\n", rank, strerror(errno));
    return 3;
  }
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = url;
  weft_store_t *store;
  struct buffers *b = calloc(1, sizeof *b);
  if (!b || weft_store_open(&store, &options) != 0)
    fail_bench("cannot open the store");
  static const int32_t active[RANKS] = {0, 1};
  const struct pattern pattern = {
      .seed = 1, .num_tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts_per_rank = EXPERTS};
  pattern_fill(&pattern, 1, rank, active, RANKS, b->x, b->topk_idx, b->weights);
  uint64_t sequence = 0;
  for (int shape = 0; shape < SHAPES; shape++) {
    weft_ep_t *ep = open_rank(store, rank, shape);
    for (int round = -WARM_UP; round < ROUNDS; round++)
      run_round(ep, rank, shape, b, &sequence, round);
    meet(); // nobody leaves while the other operates
    weft_ep_close(ep);
  }
  weft_store_close(store);
  free(b);
  return 0;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

struct spread {
  double p10, p50, p90; // us
};

// Of the slower of the two ranks in each round.
static struct spread spread_of(int shape, enum measure measure) {
  uint64_t slower[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t a = board->ns[shape][measure][0][i], b = board->ns[shape][measure][1][i];
    slower[i] = a > b ? a : b;
  }
  qsort(slower, ROUNDS, sizeof *slower, ascending);
  return (struct spread){(double)slower[ROUNDS / 10] / 1e3, (double)slower[ROUNDS / 2] / 1e3,
                         (double)slower[ROUNDS * 9 / 10] / 1e3};
}

static void report(bool json) {
  if (!json)
    printf(
        "%d tokens, hidden %d, top-%d, %d experts per rank, 2 ranks on 2 processors; us are medians (p10-p90) of the\n"
        "slower rank over %d rounds; ratio: bare copies of the same wire bytes / operation\n\n"
        "%-17s %-9s %9s  %-24s %-24s %9s %6s\n",
        TOKENS, HIDDEN, TOPK, EXPERTS, ROUNDS, "shape", "operation", "wire MB", "operation us", "bare copy us",
        "wire GB/s", "ratio");
  for (int shape = 0; shape < SHAPES; shape++)
    for (int half = 0; half < 2; half++) {
      struct spread own = spread_of(shape, half ? COMBINE : DISPATCH);
      struct spread copy = spread_of(shape, half ? COMBINE_COPY : DISPATCH_COPY);
      double bytes = (double)board->wire_bytes[shape][half][0];
      const char *name = half ? "combine" : "dispatch";
      if (json)
        printf("{\"shape\": \"%s\", \"operation\": \"%s\", \"wire_bytes\": %.0f, \"us\": [%.1f, %.1f, %.1f], "
               "\"copy_us\": [%.1f, %.1f, %.1f], \"ratio\": %.3f}\n",
               shapes[shape].name, name, bytes, own.p10, own.p50, own.p90, copy.p10, copy.p50, copy.p90,
               copy.p50 / own.p50);
      else
        printf("%-17s %-9s %9.3f  %7.1f (%.1f-%.1f)%*s %7.1f (%.1f-%.1f)%*s %9.2f %6.2f\n", shapes[shape].name, name,
               bytes / 1e6, own.p50, own.p10, own.p90, 2, "", copy.p50, copy.p10, copy.p90, 2, "",
               bytes / own.p50 / 1e3, copy.p50 / own.p50);
    }
}

int main(int argc, char **argv) {
  bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fprintf(stderr, "usage: bench_ep_pair [--json]\n");
    return 2;
  }
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (board == MAP_FAILED) {
    perror("bench_ep_pair: shared memory");
    return 3;
  }
  pid_t pids[RANKS];
  // The ranks are forked before the server starts its threads; they learn its URL through a pipe.
  int pipes[RANKS][2];
  for (int rank = 0; rank < RANKS; rank++) {
    if (pipe(pipes[rank]) != 0 || (pids[rank] = fork()) < 0) {
      perror("bench_ep_pair");
      return 3;
    }
    if (pids[rank] == 0) {
      char url[128] = "";
      close(pipes[rank][1]);
      if (read(pipes[rank][0], url, sizeof url - 1) <= 0)
        _exit(1);
      _exit(run_rank(rank, url));
    }
  }
  weft_store_server_t *server;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  if (weft_store_server_start(&server, &options) != 0) {
    fprintf(stderr, "bench_ep_pair: %s\n", weft_last_error());
    return 3;
  }
  const char *url = weft_store_server_url(server);
  int failed = 0;
  for (int rank = 0; rank < RANKS; rank++)
    failed |= write(pipes[rank][1], url, strlen(url)) < 0;
  for (int rank = 0; rank < RANKS; rank++) {
    int status;
    waitpid(pids[rank], &status, 0);
    failed |= status != 0;
  }
  weft_store_server_stop(server);
  if (!failed)
    report(json);
  return failed;
}
