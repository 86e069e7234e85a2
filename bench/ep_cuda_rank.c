// A rank of bench_ep_cuda: it has its own process, and its own GPU if there are enough.
#include <cuda_runtime_api.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "ep/oracle/pattern.h"
#include "ep_cuda.h"
#include "support/gpu.h"
#include "support/values.h"

enum { WARM_UP = 50, AHEAD_US = 60, WAIT_MS = 20000 };

enum view { ALL, WITHOUT_LAST, WITH_JOINER, VIEWS };

struct rank {
  struct ep_cuda_board *board;
  const struct ep_cuda_setup *setup;
  int32_t index;
  weft_store_t *store;
  weft_ep_t *ep;
  cudaStream_t stream;
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_recv_args recv;
  struct weft_ep_combine_args combine;
  int64_t *topk_idx[VIEWS];
  float *weights[VIEWS];
  struct weft_ep_info info;
  struct weft_ep_result result;
};

// --- failures ---

static _Noreturn void die(const struct rank *r, const char *what, const char *why) {
  fprintf(stderr, "bench_ep_cuda: rank %d: %s: %s\n", r->index, what, why);
  _exit(5); // nothing is closed, since a kernel may still be running
}

static void must(const struct rank *r, int rc, const char *what) {
  if (rc != 0)
    die(r, what, weft_last_error());
}

static void cuda(const struct rank *r, int error, const char *what) {
  if (error != 0)
    die(r, what, cudaGetErrorString((cudaError_t)error));
}

// --- memory ---

static void *device_memory(const struct rank *r, size_t size) {
  void *memory;
  cuda(r, cudaMalloc(&memory, size), "cudaMalloc");
  cuda(r, cudaMemset(memory, 0, size), "cudaMemset");
  return memory;
}

