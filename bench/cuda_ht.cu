// Measures the kernels for many tokens between the GPUs of one process: their times beside those of the links alone, in
// the same run, and how much a matrix product on the other processors is slowed by them. The host takes the part of the
// control path. Every byte is verified.
// Usage: bench_cuda_ht [name=number...]: tokens, hidden, topk, experts, ranks, window (MiB), rounds, quick.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "cuda/support/flow_device.cuh"
#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

namespace {

enum { WARM_UP = 5 };

__global__ void store_to(uint4 *to, size_t count) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
    to[i] = make_uint4((uint32_t)i, 1, 2, 3);
}

struct numbers {
  uint32_t tokens = 4096, hidden = 7168, topk = 8, experts = 72, ranks = 2, window = 64, rounds = 20, quick = 0,
           batch = 0, only = 0;
};

// The time of `what`, run `rounds` times in a row on each rank: that of the slowest rank, in us.
float time_of(flow_group &group, uint32_t rounds, const std::function<void(flow_rank &, uint64_t)> &what) {
  std::vector<cudaEvent_t> begin(group.all.size()), end(group.all.size());
  group.each([&](flow_rank &r) {
    OK(cudaEventCreate(&begin[r.index]));
    OK(cudaEventCreate(&end[r.index]));
  });
  // Each rank has a thread that launches, since ranks are processes in real use.
  float best = 1e30f;
  for (int repeat = 0; repeat < 3; repeat++) {
    uint64_t op = group.next;
    group.next += rounds + WARM_UP;
    at_once(group.all, [&](flow_rank &r) {
      for (uint32_t i = 0; i < rounds + WARM_UP; i++) {
        if (i == WARM_UP)
          OK(cudaEventRecord(begin[r.index], r.stream));
        what(r, op + i);
      }
      OK(cudaEventRecord(end[r.index], r.stream));
      OK(cudaStreamSynchronize(r.stream));
    });
    float slowest = 0;
    group.each(
        [&](flow_rank &r) { slowest = std::max(slowest, elapsed_us(begin[r.index], end[r.index]) / (float)rounds); });
    best = std::min(best, slowest);
  }
  return best;
}

// GB/s when all ranks store to the next one at once.
float store_rate(flow_group &group, uint32_t blocks) {
  size_t bytes = group.flow.bytes / 16 * 16;
  float us = time_of(group, 5, [&](flow_rank &r, uint64_t) {
    uint32_t next = (r.index + 1) % group.shape.ranks;
    store_to<<<blocks, 1024, 0, r.stream>>>((uint4 *)(group.window[next][r.index] + sizeof(cuda_flow_head)),
                                            (bytes - sizeof(cuda_flow_head)) / 16);
  });
  return (float)bytes / us * 1e-3f;
}

void report(const char *what, uint32_t blocks, float us, float bytes, float rate) {
  float alone = bytes / rate * 1e-3f;
  printf("%-44s %4u SMs %8.1f us   links alone %7.1f us   %5.2f\n", what, blocks, us, alone, alone / us);
  fflush(stdout);
}

