// The bounds of bench_ep_ht on CUDA memory: copies between two GPUs by the copy engines, and a matrix product that
// keeps the processors busy that the kernels of operations leave free.
#include "ep_ht_kernels.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>

#include "support/gpu.h"
#include "support/try.cuh"

// --- links ---

int ht_cuda_links(size_t bytes, uint32_t rounds, double *us) {
  void *memory[2][2]; // [gpu][sent, received]
  cudaStream_t stream[2];
  cudaEvent_t begin[2], end[2], go;
  for (int gpu = 0; gpu < 2; gpu++) {
    TRY(cudaSetDevice(gpu));
    cudaError_t enabled = cudaDeviceEnablePeerAccess(1 - gpu, 0);
    if (enabled != cudaSuccess && enabled != cudaErrorPeerAccessAlreadyEnabled)
      return (int)enabled;
    cudaGetLastError();
    for (int k = 0; k < 2; k++)
      TRY(cudaMalloc(&memory[gpu][k], bytes));
    TRY(cudaStreamCreateWithFlags(&stream[gpu], cudaStreamNonBlocking));
    TRY(cudaEventCreate(&begin[gpu]));
    TRY(cudaEventCreate(&end[gpu]));
  }
  TRY(cudaSetDevice(0)); // the device of the stream that records the event
  TRY(cudaEventCreateWithFlags(&go, cudaEventDisableTiming));
  for (uint32_t round = 0; round < rounds + 1; round++) { // the first one warms up
    TRY(cudaSetDevice(0));
    TRY((cudaError_t)bench_spin(50, stream[0]));
    TRY(cudaEventRecord(go, stream[0]));
    for (int gpu = 0; gpu < 2; gpu++) {
      TRY(cudaSetDevice(gpu));
      TRY(cudaStreamWaitEvent(stream[gpu], go, 0)); // both begin behind the spin
      TRY(cudaEventRecord(begin[gpu], stream[gpu]));
      TRY(cudaMemcpyPeerAsync(memory[1 - gpu][1], 1 - gpu, memory[gpu][0], gpu, bytes, stream[gpu]));
      TRY(cudaEventRecord(end[gpu], stream[gpu]));
    }
    float slower = 0;
    for (int gpu = 0; gpu < 2; gpu++) {
      float ms = 0;
      TRY(cudaEventSynchronize(end[gpu])); // this wait ends, since copies wait for no other GPU
      TRY(cudaEventElapsedTime(&ms, begin[gpu], end[gpu]));
      slower = std::max(slower, ms);
    }
    if (round > 0)
      us[round - 1] = (double)slower * 1e3;
  }
  for (int gpu = 0; gpu < 2; gpu++) {
    TRY(cudaSetDevice(gpu));
    for (int k = 0; k < 2; k++)
      TRY(cudaFree(memory[gpu][k]));
    TRY(cudaStreamDestroy(stream[gpu]));
    TRY(cudaEventDestroy(begin[gpu]));
    TRY(cudaEventDestroy(end[gpu]));
  }
  TRY(cudaSetDevice(0));
  TRY(cudaEventDestroy(go));
  return 0;
}

// --- the matrix product ---

namespace {

namespace wmma = nvcuda::wmma;

// A tile of TILE x TILE sums for each turn of a block; 16 warps in 4 x 4, each with 2 x 2 fragments of 16 x 16.
enum {
  SIZE = 4096, // rows and columns of all three matrices
  TILE = 128,
  DEEP = 64, // of the inner dimension, in one step
  WARPS = 16,
  THREADS = WARPS * 32,
  SKEW = 8, // against bank conflicts
  STAGES = 2,
};
const size_t STAGE_VALUES = 2 * (size_t)TILE * (DEEP + SKEW);
const size_t SHARED_USED = STAGES * STAGE_VALUES * sizeof(__nv_bfloat16);
const size_t SHARED_ALL = 200 << 10; // so that no other block that needs shared memory runs on the same processor

__device__ void fetch(__nv_bfloat16 *to, const __nv_bfloat16 *from, uint32_t row, uint32_t column) {
  for (uint32_t i = threadIdx.x; i < TILE * DEEP / 8; i += THREADS) {
    uint32_t r = i / (DEEP / 8), c = i % (DEEP / 8) * 8;
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to + r * (DEEP + SKEW) + c);
    const void *source = from + (size_t)(row + r) * SIZE + column + c;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source));
  }
}

