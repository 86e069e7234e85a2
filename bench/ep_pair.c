// Compares dispatch and combine with bare copies. Two ranks, in two processes pinned to two processors, operate; by
// turns in each round the same two processes only copy the same bytes from the same buffers through the same windows
// into the same buffers. The result is the ratio of the times. Usage: bench_ep_pair [--json]
#include "ep_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/oracle/pattern.h"
#include "support/pair.h"
#include "support/values.h"

enum {
  PINGS = 100,
  HUGE_PAGE = 2 << 20,
  DEADLINE_MS = 30000,
};

const struct shape shapes[SHAPES] = {
    {"bf16 rank-major", WEFT_EP_BF16, WEFT_EP_RANK_MAJOR, false, false},
    {"bf16 rank-major in place", WEFT_EP_BF16, WEFT_EP_RANK_MAJOR, true, false},
    {"bf16 per-expert", WEFT_EP_BF16, WEFT_EP_PER_EXPERT, false, false},
    {"bf16 per-expert in place", WEFT_EP_BF16, WEFT_EP_PER_EXPERT, true, false},
    {"fp8 rank-major", WEFT_EP_FP8, WEFT_EP_RANK_MAJOR, false, false},
    {"fp8 rank-major in place", WEFT_EP_FP8, WEFT_EP_RANK_MAJOR, true, false},
    {"fp8 cast before", WEFT_EP_FP8, WEFT_EP_RANK_MAJOR, false, true},
    {"fp8 cast before in place", WEFT_EP_FP8, WEFT_EP_RANK_MAJOR, true, true},
    {"fp8 per-expert", WEFT_EP_FP8, WEFT_EP_PER_EXPERT, false, false},
    {"fp8 per-expert in place", WEFT_EP_FP8, WEFT_EP_PER_EXPERT, true, false},
};

static struct board *board;

static void fail_bench(const char *what) {
  fprintf(stderr, "bench_ep_pair: %s: %s\n", what, weft_last_error());
  _exit(1);
}

// A barrier: both processes leave it at about the same moment.
static void meet(void) {
  uint32_t place = atomic_fetch_add(&board->arrived, 1) / RANKS;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (atomic_load(&board->arrived) < (place + 1) * RANKS)
    if (clock_passed(deadline)) {
      fprintf(stderr, "bench_ep_pair: the other process did not come\n");
      _exit(1);
    }
}

