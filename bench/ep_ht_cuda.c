// A rank of bench_ep_ht on CUDA memory, with its own process and its own GPU. Times come from events in the stream.
// Everything of a round is launched before it runs. An untimed pair and a pair without tokens run first, so that the
// GPUs begin together.
#include <cuda_runtime_api.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "ep/kernels/kernels.h"
#include "ep_ht.h"
#include "ep_ht_kernels.h"
#include "support/gpu.h"
#include "support/values.h"

enum { WARM_UP = 5, ROUNDS = 30, AHEAD_US = 200, WAIT_MS = 20000, MARKS = 3, PRODUCTS = 4, BESIDE = 24 };

struct gpu {
  struct ht_rank r;
  cudaStream_t stream, other; // for operations, and for the matrix product
  cudaEvent_t mark[MARKS], product_mark[2];
  void *memory[32]; // all that is to be freed
  uint32_t num_memory;
};

int ht_prepare_cuda(struct ht_board *board, int rank) {
  (void)board;
  return cudaSetDevice(rank) == cudaSuccess ? 0 : -1;
}

static void cuda(const struct gpu *g, int error, const char *what) {
  if (error == 0)
    return;
  fprintf(stderr, "bench_ep_ht: rank %d: %s: %s\n", g->r.rank, what, cudaGetErrorString((cudaError_t)error));
  ht_fail(g->r.board, g->r.rank, what);
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

// e4m3 and its scales, of `x` on the host.
static void upload_cast(struct gpu *g, const uint16_t *x) {
  size_t hidden = g->r.setup->hidden, tokens = g->r.point->tokens, blocks = hidden / WEFT_EP_BLOCK;
  uint8_t *cast = malloc(tokens * hidden);
  float *scales = malloc(tokens * blocks * sizeof *scales);
  if (!cast || !scales)
    ht_fail(g->r.board, g->r.rank, "no memory for rows");
  for (size_t t = 0; t < tokens; t++)
    ep_kernels_best()->cast_fp8(cast + t * hidden, scales + t * blocks, x + t * hidden, (uint32_t)hidden, false);
  g->r.dispatch.x = upload(g, cast, tokens * hidden);
  g->r.dispatch.scales = upload(g, scales, tokens * blocks * sizeof *scales);
  free(cast);
  free(scales);
}

static void make_input(struct gpu *g) {
  const struct ht_setup *s = g->r.setup;
  size_t tokens = g->r.point->tokens, values = tokens * s->hidden, selections = tokens * s->topk;
  uint16_t *x = malloc(values * sizeof *x);
  int64_t *topk_idx = malloc(selections * sizeof *topk_idx);
  float *weights = malloc(selections * sizeof *weights);
  if (!x || !topk_idx || !weights)
    ht_fail(g->r.board, g->r.rank, "no memory for rows");
  ht_fill(&g->r, x, topk_idx, weights);
  if (ht_is_fp8(g->r.point) && !g->r.point->casts)
    upload_cast(g, x);
  else
    g->r.dispatch.x = upload(g, x, values * sizeof *x);
  g->r.dispatch.topk_idx = upload(g, topk_idx, selections * sizeof *topk_idx);
  g->r.dispatch.topk_weights = upload(g, weights, selections * sizeof *weights);
  free(x);
  free(topk_idx);
  free(weights);
}

static void make_buffers(struct gpu *g) {
  const struct ht_setup *s = g->r.setup;
  const struct ht_point *p = g->r.point;
  bool rank_major = p->layout == WEFT_EP_RANK_MAJOR;
  size_t pairs = (size_t)s->ranks * p->tokens, hidden = s->hidden, rows = pairs;
  uint32_t most = s->topk < s->experts ? s->topk : s->experts;
  if (!rank_major) // room for the worst top-k; a rank gets about its share of it
    rows = pairs * most + (size_t)s->experts * s->alignment;
  g->r.dispatch = (struct weft_ep_dispatch_args){
      .size = sizeof g->r.dispatch, .num_tokens = p->tokens, .processors = p->processors, .stream = g->stream};
  make_input(g);
  g->r.recv = (struct weft_ep_recv_args){.size = sizeof g->r.recv,
                                         .layout = p->layout,
                                         .rows = (uint32_t)rows,
                                         .x = take(g, rows * hidden * (ht_is_fp8(g->r.point) ? 1 : 2)),
                                         .counts = take(g, s->experts * sizeof(int32_t)),
                                         .alignment = rank_major ? 0 : s->alignment,
                                         .stream = g->stream};
  if (ht_is_fp8(g->r.point))
    g->r.recv.scales = take(g, rows * (hidden / WEFT_EP_BLOCK) * sizeof(float));
  if (rank_major) {
    g->r.recv.local_expert = take(g, rows * s->topk * sizeof(int32_t));
    g->r.recv.weights = take(g, rows * s->topk * sizeof(float));
  } else {
    g->r.recv.expert_end = take(g, s->experts * sizeof(int32_t));
    g->r.recv.slot = take(g, rows * s->topk * sizeof(int32_t));
  }
  void *y = weft_ep_get_zero_copy_memory(g->r.ep, NULL); // NULL if there is no such memory
  g->r.combine = (struct weft_ep_combine_args){.size = sizeof g->r.combine,
                                               .y = y ? y : take(g, rows * hidden * sizeof(uint16_t)),
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
      ht_fail(g->r.board, g->r.rank, "operations have not ended by the deadline");
  cuda(g, error, "the stream");
}

static int launch_with(struct gpu *g, const struct weft_ep_dispatch_args *dispatch, uint64_t *op) {
  int err = weft_ep_dispatch(g->r.ep, dispatch, &g->r.recv, NULL, op);
  return err ? err : weft_ep_combine(g->r.ep, *op, &g->r.combine, NULL);
}

static int launch_pair(struct gpu *g, uint64_t *op) {
  return launch_with(g, &g->r.dispatch, op);
}

// After a pair the ranks end up to 15 us apart, which would make the next operation longer on the rank that was first.
// A pair without tokens ends on all ranks within a microsecond or two.
static int launch_meeting(struct gpu *g) {
  uint64_t op;
  struct weft_ep_dispatch_args none = g->r.dispatch;
  none.num_tokens = 0;
  none.route = NULL;
  return launch_with(g, &none, &op);
}

static void settle(struct gpu *g, uint64_t op) {
  drain(g, g->stream);
  g->r.info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  g->r.result = (struct weft_ep_result)WEFT_EP_RESULT_INIT;
  if (weft_ep_await(g->r.ep, op, &g->r.info, &g->r.result, WAIT_MS) != 0)
    ht_fail(g->r.board, g->r.rank, "weft_ep_await");
  if (g->r.info.num_lost + g->r.result.num_lost + g->r.result.num_missing > 0)
    ht_fail(g->r.board, g->r.rank, "a rank was lost");
}

static int start(struct gpu *g) {
  uint64_t op;
  int err = ht_make_route(&g->r);
  g->r.dispatch.route = g->r.route;
  if (!err)
    err = launch_pair(g, &op);
  if (err)
    return err;
  settle(g, op);
  ht_go_by_route(&g->r);
  g->r.found->wire_bytes[0] = g->r.info.wire_bytes;
  g->r.found->wire_bytes[1] = g->r.result.wire_bytes;
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
  if (weft_ep_barrier(g->r.ep) != 0)
    ht_fail(g->r.board, g->r.rank, "weft_ep_barrier");
  cuda(g, bench_spin(AHEAD_US, g->stream), "the spin kernel");
  if (launch_pair(g, &op) != 0 || launch_meeting(g) != 0)
    ht_fail(g->r.board, g->r.rank, "an operation");
  record(g, g->mark[0], g->stream);
  if (weft_ep_dispatch(g->r.ep, &g->r.dispatch, &g->r.recv, NULL, &op) != 0)
    ht_fail(g->r.board, g->r.rank, "a dispatch");
  record(g, g->mark[1], g->stream);
  if (weft_ep_combine(g->r.ep, op, &g->r.combine, NULL) != 0)
    ht_fail(g->r.board, g->r.rank, "a combine");
  record(g, g->mark[2], g->stream);
  settle(g, op);
  for (int half = 0; half < 2 && round >= 0; half++)
    g->r.found->ns[HT_DISPATCH + half][round] = elapsed_ns(g, g->mark[half], g->mark[half + 1]);
}

// --- the bounds ---

// The links alone: rank 0 copies while the others wait. It sends to one GPU as many bytes as an operation sends to all,
// since each GPU has its own links.
static void time_links(struct gpu *g, uint32_t rounds) {
  double us[ROUNDS];
  ht_meet(g->r.board);
  for (int half = 0; half < 2 && g->r.rank == 0; half++) {
    cuda(g, ht_cuda_links(g->r.found->wire_bytes[half], rounds, us), "copies between the GPUs");
    for (uint32_t i = 0; i < rounds; i++)
      g->r.found->ns[HT_DISPATCH_COPY + half][i] = (uint64_t)(us[i] * 1e3);
  }
  ht_meet(g->r.board);
}

// The time of PRODUCTS matrix products in ms; with `beside`, while operations run one after the other.
static double time_product(struct gpu *g, struct ht_product *product, bool beside) {
  uint64_t op = 0;
  if (weft_ep_barrier(g->r.ep) != 0)
    ht_fail(g->r.board, g->r.rank, "weft_ep_barrier");
  record(g, g->product_mark[0], g->other);
  cuda(g, ht_product_launch(product, g->other, PRODUCTS), "the matrix product");
  record(g, g->product_mark[1], g->other);
  for (int i = 0; i < BESIDE && beside; i++)
    if (launch_pair(g, &op) != 0)
      ht_fail(g->r.board, g->r.rank, "an operation beside the matrix product");
  if (beside)
    settle(g, op);
  drain(g, g->other);
  return (double)elapsed_ns(g, g->product_mark[0], g->product_mark[1]) / 1e6;
}

// Times the product on the processors that the kernels of operations leave free, alone and beside operations: medians
// of several turns. It is not done between hosts, where operations mostly wait for the relay.
static void measure_product(struct gpu *g) {
  enum { TURNS = 7 };
  struct ht_product *product = NULL;
  int processors = 0;
  double alone[TURNS], beside[TURNS];
  cuda(g, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, g->r.rank), "cudaDeviceGetAttribute");
  if (g->r.setup->hosts > 1 || !g->r.point->processors || g->r.point->processors >= (uint32_t)processors)
    return;
  cuda(g, ht_product_open(&product, (uint32_t)processors - g->r.point->processors), "the matrix product");
  time_product(g, product, false);
  for (int i = 0; i < TURNS; i++) {
    alone[i] = time_product(g, product, false);
    beside[i] = time_product(g, product, true);
  }
  ht_product_close(product);
  g->r.found->product = bench_median(alone, TURNS) / bench_median(beside, TURNS);
}

void ht_measure_cuda(struct ht_board *board, weft_store_t *store, int rank, uint32_t point) {
  struct gpu g = {.r = ht_rank_at(board, rank, point)};
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  uint32_t rounds = g.r.setup->rounds && g.r.setup->rounds < ROUNDS ? g.r.setup->rounds : ROUNDS;
  g.r.ep = ht_open(board, store, rank, point, rank);
  if (!g.r.ep)
    return;
  open_point(&g);
  int err = start(&g);
  if (err == WEFT_ERR_UNSUPPORTED) {
    snprintf(g.r.found->refused, sizeof g.r.found->refused, "%s", weft_last_error());
  } else if (err) {
    ht_fail(board, rank, "the first operation");
  } else {
    for (int i = -WARM_UP; i < (int)rounds; i++)
      take_round(&g, i);
    time_links(&g, rounds);
    measure_product(&g);
    g.r.found->rounds = rounds;
  }
  if (weft_ep_get_peer_stats(g.r.ep, rank ? 0 : 1, &stats) == 0)
    g.r.found->window_bytes = stats.window_bytes;
  ht_meet(board); // no rank leaves while another one operates
  drain(&g, g.stream);
  weft_ep_route_free(g.r.route);
  weft_ep_close(g.r.ep);
  close_point(&g);
}