__device__ void fetch_both(__nv_bfloat16 *stage, const __nv_bfloat16 *a, const __nv_bfloat16 *b, uint32_t row,
                           uint32_t column, uint32_t deep) {
  fetch(stage, a, row, deep);
  fetch(stage + TILE * (DEEP + SKEW), b, column, deep); // b lies transposed
  asm volatile("cp.async.commit_group;");
}

using sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ void multiply(const __nv_bfloat16 *stage, sums (&sum)[2][2], uint32_t warp_row, uint32_t warp_column) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a[2];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b[2];
  const __nv_bfloat16 *right = stage + TILE * (DEEP + SKEW);
  for (uint32_t k = 0; k < DEEP; k += 16) {
    for (int i = 0; i < 2; i++) {
      wmma::load_matrix_sync(a[i], stage + (warp_row + 16 * i) * (DEEP + SKEW) + k, DEEP + SKEW);
      wmma::load_matrix_sync(b[i], right + (warp_column + 16 * i) * (DEEP + SKEW) + k, DEEP + SKEW);
    }
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++)
        wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
  }
}

__device__ void do_tile(__nv_bfloat16 *shared, const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c,
                        uint32_t tile) {
  uint32_t row = tile / (SIZE / TILE) * TILE, column = tile % (SIZE / TILE) * TILE, warp = threadIdx.x / 32;
  uint32_t warp_row = warp / 4 * 32, warp_column = warp % 4 * 32;
  sums sum[2][2];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      wmma::fill_fragment(sum[i][j], 0.0f);
  fetch_both(shared, a, b, row, column, 0);
  for (uint32_t deep = 0, stage = 0; deep < SIZE; deep += DEEP, stage ^= 1) {
    bool more = deep + DEEP < SIZE;
    if (more) {
      fetch_both(shared + (stage ^ 1) * STAGE_VALUES, a, b, row, column, deep + DEEP);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    multiply(shared + stage * STAGE_VALUES, sum, warp_row, warp_column);
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      wmma::store_matrix_sync(c + (size_t)(row + warp_row + 16 * i) * SIZE + column + warp_column + 16 * j, sum[i][j],
                              SIZE, wmma::mem_row_major);
}

__global__ void __launch_bounds__(THREADS)
    multiply_matrices(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, uint32_t times) {
  extern __shared__ __align__(16) unsigned char memory[];
  for (uint32_t t = 0; t < times; t++)
    for (uint32_t tile = blockIdx.x; tile < (SIZE / TILE) * (SIZE / TILE); tile += gridDim.x)
      do_tile((__nv_bfloat16 *)memory, a, b, c, tile);
}

} // namespace

struct ht_product {
  __nv_bfloat16 *a, *b;
  float *c;
  uint32_t processors;
};

int ht_product_open(struct ht_product **out, uint32_t processors) {
  static_assert(SHARED_USED <= SHARED_ALL, "the stages have room");
  size_t values = (size_t)SIZE * SIZE;
  ht_product *product = new ht_product{};
  *out = product;
  product->processors = processors;
  TRY(cudaMalloc((void **)&product->a, values * sizeof *product->a));
  TRY(cudaMalloc((void **)&product->b, values * sizeof *product->b));
  TRY(cudaMalloc((void **)&product->c, values * sizeof *product->c));
  TRY(cudaMemset(product->a, 0x3C, values * sizeof *product->a)); // small numbers, all finite
  TRY(cudaMemset(product->b, 0x3C, values * sizeof *product->b));
  TRY(cudaFuncSetAttribute(multiply_matrices, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_ALL));
  return 0;
}

int ht_product_launch(struct ht_product *product, void *stream, uint32_t times) {
  multiply_matrices<<<product->processors, THREADS, SHARED_ALL, (cudaStream_t)stream>>>(product->a, product->b,
                                                                                        product->c, times);
  return (int)cudaGetLastError();
}

void ht_product_close(struct ht_product *product) {
  if (!product)
    return;
  cudaFree(product->a);
  cudaFree(product->b);
  cudaFree(product->c);
  delete product;
}
