// A rank of bench_ep_ht on CUDA memory: a process and a GPU of its own. Times are those of events in the stream, and
// everything of a round is launched before it runs, behind a pair that is not timed: with it the GPUs begin together.
#include <cuda_runtime_api.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "ep/kernels/kernels.h"
#include "ep/oracle/pattern.h"
#include "ep_ht.h"
#include "ep_ht_kernels.h"
#include "support/values.h"

enum { WARM_UP = 5, ROUNDS = 30, AHEAD_US = 200, WAIT_MS = 20000, MARKS = 3, PRODUCTS = 4, BESIDE = 24 };

struct gpu {
  struct ht_board *board;
  const struct ht_setup *setup;
  const struct ht_point *point;
  struct ht_found *found;
  int rank;
  weft_ep_t *ep;
  weft_ep_route_t *route;
  cudaStream_t stream, other; // of operations, of the matrix product
  cudaEvent_t mark[MARKS], product_mark[2];
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_recv_args recv;
  struct weft_ep_combine_args combine;
  struct weft_ep_info info;
  struct weft_ep_result result;
  void *memory[32]; // all that is to be freed
  uint32_t num_memory;
};

int ht_count_gpus(void) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int ht_prepare_cuda(struct ht_board *board, int rank) {
  (void)board;
  return cudaSetDevice(rank) == cudaSuccess ? 0 : -1;
}

static void cuda(const struct gpu *g, int error, const char *what) {
  if (error == 0)
    return;
  fprintf(stderr, "bench_ep_ht: rank %d: %s: %s\n", g->rank, what, cudaGetErrorString((cudaError_t)error));
  ht_fail(g->board, g->rank, what);
}

// --- buffers ---

static void *take(struct gpu *g, size_t size) {
  void *memory = NULL;
  cuda(g, cudaMalloc(&memory, size ? size : 1), "cudaMalloc");
  cuda(g, cudaMemset(memory, 0, size), "cudaMemset");
  g->memory[g->num_memory++] = memory;
  return memory;
}

