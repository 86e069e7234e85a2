// Answers encoded as logfmt10: rows in the format of device/logfmt10.h, the codes of all blocks and then their heads. A
// warp's line of bf16 has two blocks, one for each half of the warp. This rank's own answers stay bf16.
//
// Such answers have tails and credits of their own (flow.h). So a rank that combines in the other format does not see
// them, and is lost after the deadline like a silent rank.
#ifndef CUDA_ANSWERS_CODED_CUH
#define CUDA_ANSWERS_CODED_CUH

#include "cuda/answers/mover.cuh"
#include "cuda/kernels/format.cuh"

enum {
  CODED_LINES = 4, // the number that logfmt10_scale_blocks() handles
  CODED_PACKET = CODED_LINES * MOVER_LINE,
  CODED_BLOCKS = CODED_PACKET / 2 / LOGFMT10_BLOCK,
};

// The inputs of a job that are coded, one bit for each. It uses the memory for scales, which answers do not have.
__device__ __forceinline__ uint64_t &coded_inputs(mover_job &job) {
  return job.scales_at[0];
}
__device__ __forceinline__ bool is_coded(const mover_job &job, uint32_t input) {
  return job.scales_at[0] >> input & 1;
}

// Stores a line's codes as words: four lanes have one byte of a word each. `codes`: of the lane's block. [warp]
__device__ __forceinline__ void store_codes(bool here, char *codes, const logfmt10_piece &piece) {
  uint32_t lane = threadIdx.x % WARP, place = lane % LOGFMT10_PIECES, shift = lane % 4 * 8;
  uint32_t bits = piece.bits << shift, signs = piece.signs << shift;
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    bits |= __shfl_xor_sync(~0u, bits, step);
    signs |= __shfl_xor_sync(~0u, signs, step);
  }
  int from = (int)(lane - place + lane % 4 * 4);
  bits = __shfl_sync(~0u, bits, from);
  signs = __shfl_sync(~0u, signs, from);
  if (here)
    *(uint2 *)(codes + place * LOGFMT10_PIECE) = piece.low;
  ptx::store4_if(here && place < 8, codes + LOGFMT10_BITS + place * 4, place < 4 ? bits : signs);
}

// Stores a packet whose first block is `first`. [warp]
__device__ __forceinline__ void store_coded(char *row, uint32_t hidden, uint32_t first, const uint4 (&v)[CODED_LINES]) {
  uint32_t lane = threadIdx.x % WARP, half = lane / 16, blocks = hidden / LOGFMT10_BLOCK;
  const logfmt10_scale mine = logfmt10_scale_blocks(v, lane);
  uint32_t block = first + lane % 4 * 2 + half;
  if (lane % 16 < 4 && block < blocks)
    *(float2 *)(row + logfmt10_heads(hidden) + block * LOGFMT10_HEAD_BYTES) = mine.head;
#pragma unroll
  for (int i = 0; i < CODED_LINES; i++) {
    int from = (int)(lane & 16) | i;
    float2 line = make_float2(__shfl_sync(~0u, mine.line.x, from), __shfl_sync(~0u, mine.line.y, from));
    block = first + 2 * i + half;
    store_codes(block < blocks, row + block * LOGFMT10_CODE_BYTES, logfmt10_encode(v[i], line));
  }
}

// Adds up the bf16 inputs in their order, each with its weight, and rounds once; with `coded` encodes the sum. [warp]
__device__ __forceinline__ void code_job(const mover_job &job, uint32_t hidden, bool coded, mover_share share) {
  enum { EACH = 2 };
  uint32_t bytes = 2 * hidden;
#pragma unroll 1
  for (uint32_t packet = share.first; packet * CODED_PACKET < bytes; packet += share.step) {
    uint32_t at = packet * CODED_PACKET + threadIdx.x % WARP * 16;
    float acc[CODED_LINES][8] = {};
#pragma unroll 1
    for (uint32_t first = 0; first < job.inputs; first += EACH) {
      uint4 v[EACH][CODED_LINES];
#pragma unroll
      for (int n = 0; n < EACH; n++)
#pragma unroll
        for (int i = 0; i < CODED_LINES; i++)
          v[n][i] = mover_load<false>(first + n < job.inputs && at + i * MOVER_LINE < bytes,
                                      job.input[min(first + n, MOVER_INPUTS - 1u)] + at + i * MOVER_LINE);
#pragma unroll
      for (int n = 0; n < EACH; n++)
#pragma unroll
        for (int i = 0; i < CODED_LINES; i++)
          if (first + n < job.inputs)
            add8(acc[i], v[n][i], job.weight[first + n]);
    }
    uint4 sum[CODED_LINES];
#pragma unroll
    for (int i = 0; i < CODED_LINES; i++) {
      sum[i] = pack8(acc[i]);
      ptx::store16_if(!coded && at + i * MOVER_LINE < bytes, job.output[0] + at + i * MOVER_LINE, sum[i]);
    }
    if (coded)
      store_coded(job.output[0], hidden, packet * CODED_BLOCKS, sum);
  }
}

