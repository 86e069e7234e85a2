// Answers as logfmt10: seven blocks of 128 values, 14 chunks of bf16, become 1,176 bytes. Ranks' own rows stay bf16, in
// packets of 14 chunks, so that both are cut at the same values.
//
// A word of a code may have any bits, CUDA_EMPTY too: such a one travels as 0, and two words behind the code tell, for
// each 32 words of it, which those were: 16 bits each, so that they are not empty themselves. All that fits ten lines.
#ifndef CUDA_CODED_CUH
#define CUDA_CODED_CUH

#include "cuda/cast.cuh"
#include "cuda/format.cuh"
#include "cuda/scene.cuh"

enum { CODED_ROOM = CUDA_CODED_LINES * CUDA_LINE }; // bytes of a warp's own shared memory, aligned to 16

typedef packet<CUDA_BF16_CHUNKS> answer_packet;

static_assert(cuda_coded_lines(CUDA_CODED_CHUNKS) == CUDA_CODED_LINES, "a packet's code and marks fit");

// The place, in an area, of a coded packet: a row of them is no longer than one of bf16, and has its place.
__device__ __forceinline__ size_t coded_offset(const cuda_layout &layout, uint64_t op, uint32_t token, uint32_t index) {
  return answer_offset(layout, op, token, 0) + index * CUDA_CODED_LINES * CUDA_LINE;
}

// A code, `words` of it, as it travels: room[words, end) are the marks, and zeros behind them. [warp]
static __device__ __noinline__ void mark_empty(uint32_t *room, uint32_t words, uint32_t end) {
  uint32_t lane = threadIdx.x % WARP, at = words;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += WARP, at += 2) {
    bool empty = first + lane < words && room[first + lane] == CUDA_EMPTY;
    uint32_t marks = __ballot_sync(~0u, empty);
    if (empty)
      room[first + lane] = 0;
    if (lane < 2)
      room[at + lane] = marks >> lane * 16 & 0xFFFF;
  }
  for (at += lane; at < end; at += WARP)
    room[at] = 0;
}

// And back. [warp]
static __device__ __noinline__ void unmark_empty(uint32_t *room, uint32_t words) {
  uint32_t lane = threadIdx.x % WARP, at = words;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += WARP, at += 2)
    if ((room[at] | room[at + 1] << 16) >> lane & 1)
      room[first + lane] = CUDA_EMPTY;
}

// From `chunks` chunks of bf16 to what travels. Lane l has values 8 l and on of each iteration, so that half a warp has
// a block. [warp]
__device__ __forceinline__ void encode_packet(answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = cuda_coded_lines(chunks), hidden = chunks * CUDA_LINE / 2;
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
  mark_empty((uint32_t *)room, cuda_coded_words(chunks), wire * CUDA_LINE / 4);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    p.v[i] = at.line(i) < wire ? *(const uint4 *)(room + at.offset(i)) : make_uint4(0, 0, 0, 0);
}

// Back to bf16. [warp]
__device__ __forceinline__ void decode_packet(answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = cuda_coded_lines(chunks), hidden = chunks * CUDA_LINE / 2;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    if (at.line(i) < wire)
      *(uint4 *)(room + at.offset(i)) = p.v[i];
  __syncwarp();
  unmark_empty((uint32_t *)room, cuda_coded_words(chunks));
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