static void *upload(struct gpu *g, const void *from, size_t size) {
  void *memory = take(g, size);
  cuda(g, cudaMemcpy(memory, from, size, cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

static bool is_fp8(const struct gpu *g) {
  return g->point->dtype != WEFT_EP_BF16;
}

// e4m3 and its scales, of `x` on the host.
static void upload_cast(struct gpu *g, const uint16_t *x) {
  size_t hidden = g->setup->hidden, tokens = g->point->tokens, blocks = hidden / WEFT_EP_BLOCK;
  uint8_t *cast = malloc(tokens * hidden);
  float *scales = malloc(tokens * blocks * sizeof *scales);
  if (!cast || !scales)
    ht_fail(g->board, g->rank, "no memory for rows");
  for (size_t t = 0; t < tokens; t++)
    ep_kernels_best()->cast_fp8(cast + t * hidden, scales + t * blocks, x + t * hidden, (uint32_t)hidden, false);
  g->dispatch.x = upload(g, cast, tokens * hidden);
  g->dispatch.scales = upload(g, scales, tokens * blocks * sizeof *scales);
  free(cast);
  free(scales);
}

static void make_input(struct gpu *g) {
  static const int32_t active[HT_RANKS] = {0, 1};
  const struct ht_setup *s = g->setup;
  size_t tokens = g->point->tokens, values = tokens * s->hidden, selections = tokens * s->topk;
  struct pattern pattern = {
      .seed = 1, .num_tokens = g->point->tokens, .hidden = s->hidden, .topk = s->topk, .experts_per_rank = s->experts};
  uint16_t *x = malloc(values * sizeof *x);
  int64_t *topk_idx = malloc(selections * sizeof *topk_idx);
  float *weights = malloc(selections * sizeof *weights);
  if (!x || !topk_idx || !weights)
    ht_fail(g->board, g->rank, "no memory for rows");
  pattern_fill(&pattern, 1, g->rank, active, HT_RANKS, x, topk_idx, weights);
  if (is_fp8(g) && !g->point->casts)
    upload_cast(g, x);
  else
    g->dispatch.x = upload(g, x, values * sizeof *x);
  g->dispatch.topk_idx = upload(g, topk_idx, selections * sizeof *topk_idx);
  g->dispatch.topk_weights = upload(g, weights, selections * sizeof *weights);
  free(x);
  free(topk_idx);
  free(weights);
}

static void make_buffers(struct gpu *g) {
  const struct ht_setup *s = g->setup;
  const struct ht_point *p = g->point;
  bool rank_major = p->layout == WEFT_EP_RANK_MAJOR;
  size_t pairs = (size_t)HT_RANKS * p->tokens, hidden = s->hidden, rows = pairs;
  uint32_t most = s->topk < s->experts ? s->topk : s->experts;
  if (!rank_major) // what the worst top-k would need; a rank of two gets about half of it
    rows = pairs * most + (size_t)s->experts * s->alignment;
  g->dispatch = (struct weft_ep_dispatch_args){
      .size = sizeof g->dispatch, .num_tokens = p->tokens, .processors = p->processors, .stream = g->stream};
  make_input(g);
  g->recv = (struct weft_ep_recv_args){.size = sizeof g->recv,
                                       .layout = p->layout,
                                       .rows = (uint32_t)rows,
                                       .x = take(g, rows * hidden * (is_fp8(g) ? 1 : 2)),
                                       .counts = take(g, s->experts * sizeof(int32_t)),
                                       .alignment = rank_major ? 0 : s->alignment,
                                       .stream = g->stream};
  if (is_fp8(g))
    g->recv.scales = take(g, rows * (hidden / WEFT_EP_BLOCK) * sizeof(float));
  if (rank_major) {
    g->recv.local_expert = take(g, rows * s->topk * sizeof(int32_t));
    g->recv.weights = take(g, rows * s->topk * sizeof(float));
  } else {
    g->recv.expert_end = take(g, s->experts * sizeof(int32_t));
    g->recv.slot = take(g, rows * s->topk * sizeof(int32_t));
  }
  g->combine = (struct weft_ep_combine_args){.size = sizeof g->combine,
                                             .y = take(g, rows * hidden * sizeof(uint16_t)),
                                             .out = take(g, p->tokens * hidden * sizeof(uint16_t)),
                                             .processors = p->processors,
                                             .stream = g->stream};
}

static void open_point(struct gpu *g) {
  cuda(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  cuda(g, cudaStreamCreateWithFlags(&g->other, cudaStreamNonBlocking), "cudaStreamCreate");
  for (int i = 0; i < MARKS; i++)
    cuda(g, cudaEventCreate(&g->mark[i]), "cudaEventCreate");
  for (int i = 0; i < 2; i++)
    cuda(g, cudaEventCreate(&g->product_mark[i]), "cudaEventCreate");
  make_buffers(g);
  cuda(g, cudaDeviceSynchronize(), "filling the buffers");
}

static void close_point(struct gpu *g) {
  for (uint32_t i = 0; i < g->num_memory; i++)
    cuda(g, cudaFree(g->memory[i]), "cudaFree");
  for (int i = 0; i < MARKS; i++)
    cuda(g, cudaEventDestroy(g->mark[i]), "cudaEventDestroy");
  for (int i = 0; i < 2; i++)
    cuda(g, cudaEventDestroy(g->product_mark[i]), "cudaEventDestroy");
  cuda(g, cudaStreamDestroy(g->stream), "cudaStreamDestroy");
  cuda(g, cudaStreamDestroy(g->other), "cudaStreamDestroy");
}

// --- operations ---

static void drain(struct gpu *g, cudaStream_t stream) {
  uint64_t deadline = clock_deadline_ms(WAIT_MS);
  int error;
  while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady)
    if (clock_passed(deadline))
      ht_fail(g->board, g->rank, "operations have not ended by the deadline");
  cuda(g, error, "the stream");
}

static int launch_pair(struct gpu *g, uint64_t *op) {
  int err = weft_ep_dispatch(g->ep, &g->dispatch, &g->recv, NULL, op);
  return err ? err : weft_ep_combine(g->ep, *op, &g->combine, NULL);
}

static void settle(struct gpu *g, uint64_t op) {
  drain(g, g->stream);
  g->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  g->result = (struct weft_ep_result)WEFT_EP_RESULT_INIT;
  if (weft_ep_await(g->ep, op, &g->info, &g->result, WAIT_MS) != 0)
    ht_fail(g->board, g->rank, "weft_ep_await");
  if (g->info.num_lost + g->result.num_lost + g->result.num_missing > 0)
    ht_fail(g->board, g->rank, "a rank was lost");
}

static int start(struct gpu *g) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  uint64_t op;
  options.max_tokens = g->point->tokens;
  options.max_rows = HT_RANKS * g->point->tokens;
  options.alignment = g->point->layout == WEFT_EP_PACKED ? g->setup->alignment : 0;
  int err = g->point->kept ? weft_ep_route_create(g->ep, &options, &g->route) : 0;
  g->dispatch.route = g->route;
  if (!err)
    err = launch_pair(g, &op);
  if (err)
    return err;
  settle(g, op);
  if (g->point->kept) {
    g->dispatch.topk_idx = NULL;
    g->dispatch.topk_weights = NULL;
  }
  g->found->wire_bytes[0] = g->info.wire_bytes;
  g->found->wire_bytes[1] = g->result.wire_bytes;
  return 0;
}

static uint64_t elapsed_ns(struct gpu *g, cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  cuda(g, cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  return (uint64_t)((double)ms * 1e6);
}

static void record(struct gpu *g, cudaEvent_t event, cudaStream_t stream) {
  cuda(g, cudaEventRecord(event, stream), "cudaEventRecord");
}

static void take_round(struct gpu *g, int round) {
  uint64_t op;
  if (weft_ep_barrier(g->ep) != 0)
    ht_fail(g->board, g->rank, "weft_ep_barrier");
  cuda(g, ht_cuda_spin(AHEAD_US, g->stream), "the spin kernel");
  if (launch_pair(g, &op) != 0)
    ht_fail(g->board, g->rank, "an operation");
  record(g, g->mark[0], g->stream);
  if (weft_ep_dispatch(g->ep, &g->dispatch, &g->recv, NULL, &op) != 0)
    ht_fail(g->board, g->rank, "a dispatch");
  record(g, g->mark[1], g->stream);
  if (weft_ep_combine(g->ep, op, &g->combine, NULL) != 0)
    ht_fail(g->board, g->rank, "a combine");
  record(g, g->mark[2], g->stream);
  settle(g, op);
  for (int half = 0; half < 2 && round >= 0; half++)
    g->found->ns[HT_DISPATCH + half][round] = elapsed_ns(g, g->mark[half], g->mark[half + 1]);
}

// --- the bounds ---

// The links alone, by rank 0 while rank 1 waits.
static void time_links(struct gpu *g, uint32_t rounds) {
  double us[ROUNDS];
  ht_meet(g->board);
  for (int half = 0; half < 2 && g->rank == 0; half++) {
    cuda(g, ht_cuda_links(g->found->wire_bytes[half], rounds, us), "copies between the GPUs");
    for (uint32_t i = 0; i < rounds; i++)
      g->found->ns[HT_DISPATCH_COPY + half][i] = (uint64_t)(us[i] * 1e3);
  }
  ht_meet(g->board);
}

// ms of PRODUCTS matrix products; with `beside`, while operations run one after the other.
static double time_product(struct gpu *g, struct ht_product *product, bool beside) {
  uint64_t op = 0;
  if (weft_ep_barrier(g->ep) != 0)
    ht_fail(g->board, g->rank, "weft_ep_barrier");
  record(g, g->product_mark[0], g->other);
  cuda(g, ht_product_launch(product, g->other, PRODUCTS), "the matrix product");
  record(g, g->product_mark[1], g->other);
  for (int i = 0; i < BESIDE && beside; i++)
    if (launch_pair(g, &op) != 0)
      ht_fail(g->board, g->rank, "an operation beside the matrix product");
  if (beside)
    settle(g, op);
  drain(g, g->other);
  return (double)elapsed_ns(g, g->product_mark[0], g->product_mark[1]) / 1e6;
}

// On the processors that kernels of operations leave: time alone against beside these, medians of some turns each.
static void measure_product(struct gpu *g) {
  enum { TURNS = 7 };
  struct ht_product *product = NULL;
  int processors = 0;
  double alone[TURNS], beside[TURNS];
  cuda(g, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, g->rank), "cudaDeviceGetAttribute");
  if (!g->point->processors || g->point->processors >= (uint32_t)processors)
    return;
  cuda(g, ht_product_open(&product, (uint32_t)processors - g->point->processors), "the matrix product");
  time_product(g, product, false);
  for (int i = 0; i < TURNS; i++) {
    alone[i] = time_product(g, product, false);
    beside[i] = time_product(g, product, true);
  }
  ht_product_close(product);
  g->found->product = bench_median(alone, TURNS) / bench_median(beside, TURNS);
}

void ht_measure_cuda(struct ht_board *board, weft_store_t *store, int rank, uint32_t point) {
  struct gpu g = {.board = board,
                  .setup = &board->setup,
                  .point = &board->setup.points[point],
                  .found = &board->found[rank][point],
                  .rank = rank};
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  uint32_t rounds = g.setup->rounds && g.setup->rounds < ROUNDS ? g.setup->rounds : ROUNDS;
  g.ep = ht_open(board, store, rank, point, rank);
  if (!g.ep)
    return;
  open_point(&g);
  int err = start(&g);
  if (err == WEFT_ERR_UNSUPPORTED) {
    snprintf(g.found->refused, sizeof g.found->refused, "%s", weft_last_error());
  } else if (err) {
    ht_fail(board, rank, "the first operation");
  } else {
    for (int i = -WARM_UP; i < (int)rounds; i++)
      take_round(&g, i);
    time_links(&g, rounds);
    measure_product(&g);
    g.found->rounds = rounds;
  }
  if (weft_ep_get_peer_stats(g.ep, 1 - rank, &stats) == 0)
    g.found->window_bytes = stats.window_bytes;
  ht_meet(board); // nobody leaves while the other operates
  drain(&g, g.stream);
  weft_ep_route_free(g.route);
  weft_ep_close(g.ep);
  close_point(&g);
}