struct buffers {
  uint16_t x[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
  uint8_t cast[2 * TOKENS * HIDDEN], heads[TOKENS * 128]; // what the copies send in place of fp8 rows and row headers
  float cast_scales[TOKENS * HIDDEN / 128];
  int64_t topk_idx[TOKENS * TOPK];
  float weights[TOKENS * TOPK];
  uint16_t received[EXPERTS * RANKS * TOKENS * HIDDEN], y[EXPERTS * RANKS * TOKENS * HIDDEN];
  float scales[EXPERTS * RANKS * TOKENS * HIDDEN / 128];
  const void *rows_at[EXPERTS * RANKS * TOKENS];
  void *answers_at[RANKS * TOKENS];
  int32_t counts[EXPERTS], local_expert[RANKS * TOKENS * TOPK];
};

// The bytes of one half: row headers and rows, at their places in a slot.
struct load {
  size_t head_bytes, row_bytes, stride, heads_at, rows_at;
  uint32_t rows;
  const uint8_t *from;
  uint8_t *to;
};

static struct load load_of(weft_ep_t *ep, enum half half, struct buffers *b, uint64_t wire_bytes) {
  const struct ep_layout *layout = &ep->layout;
  size_t combine_row = sizeof(uint16_t) * HIDDEN;
  if (half == COMBINE)
    return (struct load){.row_bytes = combine_row,
                         .stride = combine_row,
                         .rows_at = layout->combine,
                         .rows = (uint32_t)(wire_bytes / combine_row),
                         .from = (uint8_t *)b->y,
                         .to = (uint8_t *)b->out};
  uint32_t rows = (uint32_t)(wire_bytes / ep_layout_dispatch_bytes(layout, 1));
  return (struct load){.head_bytes = rows * layout->head_stride,
                       .row_bytes = layout->value_bytes + layout->scale_bytes,
                       .stride = layout->row_stride,
                       .heads_at = layout->heads,
                       .rows_at = layout->rows,
                       .rows = rows,
                       .from = ep->dtype == WEFT_EP_BF16 ? (uint8_t *)b->x : b->cast,
                       .to = (uint8_t *)b->received};
}

static void copy_rows(const struct load *load, void (*copy)(void *to, const void *from, size_t size), uint8_t *to,
                      const uint8_t *from) {
  for (uint32_t i = 0; i < load->rows; i++)
    copy(to + i * load->stride, from + i * load->stride, load->row_bytes);
}

static void copy_libc(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}

// Touches the memory: what was just made is in the cache of its maker, as far as it fits.
static void make(void *memory, size_t size) {
  for (volatile uint8_t *at = memory, *end = at + size; at < end; at += 64)
    *at = *at;
}

struct run {
  weft_ep_t *ep;
  int rank, shape;
  struct buffers *b;
  uint64_t sequence, balls;
};

// The time that a word takes from one processor to the other.
static double ping(struct run *run) {
  meet();
  uint64_t begin = clock_ns();
  for (int i = 0; i < PINGS; i++, run->balls += 2) {
    while (atomic_load_explicit(&board->ball, memory_order_acquire) != run->balls + (uint64_t)run->rank)
      ;
    atomic_store_explicit(&board->ball, run->balls + (uint64_t)run->rank + 1, memory_order_release);
  }
  return (double)(clock_ns() - begin) / (2 * PINGS);
}

// Copies the bytes of a half into the window of the other rank, and out of this rank's window; a flag says that a
// window is full. `slot` is the number of an operation that used the slot.
static void bare_copy(struct run *run, const struct load *load, enum way way, uint64_t slot, int round,
                      enum half half) {
  weft_ep_t *ep = run->ep;
  void (*const ways[])(void *to, const void *from, size_t size) = {copy_libc, ep->kernels->copy, ep->kernels->stream};
  void (*copy)(void *to, const void *from, size_t size) = ways[way];
  struct ep_link *link = ep_link_find(ep, 1 - ep->rank, 0);
  uint8_t *out = (uint8_t *)ep_slot(&ep->layout, link->out.memory, slot);
  uint8_t *in = (uint8_t *)ep_slot(&ep->layout, link->in.memory, slot);
  uint64_t number = ++run->sequence;
  make((void *)load->from, load->rows * load->stride);
  meet();
  uint64_t begin = clock_ns();
  copy(out + load->heads_at, run->b->heads, load->head_bytes);
  copy_rows(load, copy, out + load->rows_at, load->from);
  ep_kernels_fence();
  atomic_store_explicit(&board->flag[1 - ep->rank][0], number, memory_order_release);
  while (atomic_load_explicit(&board->flag[ep->rank][0], memory_order_acquire) < number)
    ;
  uint64_t written = clock_ns();
  copy = way == STREAM ? ep->kernels->copy : copy; // the copy out of the window goes to this rank's own memory
  copy(run->b->heads, in + load->heads_at, load->head_bytes);
  copy_rows(load, copy, load->to, in + load->rows_at);
  uint64_t copied = clock_ns();
  if (round < 0)
    return;
  board->ns[run->shape][half][WRITE + way][ep->rank][round] = written - begin;
  board->ns[run->shape][half][COPY + way][ep->rank][round] = copied - begin;
}

static weft_ep_t *open_rank(weft_store_t *store, int rank, int shape) {
  char prefix[64];
  snprintf(prefix, sizeof prefix, "/weft/bench/%d/", shape);
  struct weft_ep_options options = bench_pair_options(store, prefix, rank);
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

static void operate(struct run *run, int round, uint64_t wire_bytes[HALVES]) {
  struct buffers *b = run->b;
  struct weft_ep_dispatch_args dispatch = {
      .size = sizeof dispatch, .x = b->x, .num_tokens = TOKENS, .topk_idx = b->topk_idx, .topk_weights = b->weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = shapes[run->shape].layout,
                                   .rows = RANKS * TOKENS,
                                   .x = b->received,
                                   .scales = b->scales,
                                   .counts = b->counts};
  if (recv.layout == WEFT_EP_RANK_MAJOR)
    recv.local_expert = b->local_expert;
  if (shapes[run->shape].in_place) {
    recv.x = NULL;
    recv.rows_at = b->rows_at;
  }
  if (shapes[run->shape].cast_before) {
    dispatch.x = b->cast;
    dispatch.scales = b->cast_scales;
    make(b->cast_scales, sizeof b->cast_scales);
  }
  bool placed = shapes[run->shape].in_place && recv.layout == WEFT_EP_RANK_MAJOR;
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = placed ? NULL : b->y, .out = b->out};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op, ns[HALVES];
  make((void *)dispatch.x, (dispatch.scales ? sizeof(uint8_t) : sizeof(uint16_t)) * TOKENS * HIDDEN);
  meet();
  uint64_t begin = clock_ns();
  if (weft_ep_dispatch(run->ep, &dispatch, &recv, &info, &op) != 0)
    fail_bench("dispatch");
  ns[DISPATCH] = clock_ns() - begin;
  if (placed && weft_ep_combine_rows(run->ep, op, b->answers_at) != 0)
    fail_bench("combine_rows");
  make(b->y, (recv.layout == WEFT_EP_PER_EXPERT ? EXPERTS : 1) * sizeof(uint16_t) * HIDDEN * RANKS * TOKENS);
  for (uint32_t row = 0; placed && row < info.num_rows; row++) // as an expert would write them
    run->ep->kernels->stream(b->answers_at[row], b->y + (size_t)row * HIDDEN, sizeof(uint16_t) * HIDDEN);
  for (uint32_t row = 0; shapes[run->shape].in_place && row < info.num_rows; row++) // as an expert would read them
    if (recv.layout == WEFT_EP_RANK_MAJOR)
      run->ep->kernels->copy(b->received + (size_t)row * HIDDEN, b->rows_at[row], run->ep->layout.value_bytes);
  meet();
  begin = clock_ns();
  if (weft_ep_combine(run->ep, op, &combine, &result) != 0)
    fail_bench("combine");
  ns[COMBINE] = clock_ns() - begin;
  if (info.num_lost + result.num_lost > 0)
    fail_bench("a rank was lost");
  wire_bytes[DISPATCH] = info.wire_bytes;
  wire_bytes[COMBINE] = result.wire_bytes;
  for (int half = 0; round >= 0 && half < HALVES; half++)
    board->ns[run->shape][half][OPERATION][run->rank][round] = ns[half];
}

// Runs two operations, then a copy through each of the two slots. So both find the windows equally long after their
// last use. The ways of copying take turns.
static void run_rounds(struct run *run, int first) {
  uint64_t wire_bytes[HALVES];
  for (int i = 0; i < EP_DEPTH; i++) {
    double one_way = ping(run);
    if (run->rank == 0 && first >= 0)
      board->ping_ns[run->shape][first + i] = one_way;
    operate(run, first + i, wire_bytes);
  }
  for (int i = 0; i < EP_DEPTH; i++)
    for (enum half half = 0; half < HALVES; half++) {
      struct load load = load_of(run->ep, half, run->b, wire_bytes[half]);
      bare_copy(run, &load, (enum way)((first + WARM_UP + i) % WAYS), weft_ep_next_op(run->ep) + (uint64_t)i, first + i,
                half);
    }
  for (int half = 0; run->rank == 0 && half < HALVES; half++)
    board->wire_bytes[run->shape][half] = wire_bytes[half];
}

static int run_rank(int rank, const char *url) {
  if (bench_pin(rank) != 0) {
    fprintf(stderr, "bench_ep_pair: cannot pin to processor %d: %s\n", rank, strerror(errno));
    return 3;
  }
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = url;
  weft_store_t *store;
  struct buffers *b = aligned_alloc(HUGE_PAGE, (sizeof *b + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  if (!b || weft_store_open(&store, &options) != 0)
    fail_bench("cannot open the store");
  madvise(b, sizeof *b, MADV_HUGEPAGE); // with small pages each row would cost a miss of the TLB
  memset(b, 0, sizeof *b);
  static const int32_t active[RANKS] = {0, 1};
  const struct pattern pattern = {
      .seed = 1, .num_tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts_per_rank = EXPERTS};
  pattern_fill(&pattern, 1, rank, active, RANKS, b->x, b->topk_idx, b->weights);
  ep_kernels_best()->cast_fp8(b->cast, b->cast_scales, b->x, TOKENS * HIDDEN, false);
  struct run run = {.rank = rank, .b = b};
  for (run.shape = 0; run.shape < SHAPES; run.shape++) {
    run.ep = open_rank(store, rank, run.shape);
    for (int round = -WARM_UP; round < ROUNDS; round += EP_DEPTH)
      run_rounds(&run, round);
    meet(); // neither rank leaves while the other operates
    weft_ep_close(run.ep);
  }
  weft_store_close(store);
  free(b);
  return 0;
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
  // The ranks are forked before the server starts its threads; they get its URL through a pipe.
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
  options.flags = WEFT_STORE_SERVER_INSECURE;
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
    report_pair(board, json);
  return failed;
}
