// Dispatch and combine between the GPUs of one process: times of the slowest rank, beside the rate at which all ranks
// store to each other in the same run. Usage: bench_cuda_ep [--json] [name=number...], see tests/cuda/support/ranks.cu.
#include <pthread.h>

#include <cstring>

#include "cuda/dispatch/cast.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/support/ranks.cuh"

namespace {

enum { ROUNDS = 400, WARM_UP = 100, IN_GRAPH = 20, EMPTY_THREADS = 512 };

struct targets {
  uint4 *to[CUDA_MAX_MEMBERS];
  uint32_t count;
};

// Block i stores to target i % count.
__global__ void store_to(const targets targets, size_t count) {
  uint4 *to = targets.to[blockIdx.x % targets.count];
  size_t blocks = gridDim.x / targets.count, block = blockIdx.x / targets.count;
  for (size_t i = block * blockDim.x + threadIdx.x; block < blocks && i < count; i += blocks * blockDim.x)
    to[i] = make_uint4((uint32_t)i, 1, 2, 3);
}

// Values similar to those of a layer, nearly normally distributed: the encoding of logfmt10 depends on this.
__global__ void fill_values(uint32_t *pairs, size_t count) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x) {
    float value[2];
    for (uint32_t half = 0; half < 2; half++) {
      uint32_t bits = ((uint32_t)i * 2 + half) * 0x9E3779B1u;
      bits = (bits ^ bits >> 15) * 0x85EBCA77u;
      bits = (bits ^ bits >> 13) * 0xC2B2AE3Du;
      int sum = (int)((bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24));
      value[half] = ((float)(sum - 510) + 0.5f) / 148.0f;
    }
    pairs[i] = to_bf16_pair(value[0], value[1]);
  }
}

struct bench {
  struct group group;
  pthread_barrier_t barrier;

  explicit bench(const shape &shape) : group(shape) { pthread_barrier_init(&barrier, nullptr, shape.ranks); }
};