static void *upload(const struct rank *r, const void *from, size_t size) {
  void *memory = device_memory(r, size);
  cuda(r, cudaMemcpy(memory, from, size, cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

// The ranks of a view, in the order of the view.
static uint32_t members(const struct rank *r, enum view view, int32_t *ranks) {
  uint32_t count = r->setup->ranks - (view == ALL ? 0 : 1);
  for (uint32_t i = 0; i < count; i++)
    ranks[i] = (int32_t)i;
  if (view == WITH_JOINER)
    ranks[count++] = (int32_t)r->setup->ranks;
  return count;
}

// The rows are the same for each view; the routing goes to its members.
static void make_input(struct rank *r) {
  const struct ep_cuda_setup *s = r->setup;
  const struct pattern pattern = {
      .seed = 1, .num_tokens = s->tokens, .hidden = s->hidden, .topk = s->topk, .experts_per_rank = s->experts};
  size_t selections = (size_t)s->tokens * s->topk, values = (size_t)s->tokens * s->hidden;
  uint16_t *x = malloc(values * sizeof *x);
  int64_t *topk_idx = malloc(selections * sizeof *topk_idx);
  float *weights = malloc(selections * sizeof *weights);
  uint64_t op = 0;
  if (!x || !topk_idx || !weights)
    die(r, "buffers", "no memory");
  while (pattern_kind_of(op) != PATTERN_PLAIN)
    op++;
  for (enum view view = ALL; view < VIEWS; view++) {
    int32_t ranks[BENCH_RANKS];
    uint32_t count = members(r, view, ranks);
    pattern_fill(&pattern, op, r->index, ranks, count, x, topk_idx, weights);
    r->topk_idx[view] = upload(r, topk_idx, selections * sizeof *topk_idx);
    r->weights[view] = upload(r, weights, selections * sizeof *weights);
  }
  r->dispatch.x = upload(r, x, values * sizeof *x);
  free(x);
  free(topk_idx);
  free(weights);
}

static void select_view(struct rank *r, enum view view) {
  r->dispatch.topk_idx = r->topk_idx[view];
  if (r->setup->late_weights)
    r->combine.topk_weights = r->weights[view];
  else
    r->dispatch.topk_weights = r->weights[view];
}

static void make_buffers(struct rank *r) {
  const struct ep_cuda_setup *s = r->setup;
  size_t rows = (size_t)s->experts * s->ranks * s->tokens, hidden = s->hidden;
  cuda(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  r->dispatch =
      (struct weft_ep_dispatch_args){.size = sizeof r->dispatch, .num_tokens = s->tokens, .stream = r->stream};
  make_input(r);
  r->recv = (struct weft_ep_recv_args){.size = sizeof r->recv,
                                       .layout = WEFT_EP_PER_EXPERT,
                                       .rows = s->ranks * s->tokens,
                                       .x = device_memory(r, rows * hidden * (s->dtype == WEFT_EP_BF16 ? 2 : 1)),
                                       .counts = device_memory(r, s->experts * sizeof(int32_t)),
                                       .stream = r->stream};
  uint64_t scales = s->dtype == WEFT_EP_BF16        ? 0 // elements of 4 bytes, of a row
                    : s->dtype == WEFT_EP_FP8_UE8M0 ? (hidden + 511) / 512
                                                    : hidden / WEFT_EP_BLOCK;
  if (scales > 0)
    r->recv.scales = device_memory(r, rows * scales * sizeof(uint32_t));
  if (scales > 0 && s->columns) {
    r->recv.scale_row_stride = 1;
    r->recv.scale_block_stride = r->recv.rows;
    r->recv.scale_expert_stride = scales * r->recv.rows;
  }
  if (s->origins) {
    r->recv.src_token = device_memory(r, rows * sizeof(int32_t));
    r->recv.range = device_memory(r, (uint64_t)s->experts * (s->ranks + 1) * sizeof(int64_t));
  }
  r->combine = (struct weft_ep_combine_args){.size = sizeof r->combine,
                                             .y = device_memory(r, rows * hidden * sizeof(uint16_t)),
                                             .out = device_memory(r, s->tokens * hidden * sizeof(uint16_t)),
                                             .stream = r->stream};
  select_view(r, ALL);
  cuda(r, cudaDeviceSynchronize(), "filling the buffers");
}

// --- the group ---

static void open_rank(struct rank *r) {
  const struct ep_cuda_setup *s = r->setup;
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  int32_t founders[BENCH_RANKS];
  bool joins = r->index == (int32_t)s->ranks;
  char host[16];
  int device = 0;
  cuda(r, cudaGetDevice(&device), "cudaGetDevice");
  store.endpoints = r->board->url;
  must(r, weft_store_open(&r->store, &store), "the store");
  options.store = r->store;
  options.prefix = "/weft/bench/";
  options.rank = r->index;
  options.capacity = s->ranks + 1;
  options.num_founders = joins ? 0 : members(r, ALL, founders);
  options.founders = joins ? NULL : founders;
  options.flags = joins ? WEFT_EP_OPTION_JOIN_ONLY : 0;
  options.max_tokens = s->tokens;
  options.hidden = s->hidden;
  options.topk = s->topk;
  options.experts_per_rank = s->experts;
  options.dtype = (enum weft_ep_dtype)s->dtype;
  options.combine_dtype = (enum weft_ep_combine_dtype)s->combine_dtype;
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.device = device;
  options.max_processors = s->processors;
  if (s->hosts > 1) {
    snprintf(host, sizeof host, "%u", (uint32_t)r->index % s->hosts);
    options.host_id = host;
  }
  must(r, weft_ep_open(&r->ep, &options, BENCH_DEADLINE_MS), "weft_ep_open");
}

static void activate(struct rank *r) {
  int32_t ranks[BENCH_RANKS], others[BENCH_RANKS];
  bool joins = r->index == (int32_t)r->setup->ranks;
  uint32_t count = members(r, joins ? WITHOUT_LAST : ALL, ranks), num_others = 0;
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] != r->index)
      others[num_others++] = ranks[i];
  must(r, weft_ep_connect(r->ep, others, num_others, BENCH_DEADLINE_MS), "weft_ep_connect");
  must(r, weft_ep_activate(r->ep, BENCH_DEADLINE_MS), "weft_ep_activate");
}

// --- operations ---

static uint64_t launch_dispatch(struct rank *r) {
  uint64_t op = 0;
  must(r, weft_ep_dispatch(r->ep, &r->dispatch, &r->recv, NULL, &op), "dispatch");
  return op;
}

static uint64_t launch(struct rank *r) {
  uint64_t op = launch_dispatch(r);
  must(r, weft_ep_combine(r->ep, op, &r->combine, NULL), "combine");
  return op;
}

static void record(struct rank *r, cudaEvent_t event) {
  cuda(r, cudaEventRecord(event, r->stream), "cudaEventRecord");
}

static void drain(struct rank *r) {
  uint64_t deadline = clock_deadline_ms(WAIT_MS);
  int error;
  while ((error = cudaStreamQuery(r->stream)) == cudaErrorNotReady)
    if (clock_passed(deadline))
      die(r, "the stream", "its operations have not ended by the deadline");
  cuda(r, error, "the stream");
}

// Reads the results of operation `op` into r->info and r->result; UINT64_MAX means the newest operation.
static void ask(struct rank *r, uint64_t op, int32_t *lost, struct weft_ep_missing *missing) {
  r->info = (struct weft_ep_info){.size = sizeof r->info, .lost = lost, .lost_cap = lost ? 1 : 0};
  r->result = (struct weft_ep_result){.size = sizeof r->result, .missing = missing, .missing_cap = missing ? 1 : 0};
  must(r, weft_ep_await(r->ep, op, &r->info, &r->result, WAIT_MS), "weft_ep_await");
}

// Drains the stream, and checks that nothing was lost and that `next` is the number of the next operation.
static void settle(struct rank *r, uint64_t next) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  char why[160];
  drain(r);
  ask(r, UINT64_MAX, NULL, NULL);
  must(r, weft_ep_get_stats(r->ep, &stats), "weft_ep_stats");
  bool whole = r->info.num_lost == 0 && r->result.num_lost == 0 && r->result.num_missing == 0 && stats.lost == 0;
  if (whole && weft_ep_next_op(r->ep) == next && r->info.op + 1 == next)
    return;
  snprintf(why, sizeof why, "operation %llu, to be %llu, lost %u and %u, %u selections; %llu peers were lost so far",
           (unsigned long long)r->info.op, (unsigned long long)next - 1, r->info.num_lost, r->result.num_lost,
           r->result.num_missing, (unsigned long long)stats.lost);
  die(r, "a measurement", why);
}

// --- times ---

static double elapsed_us(struct rank *r, cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  cuda(r, cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  return (double)ms * 1e3;
}

// Everything is launched before it runs, so that the events show no launches. The pair ahead makes the ranks begin at
// the same time on their GPUs: otherwise the hosts would begin some microseconds apart.
static void time_halves(struct rank *r, cudaEvent_t *event, struct ep_cuda_figures *f) {
  uint32_t count = r->setup->iterations;
  double *dispatch = malloc(count * sizeof *dispatch), *combine = malloc(count * sizeof *combine);
  if (!dispatch || !combine)
    die(r, "times", "no memory");
  for (uint32_t i = 0; i < WARM_UP + count; i++) {
    must(r, weft_ep_barrier(r->ep), "weft_ep_barrier");
    cuda(r, bench_spin(AHEAD_US, r->stream), "the spin kernel");
    launch(r);
    record(r, event[0]);
    uint64_t op = launch_dispatch(r);
    record(r, event[1]);
    must(r, weft_ep_combine(r->ep, op, &r->combine, NULL), "combine");
    record(r, event[2]);
    settle(r, op + 1);
    if (i < WARM_UP)
      continue;
    dispatch[i - WARM_UP] = elapsed_us(r, event[0], event[1]);
    combine[i - WARM_UP] = elapsed_us(r, event[1], event[2]);
  }
  f->dispatch = bench_median(dispatch, count);
  f->combine = bench_median(combine, count);
  free(dispatch);
  free(combine);
}

static double time_eager(struct rank *r, cudaEvent_t *event) {
  uint32_t count = r->setup->iterations;
  must(r, weft_ep_barrier(r->ep), "weft_ep_barrier");
  uint64_t next = weft_ep_next_op(r->ep) + WARM_UP + count;
  for (uint32_t i = 0; i < WARM_UP; i++)
    launch(r);
  record(r, event[0]);
  for (uint32_t i = 0; i < count; i++)
    launch(r);
  record(r, event[1]);
  settle(r, next);
  return elapsed_us(r, event[0], event[1]) / count;
}

static double time_graph(struct rank *r, cudaEvent_t *event) {
  const char *what = "the graph";
  uint32_t pairs = r->setup->in_graph, count = (r->setup->iterations + pairs - 1) / pairs;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), what);
  for (uint32_t i = 0; i < pairs; i++)
    launch(r);
  cuda(r, cudaStreamEndCapture(r->stream, &graph), what);
  cuda(r, cudaGraphInstantiate(&exec, graph, 0), what);
  cuda(r, cudaGraphUpload(exec, r->stream), what);
  must(r, weft_ep_barrier(r->ep), "weft_ep_barrier");
  uint64_t next = weft_ep_next_op(r->ep) + (uint64_t)pairs * (WARM_UP + count);
  for (uint32_t i = 0; i < WARM_UP; i++)
    cuda(r, cudaGraphLaunch(exec, r->stream), what);
  record(r, event[0]);
  for (uint32_t i = 0; i < count; i++)
    cuda(r, cudaGraphLaunch(exec, r->stream), what);
  record(r, event[1]);
  settle(r, next);
  cuda(r, cudaGraphExecDestroy(exec), what);
  cuda(r, cudaGraphDestroy(graph), what);
  return elapsed_us(r, event[0], event[1]) / ((double)count * pairs);
}

