// Answers as logfmt10: seven blocks of 128 values, 14 chunks of bf16, become 1,176 bytes that travel in the lines of
// ten chunks. Ranks' own rows stay bf16, in packets of 14 chunks, so that both are cut at the same values.
#ifndef CUDA_CODED_CUH
#define CUDA_CODED_CUH

#include "cuda/cast.cuh"
#include "cuda/format.cuh"
#include "cuda/scene.cuh"

enum { CODED_ROOM = CUDA_CODED_LINES * CUDA_LINE }; // bytes of a warp's own shared memory, aligned to 16

typedef packet<CUDA_BF16_CHUNKS> answer_packet;

// Chunks that carry so many chunks of bf16.
__device__ __forceinline__ uint32_t coded_chunks(uint32_t chunks) {
  return (logfmt10_row_bytes(chunks * CUDA_LINE / 2) + CUDA_LINE - 1) / CUDA_LINE;
}

// The place, in an area, of a coded packet: a row of them is no longer than one of bf16, and has its place.
__device__ __forceinline__ size_t coded_offset(const cuda_layout &layout, uint64_t op, uint32_t token, uint32_t index) {
  return packet_offset(layout, layout.answer, layout.answers, op, token, 0) + index * CUDA_CODED_LINES * CUDA_LINE;
}

// From `chunks` chunks of bf16 to what travels. Lane l has values 8 l and on of each iteration, so that half a warp has
// a block. [warp]
__device__ __forceinline__ void encode_packet(answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = coded_chunks(chunks), hidden = chunks * CUDA_LINE / 2;
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < answer_packet::ITERATIONS; i++) {
    uint4 v = i == 0 ? p.v[0] : i == 1 ? p.v[1] : i == 2 ? p.v[2] : p.v[3];
    float x[8] = {bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y),
                  bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w)};
    if (at.line(i) < chunks) // the same for all lanes of a block
      logfmt10_encode(room, hidden, (uint32_t)i * WARP + lane, x);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    p.v[i] = at.line(i) < wire ? *(const uint4 *)(room + at.offset(i)) : make_uint4(0, 0, 0, 0);
}

// Back to bf16: what came is unsealed. [warp]
__device__ __forceinline__ void decode_packet(answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = coded_chunks(chunks), hidden = chunks * CUDA_LINE / 2;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    if (at.line(i) < wire)
      *(uint4 *)(room + at.offset(i)) = p.v[i];
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++) {
    if (at.line(i) >= chunks)
      continue;
    float x[8];
    logfmt10_decode(x, logfmt10_load(room, hidden, (uint32_t)i * WARP + lane));
    p.v[i] = pack8(x);
  }
}

#endif