float median(std::vector<float> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

// All ranks store to all others at once. Returns the GB/s of the slowest rank.
float store_rate(bench &b, size_t bytes) {
  uint32_t ranks = b.group.shape.ranks;
  std::vector<char *> memory(ranks);
  std::vector<float> rate(ranks);
  enum { REPEATS = 8 };
  b.group.each([&](rank &r) {
    memory[r.index] = device_alloc<char>(bytes * ranks);
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    for (int round = 0; round < 2; round++) {
      pthread_barrier_wait(&b.barrier);
      targets targets = {};
      for (uint32_t k = 1; k < ranks; k++)
        targets.to[targets.count++] = (uint4 *)(memory[(r.index + k) % ranks] + r.index * bytes);
      OK(cudaEventRecord(begin, r.stream));
      for (int i = 0; i < REPEATS; i++)
        store_to<<<b.group.shape.blocks, 1024, 0, r.stream>>>(targets, bytes / 16 / targets.count);
      OK(cudaEventRecord(end, r.stream));
      OK(cudaEventSynchronize(end));
      rate[r.index] = (float)(REPEATS * bytes) / elapsed_us(begin, end) / 1e3f;
    }
    pthread_barrier_wait(&b.barrier);
    OK(cudaFree(memory[r.index]));
  });
  return *std::min_element(rate.begin(), rate.end());
}

// Times of one rank in microseconds.
struct times {
  float dispatch, combine; // medians between events
  float both, graph;       // averages of pairs back to back: launched one by one, and as a graph
};

// An empty kernel with the launch size of ours, to measure what a launch costs.
__global__ void __launch_bounds__(EMPTY_THREADS, 1) nothing(const __grid_constant__ cuda_dispatch_args args) {
  (void)args;
  ptx::kernel_wait();
}

// What is timed: a dispatch and a combine, or two empty kernels.
enum pair { DISPATCH_COMBINE, EMPTY };

void run_empty(bench &b, rank &r) {
  cuda_dispatch_args args = {};
  void *params[] = {&args};
  OK(launch((const void *)nothing, params, b.group.shape.blocks, EMPTY_THREADS, 0, b.group.shape.early, r.stream));
}

void run_first(bench &b, rank &r, pair pair) {
  if (pair == EMPTY)
    run_empty(b, r);
  else
    b.group.dispatch(r);
}

void run_second(bench &b, rank &r, pair pair) {
  if (pair == EMPTY)
    run_empty(b, r);
  else
    b.group.combine(r);
}

void run_both(bench &b, rank &r, pair pair, int rounds) {
  for (int i = 0; i < rounds; i++) {
    run_first(b, r, pair);
    run_second(b, r, pair);
  }
}

float time_average(bench &b, rank &r, pair pair, cudaEvent_t begin, cudaEvent_t end) {
  pthread_barrier_wait(&b.barrier);
  run_both(b, r, pair, WARM_UP);
  OK(cudaEventRecord(begin, r.stream));
  run_both(b, r, pair, ROUNDS);
  OK(cudaEventRecord(end, r.stream));
  b.group.finish(r);
  return elapsed_us(begin, end) / ROUNDS;
}

float time_graph(bench &b, rank &r, pair pair, cudaEvent_t begin, cudaEvent_t end) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
  run_both(b, r, pair, IN_GRAPH);
  OK(cudaStreamEndCapture(r.stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  pthread_barrier_wait(&b.barrier);
  OK(cudaGraphLaunch(exec, r.stream));
  OK(cudaEventRecord(begin, r.stream));
  for (int i = 0; i < ROUNDS / IN_GRAPH; i++)
    OK(cudaGraphLaunch(exec, r.stream));
  OK(cudaEventRecord(end, r.stream));
  b.group.finish(r);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  return elapsed_us(begin, end) / (ROUNDS / IN_GRAPH * IN_GRAPH);
}

void time_kernels(bench &b, rank &r, pair pair, times &t) {
  std::vector<cudaEvent_t> events(2 * ROUNDS + 1);
  for (cudaEvent_t &event : events)
    OK(cudaEventCreate(&event));
  pthread_barrier_wait(&b.barrier);
  run_both(b, r, pair, WARM_UP);
  OK(cudaEventRecord(events[0], r.stream));
  for (int i = 0; i < ROUNDS; i++) {
    run_first(b, r, pair);
    OK(cudaEventRecord(events[2 * i + 1], r.stream));
    run_second(b, r, pair);
    OK(cudaEventRecord(events[2 * i + 2], r.stream));
  }
  b.group.finish(r);
  std::vector<float> dispatch, combine;
  for (int i = 0; i < ROUNDS; i++) {
    dispatch.push_back(elapsed_us(events[2 * i], events[2 * i + 1]));
    combine.push_back(elapsed_us(events[2 * i + 1], events[2 * i + 2]));
  }
  t.dispatch = median(dispatch);
  t.combine = median(combine);
  for (cudaEvent_t &event : events)
    OK(cudaEventDestroy(event));
}

// The longest times of all ranks.
times measure(bench &b, pair pair) {
  std::vector<times> of(b.group.shape.ranks);
  b.group.each([&](rank &r) {
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    time_kernels(b, r, pair, of[r.index]);
    of[r.index].both = time_average(b, r, pair, begin, end);
    of[r.index].graph = time_graph(b, r, pair, begin, end);
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
  });
  times worst = {};
  for (const times &t : of) {
    worst.dispatch = std::max(worst.dispatch, t.dispatch);
    worst.combine = std::max(worst.combine, t.combine);
    worst.both = std::max(worst.both, t.both);
    worst.graph = std::max(worst.graph, t.graph);
  }
  return worst;
}

void upload(bench &b) {
  b.group.each([&](rank &r) {
    b.group.upload(r, b.group.make_input(r.index, 1, 0.0f, false));
    fill_values<<<1024, 256>>>((uint32_t *)r.y, (size_t)b.group.parts * b.group.rows * b.group.shape.hidden / 2);
    OK(cudaDeviceSynchronize());
  });
}

// Bytes that the busiest rank sends to others.
struct traffic {
  double dispatch, combine;
};

// The bytes of one answer to another rank.
uint32_t answer_bytes(const group &g) {
  const cuda_form &form = g.layout.answer;
  uint32_t lines = 0;
  for (uint32_t first = 0; first < form.chunks; first += form.each) {
    uint32_t chunks = std::min(form.each, form.chunks - first);
    lines += g.layout.coded ? cuda_coded_lines(chunks) : chunks;
  }
  return lines * CUDA_LINE;
}

traffic count_traffic(const group &g) {
  traffic most = {};
  for (uint32_t i = 0; i < g.shape.ranks; i++) {
    input in = g.make_input(i, 1, 0.0f, false);
    double rows = 0;
    for (uint32_t t = 0; t < in.num_tokens; t++) {
      std::vector<int64_t> to;
      for (uint32_t k = 0; k < g.shape.topk; k++) {
        int64_t rank = in.topk_idx[(size_t)t * g.shape.topk + k] / g.shape.experts;
        if (rank != g.active[i] && std::find(to.begin(), to.end(), rank) == to.end())
          to.push_back(rank);
      }
      rows += (double)to.size();
    }
    most.dispatch = std::max(most.dispatch, rows * (g.layout.value_bytes + g.layout.scale_bytes));
    most.combine = std::max(most.combine, rows * answer_bytes(g));
  }
  return most;
}

void report(const group &g, const times &t, const times &empty, float rate, bool json) {
  traffic wire = count_traffic(g);
  double dispatch = wire.dispatch / rate / 1e3, combine = wire.combine / rate / 1e3; // us at that rate
  double memory = (double)g.layout.area * g.shape.ranks / 1e6;
  if (json) {
    printf("{\"ranks\": %u, \"tokens\": %u, \"hidden\": %u, \"topk\": %u, \"experts\": %u, \"dtype\": %d, "
           "\"dispatch_us\": "
           "%.1f, \"combine_us\": %.1f, \"both_us\": %.1f, \"graph_us\": %.1f, \"store_gbs\": %.0f, "
           "\"dispatch_bound_us\": "
           "%.1f, \"combine_bound_us\": %.1f, \"window_mb\": %.1f, \"empty_us\": %.1f, \"empty_both_us\": %.1f, "
           "\"empty_graph_us\": %.1f}\n",
           g.shape.ranks, g.shape.tokens, g.shape.hidden, g.shape.topk, g.shape.experts, g.shape.dtype, t.dispatch,
           t.combine, t.both, t.graph, rate, dispatch, combine, memory, empty.dispatch, empty.both, empty.graph);
    return;
  }
  shape_print(g.shape);
  printf("\n%u devices, %u blocks; stores to all others at once: %.0f GB/s; windows %.1f MB per rank\n\n",
         g.shape.devices, g.shape.blocks, rate, memory);
  printf("%-24s %8s %14s %6s\n", "", "us", "us at the rate", "ratio");
  printf("%-24s %8.1f %14.1f %6.2f\n", "dispatch", t.dispatch, dispatch, dispatch / t.dispatch);
  printf("%-24s %8.1f %14.1f %6.2f\n", "combine", t.combine, combine, combine / t.combine);
  printf("%-24s %8.1f %14.1f %6.2f\n", "both, back to back", t.both, dispatch + combine, (dispatch + combine) / t.both);
  printf("%-24s %8.1f %14.1f %6.2f\n", "both, in a graph", t.graph, dispatch + combine, (dispatch + combine) / t.graph);
  printf(
      "\nOf this the launches, as kernels that do nothing show: %.1f us between events, %.1f and %.1f for two, back to "
      "back and in a graph.\n",
      empty.dispatch, empty.both, empty.graph);
}

#ifdef CUDA_TRACE
// Prints when the blocks of rank 0 reach each step of the kernels: earliest, median and latest, in ns since the first
// block began.
void print_trace(const char *name, const std::vector<uint64_t> &stamps, uint32_t blocks) {
  uint64_t start = ~0ull;
  for (uint32_t i = 0; i < blocks; i++)
    start = std::min(start, stamps[i * 8]);
  printf("%s:", name);
  for (uint32_t step = 0; step < 8; step++) {
    std::vector<float> at;
    for (uint32_t i = 0; i < blocks; i++)
      if (stamps[i * 8 + step] != 0)
        at.push_back((float)(stamps[i * 8 + step] - start));
    std::sort(at.begin(), at.end());
    if (!at.empty())
      printf("  %u: %.0f %.0f %.0f", step, at[0], at[at.size() / 2], at.back());
  }
  printf("\n");
}

void trace(bench &b) {
  uint32_t blocks = b.group.shape.blocks;
  b.group.each([&](rank &r) {
    r.dispatch_trace = device_alloc<uint64_t>(blocks * 8);
    r.combine_trace = device_alloc<uint64_t>(blocks * 8);
    pthread_barrier_wait(&b.barrier);
    run_both(b, r, DISPATCH_COMBINE, WARM_UP);
    b.group.finish(r);
  });
  for (const rank &r : b.group.ranks) {
    OK(cudaSetDevice(r.device));
    print_trace("dispatch", fetch(r.dispatch_trace, blocks * 8), blocks);
    print_trace("combine", fetch(r.combine_trace, blocks * 8), blocks);
  }
}
#endif

} // namespace

int main(int argc, char **argv) {
  shape shape;
  bool json = false;
  for (int i = 1; i < argc; i++) {
    bool flag = strcmp(argv[i], "--json") == 0;
    json |= flag;
    if (!flag && !shape_option(shape, argv[i])) {
      fprintf(stderr,
              "usage: bench_cuda_ep [--json] [ranks=4] [tokens=128] [hidden=7168] [topk=8] [experts=72] [dtype=1] "
              "[coded=0] [away=0]\n");
      return 2;
    }
  }
  if (device_count() == 0) {
    fprintf(stderr, "bench_cuda_ep: no GPU here\n");
    return 3;
  }
  if (shape.ranks < 2) {
    fprintf(stderr, "bench_cuda_ep: it takes two ranks at least\n");
    return 2;
  }
  bench b(shape);
  upload(b);
  times t = measure(b, DISPATCH_COMBINE), empty = measure(b, EMPTY);
  float rate = store_rate(b, (size_t)64 << 20);
  for (const rank &r : b.group.ranks)
    if (b.group.lost(r)) {
      fprintf(stderr, "bench_cuda_ep: rank %d lost others\n", b.group.active[r.index]);
      return 5;
    }
  report(b.group, t, empty, rate, json);
#ifdef CUDA_TRACE
  trace(b);
#endif
  return 0;
}