static void measure(struct rank *r) {
  struct ep_cuda_figures *f = &r->board->rank[r->index].figures;
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  cudaEvent_t event[3];
  for (int i = 0; i < 3; i++)
    cuda(r, cudaEventCreate(&event[i]), "cudaEventCreate");
  settle(r, launch(r) + 1);
  f->dispatch_wire = (double)r->info.wire_bytes;
  f->dispatch_logical = (double)r->info.logical_bytes;
  f->combine_wire = (double)r->result.wire_bytes;
  f->combine_logical = (double)r->result.logical_bytes;
  time_halves(r, event, f);
  f->eager = time_eager(r, event);
  f->graph = time_graph(r, event);
  must(r, weft_ep_get_stats(r->ep, &stats), "weft_ep_stats");
  f->memory = (double)stats.window_bytes;
  for (int i = 0; i < 3; i++)
    cuda(r, cudaEventDestroy(event[i]), "cudaEventDestroy");
  r->board->rank[r->index].measured = true;
}

// --- under changes ---

// Sets the routing to the ranks of the view of the next operation.
static void follow_view(struct rank *r) {
  int32_t ranks[BENCH_RANKS];
  uint64_t epoch;
  uint32_t count = 0;
  must(r, weft_ep_view(r->ep, &epoch, ranks, BENCH_RANKS, &count), "weft_ep_view");
  if (count > 0 && ranks[count - 1] == (int32_t)r->setup->ranks)
    select_view(r, WITH_JOINER);
  else
    select_view(r, count == r->setup->ranks ? ALL : WITHOUT_LAST);
}