// A lane's part of a line of a coded row, as it lies in a ring.
struct coded_piece {
  uint64_t low, head;
  uint32_t bits, signs; // words, of which the lane has a byte

  __device__ __forceinline__ coded_piece() {}
  __device__ __forceinline__ coded_piece(const char *row, uint32_t hidden, uint32_t block) {
    uint32_t place = threadIdx.x % LOGFMT10_PIECES;
    const char *codes = row + block * LOGFMT10_CODE_BYTES;
    low = ptx::load_volatile((const uint64_t *)codes + place);
    bits = ptx::load_volatile((const uint32_t *)(codes + LOGFMT10_BITS) + place / 4);
    signs = ptx::load_volatile((const uint32_t *)(codes + LOGFMT10_SIGNS) + place / 4);
    head = ptx::load_volatile((const uint64_t *)(row + logfmt10_heads(hidden)) + block);
  }
  // Its eight values, as bf16.
  __device__ __forceinline__ uint4 values() const {
    uint32_t shift = threadIdx.x % 4 * 8;
    const logfmt10_piece piece = {make_uint2((uint32_t)low, (uint32_t)(low >> 32)), bits >> shift & 0xFF,
                                  signs >> shift & 0xFF};
    return logfmt10_decode(piece,
                           make_float2(__uint_as_float((uint32_t)head), __uint_as_float((uint32_t)(head >> 32))));
  }
};

// Adds one input of a packet. [warp]
__device__ __forceinline__ void add_input(float (&acc)[CODED_LINES][8], const mover_job &job, uint32_t n,
                                          uint32_t hidden, uint32_t packet) {
  uint32_t blocks = hidden / LOGFMT10_BLOCK, first = packet * CODED_BLOCKS + threadIdx.x % WARP / 16;
  uint32_t at = packet * CODED_PACKET + threadIdx.x % WARP * 16;
  if (is_coded(job, n)) {
    coded_piece piece[CODED_LINES];
#pragma unroll
    for (int i = 0; i < CODED_LINES; i++) // after the last block it repeats that block, and the result is not stored
      piece[i] = coded_piece(job.input[n], hidden, min(first + 2 * i, blocks - 1));
#pragma unroll
    for (int i = 0; i < CODED_LINES; i++)
      add8(acc[i], piece[i].values(), 1.0f);
    return;
  }
  uint4 v[CODED_LINES];
#pragma unroll
  for (int i = 0; i < CODED_LINES; i++)
    v[i] = mover_load<true>(at + i * MOVER_LINE < 2 * hidden, job.input[n] + at + i * MOVER_LINE);
#pragma unroll
  for (int i = 0; i < CODED_LINES; i++)
    add8(acc[i], v[i], 1.0f);
}

// Adds up inputs that are coded or bf16, in their order, in f32, and rounds once. [warp]
__device__ __forceinline__ void add_coded_job(const mover_job &job, uint32_t hidden, mover_share share) {
#pragma unroll 1
  for (uint32_t packet = share.first; packet * CODED_PACKET < 2 * hidden; packet += share.step) {
    uint32_t at = packet * CODED_PACKET + threadIdx.x % WARP * 16;
    float acc[CODED_LINES][8] = {};
#pragma unroll 1
    for (uint32_t n = 0; n < job.inputs; n++) {
      add_input(acc, job, n, hidden, packet);
      if (n + 1 != job.factor_at)
        continue;
#pragma unroll
      for (int i = 0; i < CODED_LINES; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
          acc[i][j] *= job.factor;
    }
#pragma unroll
    for (int i = 0; i < CODED_LINES; i++)
      ptx::store16_if(at + i * MOVER_LINE < 2 * hidden, job.output[0] + at + i * MOVER_LINE, pack8(acc[i]));
  }
}

#endif
