// Copies thousands of small pieces in one launch: one warp for each piece, with several accesses of 16 bytes in flight
// for each lane.
#include "cuda/kernels/copies.h"

namespace {

constexpr uint32_t lanes = 32, deep = 8;

// Copies `count` elements, all of them aligned.
template <typename T>
__device__ __forceinline__ void copy_elements(T *to, const T *from, uint64_t count, uint32_t lane) {
  uint64_t at = lane;
  for (; at + (deep - 1) * lanes < count; at += deep * lanes) {
    T held[deep];
#pragma unroll
    for (uint32_t i = 0; i < deep; i++)
      held[i] = __ldcs(from + at + i * lanes);
#pragma unroll
    for (uint32_t i = 0; i < deep; i++)
      __stcs(to + at + i * lanes, held[i]);
  }
  for (; at < count; at += lanes)
    __stcs(to + at, __ldcs(from + at));
}

// Copies bytes up to the first element that is aligned on both sides, then elements, then the remaining bytes.
template <typename T>
__device__ __forceinline__ void copy_as(char *to, const char *from, uint64_t size, uint32_t lane) {
  uint64_t head = (sizeof(T) - (uintptr_t)to % sizeof(T)) % sizeof(T);
  head = head < size ? head : size;
  uint64_t body = (size - head) / sizeof(T);
  copy_elements(to, from, head, lane);
  copy_elements((T *)(to + head), (const T *)(from + head), body, lane);
  uint64_t done = head + body * sizeof(T);
  copy_elements(to + done, from + done, size - done, lane);
}

__device__ __forceinline__ void copy_piece(const device_copy &piece, uint32_t lane) {
  char *to = (char *)piece.to;
  const char *from = (const char *)piece.from;
  uintptr_t apart = (uintptr_t)to ^ (uintptr_t)from;
  if (apart % 16 == 0)
    copy_as<uint4>(to, from, piece.size, lane);
  else if (apart % 4 == 0)
    copy_as<uint32_t>(to, from, piece.size, lane);
  else
    copy_elements(to, from, piece.size, lane);
}

// All data that the block wrote is visible to everybody before its word is visible.
__device__ __forceinline__ void publish(uint32_t *words, uint32_t number) {
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  __threadfence_system();
  *(volatile uint32_t *)&words[blockIdx.x] = number;
}

__global__ void __launch_bounds__(CUDA_COPIES_WARPS *lanes)
    copy_pieces(const device_copy *pieces, uint32_t count, uint32_t *words, uint32_t number) {
  uint32_t warp = blockIdx.x * CUDA_COPIES_WARPS + threadIdx.x / lanes;
  for (uint32_t i = warp; i < count; i += gridDim.x * CUDA_COPIES_WARPS)
    copy_piece(pieces[i], threadIdx.x % lanes);
  publish(words, number);
}

} // namespace

cudaError_t cuda_copies_launch(const device_copy *pieces, uint32_t count, uint32_t blocks, const cuda_copies_mark *mark,
                               cudaStream_t stream) {
  uint32_t *words = mark->words, number = mark->number;
  void *params[] = {&pieces, &count, &words, &number};
  // not <<<>>>, whose error cudaGetLastError() would mix up with that of an earlier call of this thread
  return cudaLaunchKernel((const void *)copy_pieces, dim3(blocks), dim3(CUDA_COPIES_WARPS * lanes), params, 0, stream);
}

cudaError_t cuda_copies_load() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, copy_pieces);
}