void measure(const numbers &n, const char *name, int dtype, bool casts, int layout, std::vector<uint32_t> sms) {
  flow_shape shape;
  shape.ranks = n.ranks;
  shape.tokens = n.tokens;
  shape.hidden = n.hidden;
  shape.topk = n.topk;
  shape.experts = n.experts;
  shape.dtype = dtype;
  shape.casts = casts;
  shape.layout = layout;
  shape.window_bytes = (uint64_t)n.window << 20;
  shape.batch = n.batch;
  flow_group group(shape);
  printf("# %s: %u tokens, window %.1f MiB, %u places\n", name, n.tokens, (double)group.flow.bytes / (1 << 20),
         group.flow.rows.places);
  if (!group.try_all()) {
    printf("%s: WRONG: %s\n", name, group.wrong.c_str());
    exit(1);
  }
  float rate = store_rate(group, 132), remote = 0;
  for (flow_rank &r : group.all)
    remote = std::max(remote, (float)(group.pairs_of(r) - r.pairs[r.index].size()));
  float there = remote * (float)(group.row.value_bytes + 4 * group.row.scale_words), back = remote * 2.0f * n.hidden;
  printf("# links: %.1f GB/s\n", rate);
  for (uint32_t blocks : sms) {
    group.shape.blocks = {blocks};
    if (!group.try_all()) {
      printf("%s at %u: WRONG: %s\n", name, blocks, group.wrong.c_str());
      exit(1);
    }
    std::string label = name;
    float plan = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) {
      group.begin(r, op, true);
      group.plan(r, true);
    });
    float first = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) {
      group.begin(r, op, true);
      group.plan(r, true);
      group.rows(r, false, true);
    });
    float only = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) {
      group.begin(r, op, true);
      group.rows(r, false, true);
    });
    float kept = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) {
      group.begin(r, op, true);
      group.rows(r, true, true);
    });
    float combine = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) {
      group.begin(r, op, true);
      group.answers(r, true);
    });
    float none = time_of(group, n.rounds, [&](flow_rank &r, uint64_t op) { group.begin(r, op, true); });
    printf("# launch of an empty kernel %.1f us, with the plan %.1f us\n", none, plan);
    report((label + " plan + dispatch").c_str(), blocks, first, there, rate);
    report((label + " dispatch").c_str(), blocks, only, there, rate);
    report((label + " kept").c_str(), blocks, kept, there, rate);
    report((label + " combine").c_str(), blocks, combine, back, rate);
    if (!group.try_all()) {
      printf("%s at %u, after: WRONG: %s\n", name, blocks, group.wrong.c_str());
      exit(1);
    }
  }
}

// cuBLAS, if it is there: a product on a given number of processors.
struct product {
  void *library = nullptr, *handle = nullptr;
  int (*set_stream)(void *, cudaStream_t) = nullptr;
  int (*set_count)(void *, int) = nullptr;
  int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
              const void *, void *, int, int, int, int) = nullptr;
  char *a = nullptr, *b = nullptr, *c = nullptr;
  cudaStream_t stream;
  enum { SIZE = 8192, CUDA_R_32F_ = 0, CUDA_R_16BF_ = 14, COMPUTE_32F = 68 };

  bool open() {
    const char *names[] = {getenv("CUBLAS") ? getenv("CUBLAS") : "", "libcublas.so.13", "libcublas.so.12",
                           "libcublas.so"};
    for (const char *name : names)
      if (*name && !library)
        library = dlopen(name, RTLD_NOW);
    if (!library)
      return false;
    int (*create)(void **) = (int (*)(void **))dlsym(library, "cublasCreate_v2");
    *(void **)&set_stream = dlsym(library, "cublasSetStream_v2");
    *(void **)&set_count = dlsym(library, "cublasSetSmCountTarget");
    *(void **)&gemm = dlsym(library, "cublasGemmEx");
    OK(cudaSetDevice(0));
    if (!create || !set_stream || !set_count || !gemm || create(&handle))
      return false;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    size_t bytes = (size_t)SIZE * SIZE * 2;
    a = device_array<char>(bytes), b = device_array<char>(bytes), c = device_array<char>(bytes);
    std::vector<uint16_t> values((size_t)SIZE * SIZE);
    for (size_t i = 0; i < values.size(); i++)
      values[i] = to_bf16(unit_of(mix(i)) - 0.5f);
    OK(cudaMemcpy(a, values.data(), bytes, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, values.data(), bytes, cudaMemcpyHostToDevice));
    return set_stream(handle, stream) == 0;
  }
  void run(int count) {
    float one = 1, zero = 0;
    OK(cudaSetDevice(0));
    set_count(handle, count);
    OK(gemm(handle, 0, 0, SIZE, SIZE, SIZE, &one, a, CUDA_R_16BF_, SIZE, b, CUDA_R_16BF_, SIZE, &zero, c, CUDA_R_16BF_,
            SIZE, COMPUTE_32F, -1));
  }
};

