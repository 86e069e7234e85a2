// Answers as logfmt10. A packet of bf16, eight blocks of 128 values, has 336 words of code. They lie at the beginning
// of the packet's place; the rest of the place stays empty. A rank's rows for itself stay bf16.
//
// A word of a code may have any bits. It is sent with every second bit inverted: words with all bits set, CUDA_EMPTY,
// are common in code (bit 8 of 32 large values, the signs of 32 negative ones), but the word that would become
// CUDA_EMPTY by the inversion, CODED_EMPTY, is rare. Such a word is sent as 0, and words of marks after the code say
// which words these were; each has 31 marks, so that it is never CUDA_EMPTY itself. Code and marks fit into eleven
// lines.
#ifndef CUDA_COMBINE_CODED_CUH
#define CUDA_COMBINE_CODED_CUH

#include "cuda/kernels/format.cuh"
#include "cuda/kernels/snapshot.cuh"

enum { CODED_ROOM = CUDA_CODED_LINES * CUDA_LINE }; // bytes of a warp's own shared memory, aligned to 16

const uint32_t CODED_INVERTED = 0x55555555u, CODED_EMPTY = ~CODED_INVERTED;

typedef packet<CUDA_BF16_CHUNKS> answer_packet;

static_assert(cuda_coded_lines(CUDA_BF16_CHUNKS) == CUDA_CODED_LINES, "a packet's code and marks fit");

// Replaces the words of a code (`words` of them) that would be empty, and writes the marks after the code. [warp]
__device__ __forceinline__ void mark_empty(uint32_t *room, uint32_t words) {
  uint32_t lane = threadIdx.x % WARP, *marks = room + words;
  __syncwarp();
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += CUDA_WORD_MARKS, marks++) {
    bool empty = lane < CUDA_WORD_MARKS && first + lane < words && room[first + lane] == CODED_EMPTY;
    uint32_t all = __ballot_sync(~0u, empty);
    if (empty)
      room[first + lane] = 0;
    if (lane == 0)
      *marks = all;
  }
}

// Undoes mark_empty(). [warp]
__device__ __forceinline__ void unmark_empty(uint32_t *room, uint32_t words) {
  uint32_t lane = threadIdx.x % WARP, *marks = room + words;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += CUDA_WORD_MARKS, marks++)
    if (*marks >> lane & 1)
      room[first + lane] = CODED_EMPTY;
}

__device__ __forceinline__ uint4 invert(uint4 v) {
  return make_uint4(v.x ^ CODED_INVERTED, v.y ^ CODED_INVERTED, v.z ^ CODED_INVERTED, v.w ^ CODED_INVERTED);
}

// Loads the lines of a packet, as they are sent, from the room into which the warp has put the code. Returns the
// largest of the lane's words. [warp]
__device__ __forceinline__ uint32_t load_lines(answer_packet &p, uint32_t count, const char *room) {
  seat_in_packet at;
  uint32_t most = 0;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++) {
    p.v[i] = at.line(i) < count ? invert(*(const uint4 *)(room + at.offset(i))) : make_uint4(0, 0, 0, 0);
    most = max(most, largest(p.v[i]));
  }
  return most;
}

// Encodes `chunks` chunks of bf16 for sending. Lane l has the values from 8 l on of each iteration, so that half a warp
// has one block. [warp]
__device__ __forceinline__ void encode_packet(answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = cuda_coded_lines(chunks), words = cuda_coded_words(chunks);
  char *heads = room + logfmt10_heads(chunks * CUDA_LINE / 2);
  const logfmt10_scale mine = logfmt10_scale_blocks(p.v, lane);
  uint32_t block = lane % 4 * 2 + lane / 16;
  __syncwarp();
  if (lane % 16 < 4 && block < chunks / 2)
    *(float2 *)(heads + block * LOGFMT10_HEAD_BYTES) = mine.head;
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++) {
    int from = (int)(lane & 16) | i;
    float2 line = make_float2(__shfl_sync(~0u, mine.line.x, from), __shfl_sync(~0u, mine.line.y, from));
    logfmt10_piece piece = logfmt10_encode(p.v[i], line);
    if (at.line(i) < chunks)
      logfmt10_store(room, (uint32_t)i * WARP + lane, piece);
  }
  // clears the marks and the rest of the last line
  for (uint32_t i = words + lane; i < wire * CUDA_LINE / 4; i += WARP)
    ((uint32_t *)room)[i] = 0;
  if (__any_sync(~0u, load_lines(p, wire, room) == CUDA_EMPTY)) {
    mark_empty((uint32_t *)room, words);
    load_lines(p, wire, room);
  }
}

// Stores a received packet into `room`, in the form that logfmt10_load() and logfmt10_decode() read. [warp]
__device__ __forceinline__ void open_packet(const answer_packet &p, uint32_t chunks, char *room) {
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP, wire = cuda_coded_lines(chunks), words = cuda_coded_words(chunks);
  const uint32_t *marks = (const uint32_t *)room + words;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    if (at.line(i) < wire)
      *(uint4 *)(room + at.offset(i)) = invert(p.v[i]);
  __syncwarp();
  if (__any_sync(~0u, lane < cuda_coded_marks(chunks) && marks[lane] != 0)) {
    unmark_empty((uint32_t *)room, words);
    __syncwarp();
  }
}

// Adds iteration `i` of an open packet, as bf16. After the packet's last line it adds undefined values.
__device__ __forceinline__ void add_decoded(float acc[8], const char *room, uint32_t chunks, int i) {
  seat_in_packet at;
  const char *head = room + logfmt10_heads(chunks * CUDA_LINE / 2) + at.line(i) / 2 * LOGFMT10_HEAD_BYTES;
  add8(acc, logfmt10_decode(logfmt10_load(room, (uint32_t)i * WARP + threadIdx.x % WARP), *(const float2 *)head), 1.0f);
}

#endif
