// Measures dispatch and combine of many tokens between processes: prefill and training. On host memory two ranks are
// compared with bare copies of the same bytes, by turns in the same run. On two to eight GPUs (ranks=) they are
// compared with the links alone, and a matrix product on the other processors with the same product alone. Points that
// the library refuses are printed as refused.
// Usage: bench_ep_ht [--json] [--latency] [--memory host|cuda] [name=number...]; names as in `options` and `sizes`.
// With hosts=2 the ranks behave as if they were on two hosts, and connect by WEFT_EP_TRANSPORT.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ep_limits.h"
#include "ep_ht.h"
#include "support/gpu.h"
#include "support/ranks.h"
#include "support/values.h"

static struct ht_board *board;

// --- ranks ---

static int live(void *arg) {
  int rank = *(const int *)arg;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  if (!board->setup.cuda && bench_pin(rank) != 0) {
    fprintf(stderr, "bench_ep_ht: cannot pin to processor %d: %s\n", rank, strerror(errno));
    return 3;
  }
  options.endpoints = board->url;
  if (weft_store_open(&store, &options) != 0 || (board->setup.cuda && ht_prepare_cuda(board, rank) != 0))
    ht_fail(board, rank, "cannot begin");
  for (uint32_t i = 0; i < board->setup.num_points; i++)
    if (board->setup.cuda)
      ht_measure_cuda(board, store, rank, i);
    else
      ht_measure_host(board, store, rank, i);
  weft_store_close(store);
  return 0;
}

// --- what is measured ---

// About how much memory the ranks touch in their buffers: rows of x, of the sums, received rows and answers.
static double gigabytes(const struct ht_setup *s, const struct ht_point *p) {
  double row = 2.0 * s->hidden, received = p->layout == WEFT_EP_PACKED ? s->topk : s->ranks;
  return s->ranks * p->tokens * row * (2 + 2 * received) / 1e9;
}

static void add_point(struct ht_point point) {
  struct ht_setup *s = &board->setup;
  double room = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1e9;
  bool fits = s->cuda || gigabytes(s, &point) < 0.7 * room;
  if (s->num_points == HT_MAX_POINTS)
    return;
  if (!fits)
    snprintf(board->found[0][s->num_points].refused, HT_WHY, "needs about %.0f GB of memory, and %.0f are free",
             gigabytes(s, &point), room);
  s->points[s->num_points++] = point;
}

struct choice {
  uint32_t first, last, processors; // tokens; 0: by the kind of point
  uint32_t kinds;                   // a bit for each kind of point, in the order of the report; 0: all
};

// Whether this kind of point, the next one of a size, is wanted.
static bool is_wanted(const struct choice *choice, uint32_t *kind) {
  return !choice->kinds || choice->kinds >> (*kind)++ & 1;
}

// The marks have 24 processors, and 64 for the sums of packed rows.
static void add_points(const struct choice *choice) {
  static const enum weft_ep_layout layouts[] = {WEFT_EP_RANK_MAJOR, WEFT_EP_PACKED};
  bool cuda = board->setup.cuda;
  uint32_t kind = 0;
  for (uint32_t tokens = choice->first; tokens <= choice->last; tokens *= 2, kind = 0)
    for (int l = 0; l < 2; l++)
      for (int d = 0; d < 3; d++)
        for (enum ht_way way = 0; way < HT_WAYS; way++) {
          struct ht_point point = {.tokens = tokens,
                                   .layout = layouts[l],
                                   .dtype = d == 0 ? WEFT_EP_BF16 : WEFT_EP_FP8,
                                   .casts = d == 2,
                                   .way = way,
                                   .processors = cuda ? choice->processors ? choice->processors : 24 : 0};
          if (point.casts && (way != HT_FRESH || layouts[l] == WEFT_EP_PACKED))
            continue;
          if (is_wanted(choice, &kind))
            add_point(point);
          if (cuda && !choice->processors && point.layout == WEFT_EP_PACKED && d == 0 && way == HT_FRESH) {
            point.processors = 64;
            if (is_wanted(choice, &kind))
              add_point(point);
          }
        }
}

static struct choice choice = {.first = 512, .last = 32768};

static const struct {
  const char *name;
  uint32_t *value;
  uint32_t low, high;
} options[] = {
    {"tokens", &choice.first, 1, EP_MAX_TOKENS_THROUGHPUT},
    {"to", &choice.last, 1, EP_MAX_TOKENS_THROUGHPUT},
    {"processors", &choice.processors, EP_MIN_PROCESSORS, 1024},
    {"kinds", &choice.kinds, 1, UINT32_MAX},
};

// Settings for the board, which does not exist yet.
static uint32_t hidden = 7168, topk = 8, experts = 72, alignment = 1, window, rounds, num_ranks = 2, hosts = 1,
                zero_copy;