// The time of `products` products on rank 0's device while rows move. With `ops` 0 nothing else runs.
float product_time(product &p, flow_group &group, int products, int ops, bool kept, float *moved) {
  cudaEvent_t begin, end, first, last;
  OK(cudaSetDevice(0));
  for (cudaEvent_t *e : {&begin, &end, &first, &last})
    OK(cudaEventCreate(e));
  // The operations begin first, so that their kernels get processors.
  for (int i = 0; i < ops; i++) {
    uint64_t op = group.next++;
    group.each([&](flow_rank &r) {
      if (r.index == 0 && i == 2)
        OK(cudaEventRecord(first, r.stream));
      group.begin(r, op, true);
      if (!kept)
        group.plan(r, true);
      group.rows(r, kept, true);
      group.answers(r, true);
      if (r.index == 0 && i == ops - 1)
        OK(cudaEventRecord(last, r.stream));
    });
    if (i == 1) {
      OK(cudaSetDevice(0));
      OK(cudaEventRecord(begin, p.stream));
      for (int k = 0; k < products; k++)
        p.run(108);
      OK(cudaEventRecord(end, p.stream));
    }
  }
  if (ops == 0) {
    OK(cudaEventRecord(begin, p.stream));
    for (int k = 0; k < products; k++)
      p.run(108);
    OK(cudaEventRecord(end, p.stream));
  }
  OK(cudaStreamSynchronize(p.stream));
  group.wait();
  OK(cudaSetDevice(0));
  float us = elapsed_us(begin, end);
  if (ops && moved)
    *moved = elapsed_us(first, last) / (float)(ops - 2);
  return us / (float)products;
}

void measure_product(const numbers &n) {
  product p;
  if (!p.open()) {
    printf("# no cuBLAS: no matrix product\n");
    return;
  }
  flow_shape shape;
  shape.tokens = n.tokens;
  shape.dtype = WEFT_EP_FP8;
  shape.window_bytes = (uint64_t)n.window << 20;
  flow_group group(shape);
  product_time(p, group, 2, 0, true, nullptr);
  float alone = product_time(p, group, 6, 0, true, nullptr), moved = 0;
  float with = product_time(p, group, 6, 60, true, &moved);
  printf("matrix product 8192^3 on 108 SMs: alone %.1f us, while 24 SMs move rows %.1f us: %.3f; a pair took %.1f us\n",
         alone, with, alone / with, moved);
}

} // namespace

int main(int argc, char **argv) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  numbers n;
  struct {
    const char *name;
    uint32_t *number;
  } names[] = {{"tokens", &n.tokens}, {"hidden", &n.hidden}, {"topk", &n.topk},     {"experts", &n.experts},
               {"ranks", &n.ranks},   {"window", &n.window}, {"rounds", &n.rounds}, {"quick", &n.quick},
               {"batch", &n.batch},   {"only", &n.only}};
  for (int i = 1; i < argc; i++) {
    bool known = false;
    for (auto &name : names)
      if (strncmp(argv[i], name.name, strlen(name.name)) == 0 && argv[i][strlen(name.name)] == '=') {
        *name.number = (uint32_t)atoi(argv[i] + strlen(name.name) + 1);
        known = true;
      }
    if (!known) {
      fprintf(stderr, "bench_cuda_ht: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  int devices = device_count();
  if (devices == 0) {
    printf("no GPU\n");
    return 77;
  }
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  printf("# %d x %s\n", devices, properties.name);
  std::vector<uint32_t> few = n.quick ? std::vector<uint32_t>{24} : std::vector<uint32_t>{24, 8, 16, 32, 64, 132};
  // `only`: 0 for all lines, or else a bit for each line below
  uint32_t only = n.only ? n.only : ~0u;
  if (only & 1)
    measure(n, "fp8 by rank", WEFT_EP_FP8, false, WEFT_EP_RANK_MAJOR, few);
  if (only & 2)
    measure(n, "fp8 cast by rank", WEFT_EP_FP8, true, WEFT_EP_RANK_MAJOR, {24});
  if (only & 4)
    measure(n, "fp8 packed", WEFT_EP_FP8, false, WEFT_EP_PACKED, n.quick ? std::vector<uint32_t>{24, 64} : few);
  if (only & 8)
    measure(n, "bf16 by rank", WEFT_EP_BF16, false, WEFT_EP_RANK_MAJOR, few);
  if (only & 16)
    measure(n, "bf16 packed", WEFT_EP_BF16, false, WEFT_EP_PACKED, {24, 64});
  if (only & 32)
    measure_product(n);
  return 0;
}