static void run_pair(struct rank *r) {
  int32_t victim = (int32_t)r->setup->ranks - 1, lost = -1;
  struct weft_ep_missing missing = {.expert = -1};
  uint64_t number = r->board->rank[r->index].pairs;
  struct ep_cuda_pair *pair = &r->board->rank[r->index].log[number % EP_CUDA_LOG];
  follow_view(r);
  ask(r, launch(r), &lost, &missing);
  bool selected = r->result.num_missing > 0 && missing.expert / r->setup->experts == victim;
  *pair = (struct ep_cuda_pair){.end_ns = clock_ns(),
                                .num_ranks = r->info.num_ranks,
                                .lost = r->info.num_lost > 0 || r->result.num_lost > 0,
                                .listed = lost == victim || selected};
  r->board->rank[r->index].pairs = number + 1;
}

static void run_pairs(struct rank *r) {
  bool joins = r->index == (int32_t)r->setup->ranks, leaving = false;
  uint64_t told = EP_CUDA_RUN;
  do {
    if (joins && r->board->leave && !leaving) {
      must(r, weft_ep_disconnect(r->ep, &r->index, 1, BENCH_DEADLINE_MS), "weft_ep_disconnect");
      leaving = true;
    }
    uint64_t mark = r->board->mark;
    if (mark != told)
      weft_ep_set_mark(r->ep, mark);
    told = mark;
    run_pair(r);
    if (r->board->rank[r->index].first_ns == 0)
      r->board->rank[r->index].first_ns = clock_ns();
  } while (r->info.mark < EP_CUDA_END && weft_ep_is_active(r->ep));
}

static void await_join(struct rank *r) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  r->board->rank[r->index].open = true;
  while (!r->board->join) {
    if (clock_passed(deadline))
      die(r, "the joiner", "it was not told to connect by the deadline");
    poll(NULL, 0, 1);
  }
  r->board->rank[r->index].connect_ns = clock_ns();
}

// Touches the log, which is memory of all processes: the first access to a page takes as long as half a pair.
static void touch_log(struct rank *r) {
  memset(r->board->rank[r->index].log, 0, sizeof r->board->rank[r->index].log);
}

int ep_cuda_rank_main(struct ep_cuda_board *board, int32_t index) {
  struct rank r = {.board = board, .setup = &board->setup, .index = index};
  bool joins = index == (int32_t)r.setup->ranks;
  cuda(&r, cudaSetDevice((joins ? index - 1 : index) % board->devices), "cudaSetDevice");
  touch_log(&r);
  make_buffers(&r);
  open_rank(&r);
  if (joins)
    await_join(&r);
  activate(&r);
  board->rank[index].active_ns = clock_ns();
  if (!joins)
    measure(&r);
  run_pairs(&r);
  drain(&r);
  weft_ep_close(r.ep);
  weft_store_close(r.store);
  return 0;
}