static const struct {
  const char *name;
  uint32_t *value;
  uint32_t low, high;
} sizes[] = {
    {"hidden", &hidden, WEFT_EP_BLOCK, EP_MAX_HIDDEN},
    {"topk", &topk, 1, EP_MAX_TOPK},
    {"experts", &experts, 1, EP_MAX_EXPERTS},
    {"alignment", &alignment, 1, 256},
    {"window", &window, 4096, UINT32_MAX},
    {"rounds", &rounds, 1, HT_MAX_ROUNDS},
    {"ranks", &num_ranks, 2, HT_MAX_RANKS},
    {"hosts", &hosts, 1, 2},
    {"zero_copy", &zero_copy, 0, 1},
};

static bool take(const char *text) {
  const char *number = strchr(text, '=');
  size_t length = number ? (size_t)(number - text) : 0;
  for (size_t i = 0; number && i < sizeof options / sizeof *options; i++)
    if (strlen(options[i].name) == length && strncmp(options[i].name, text, length) == 0) {
      *options[i].value = bench_number("bench_ep_ht", number + 1, options[i].low, options[i].high);
      return true;
    }
  for (size_t i = 0; number && i < sizeof sizes / sizeof *sizes; i++)
    if (strlen(sizes[i].name) == length && strncmp(sizes[i].name, text, length) == 0) {
      *sizes[i].value = bench_number("bench_ep_ht", number + 1, sizes[i].low, sizes[i].high);
      return true;
    }
  return false;
}

static bool parse(int argc, char **argv, bool *json, bool *cuda, bool *latency) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0)
      *json = true;
    else if (strcmp(argv[i], "--latency") == 0)
      *latency = true;
    else if (strcmp(argv[i], "--memory") == 0 && i + 1 < argc && strcmp(argv[i + 1], "cuda") == 0)
      *cuda = ++i;
    else if (strcmp(argv[i], "--memory") == 0 && i + 1 < argc && strcmp(argv[i + 1], "host") == 0)
      i++;
    else if (!take(argv[i]))
      return false;
  }
  if (*latency && choice.last > EP_MAX_TOKENS)
    choice.last = EP_MAX_TOKENS;
  choice.last = choice.last < choice.first ? choice.first : choice.last;
  return true;
}

static int usage(void) {
  fprintf(stderr, "usage: bench_ep_ht [--json] [--latency] [--memory host|cuda] [name=number...]\nnames:");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    fprintf(stderr, " %s", options[i].name);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    fprintf(stderr, " %s", sizes[i].name);
  fprintf(stderr, "\ntokens are doubled from tokens= up to to=; kinds=: a bit for each line of a size\n");
  return 2;
}

static void open_windows(void) {
  for (int rank = 0; rank < HT_PAIR; rank++)
    board->window[rank] = bench_shared(HT_WINDOW);
}

// Runs in a separate process, so that only that process has a context on a GPU.
static int has_gpus(void *arg) {
  (void)arg;
  return bench_count_gpus() >= (int)num_ranks ? 0 : 1;
}

int main(int argc, char **argv) {
  static int ranks[HT_MAX_RANKS];
  bool json = false, cuda = false, latency = false, well = true;
  struct bench_store store;
  pid_t pids[HT_MAX_RANKS];
  if (!parse(argc, argv, &json, &cuda, &latency))
    return usage();
  board = bench_shared(sizeof *board);
  board->setup = (struct ht_setup){.cuda = cuda,
                                   .json = json,
                                   .latency = latency,
                                   .hidden = hidden,
                                   .topk = topk,
                                   .experts = experts,
                                   .alignment = alignment,
                                   .window_bytes = window,
                                   .rounds = rounds,
                                   .ranks = num_ranks,
                                   .hosts = hosts,
                                   .zero_copy = zero_copy};
  if (!cuda && num_ranks != HT_PAIR) {
    fprintf(stderr, "bench_ep_ht: ranks=%u: on host memory there are two, beside bare copies between them\n",
            num_ranks);
    return 2;
  }
  if (cuda && !bench_reap(bench_fork(has_gpus, NULL))) {
    fprintf(stderr, "bench_ep_ht: --memory cuda needs a build with CUDA, and a GPU for each of %u ranks\n", num_ranks);
    return 3;
  }
  add_points(&choice);
  if (!cuda)
    open_windows();
  bench_store_start(&store, BENCH_EMBEDDED);
  snprintf(board->url, sizeof board->url, "%s", store.url);
  for (int rank = 0; rank < (int)num_ranks; rank++) {
    ranks[rank] = rank;
    pids[rank] = bench_fork(live, &ranks[rank]);
  }
  for (int rank = 0; rank < (int)num_ranks; rank++) {
    int status;
    waitpid(pids[rank], &status, 0); // this wait ends, since a rank waits for others only for a limited time
    well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!well)
      atomic_store(&board->failed, true);
  }
  bench_store_stop(&store);
  ht_report(board);
  return well ? 0 : 1;
}
