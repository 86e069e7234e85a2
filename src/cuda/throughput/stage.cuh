// How a warp moves rows: in pieces, through its own *stage* in shared memory. A bulk copy loads a piece. Bulk copies
// store it to all its places, or lanes cast it and store it.
//
// Measured on two H200s with 24 processors: 24 warps on a processor with one stage of 7168 bytes each reach the store
// bandwidth of the processor: 48 GB/s to its own memory, 59 to eight places, 42 over the links. Two stages for each
// warp, or fewer warps with more stages, are no faster; warps that move rows through registers reach 38, 50 and 33.
// Stores of a processor to other GPUs delay its stores to its own memory, so each block does only one of the two.
#ifndef CUDA_THROUGHPUT_STAGE_CUH
#define CUDA_THROUGHPUT_STAGE_CUH

#include "cuda/dispatch/cast.cuh"
#include "cuda/throughput/publisher.cuh"

enum {
  STAGE_UNIT = MOVER_LINE, // a piece is a multiple of it; for a cast it is two blocks of bf16
};

// Before Hopper lanes copy 16 bytes each.
struct stage {
  char *bytes;
  uint64_t *arrived;
  uint32_t phase; // of `arrived`

  // [warp]
  __device__ __forceinline__ stage(char *bytes, uint64_t *arrived) : bytes(bytes), arrived(arrived), phase(0) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % WARP == 0)
      ptx::init_bulk(arrived);
    __syncwarp();
#endif
  }
  // Begins to load a piece, after the former contents of the stage have been read. [warp]
  __device__ __forceinline__ void load(const char *from, uint32_t count) {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_read();
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
      ptx::expect_bulk(arrived, count);
      ptx::bulk_load(bytes, from, count, arrived);
    }
#else
    __syncwarp();
    for (uint32_t at = threadIdx.x % WARP * 16; at < count; at += WARP * 16)
      ptx::load_shared16_if(true, bytes + at, from + at);
#endif
  }
  // Waits until the piece has arrived. [warp]
  __device__ __forceinline__ void await() {
#if __CUDA_ARCH__ >= 900
    ptx::await_bulk(arrived, phase);
    phase ^= 1;
#else
    ptx::load_shared_wait();
#endif
    __syncwarp();
  }
  // Makes a piece of zeros instead, after the former contents have been read. [warp]
  __device__ __forceinline__ void clear(uint32_t count) const {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_read();
#endif
    __syncwarp();
    for (uint32_t at = threadIdx.x % WARP * 16; at < count; at += WARP * 16)
      *(uint4 *)(bytes + at) = make_uint4(0, 0, 0, 0);
    written();
  }
  // To be called after lanes have written to the stage. [warp]
  __device__ __forceinline__ void written() const {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_fence();
#endif
    __syncwarp();
  }
  // Begins to store `count` bytes to each of a job's places, from offset `at` on. [warp]
  __device__ __forceinline__ void store(const mover_job &job, uint32_t at, uint32_t count) const {
    uint32_t lane = threadIdx.x % WARP;
#if __CUDA_ARCH__ >= 900
    if (lane < job.outputs)
      ptx::bulk_store(job.output[lane] + at, bytes, count);
    ptx::bulk_commit();
#else
    for (uint32_t o = 0; o < job.outputs; o++)
      for (uint32_t i = lane * 16; i < count; i += WARP * 16)
        ptx::store16(job.output[o] + at + i, *(const uint4 *)(bytes + i));
#endif
  }
};

// How a row is divided into pieces.
struct row_pieces {
  uint32_t bytes, piece; // bytes: of a row as it is loaded; piece: bytes of each piece except the last

  // Makes the pieces as equal as units allow, so that none is short.
  __device__ __forceinline__ row_pieces(uint32_t bytes, uint32_t stage) : bytes(bytes) {
    uint32_t count = (bytes + stage - 1) / stage;
    piece = cuda_round_up((bytes + count - 1) / count, STAGE_UNIT);
  }
  __device__ __forceinline__ uint32_t at(uint32_t begin) const { return min(piece, bytes - begin); }
};

// The largest magnitude of a block's values that are finite. [warp]
static __device__ __noinline__ uint32_t finite_over_block(uint4 v) {
  uint32_t most = finite_amax_of(v, make_uint4(0, 0, 0, 0));
#pragma unroll 1
  for (int step = 8; step > 0; step /= 2)
    most = max(most, __shfl_xor_sync(~0u, most, step));
  return most;
}

// Casts `count` bytes of bf16 in a stage to e4m3, with scales of the dtype, and stores them to each of the job's
// places. The bytes begin at offset `row_at` of a row of `blocks` blocks. `scale_stride`: elements from one scale to
// the next, at the address scales_at[o] of output o. Lanes store the values, since a bulk copy of data that lanes have
// written to shared memory has to wait for a fence, which takes longer. [warp]
static __device__ __forceinline__ void cast_piece(const char *bytes, const mover_job &job, uint32_t row_at,
                                                  uint32_t count, uint32_t blocks, int dtype, uint32_t scale_stride) {
  enum { LINES = 4 };
  uint32_t lane = threadIdx.x % WARP, outputs = job.outputs, first = row_at / (2 * CUDA_BLOCK);
#pragma unroll 1
  for (uint32_t begin = 0; begin < count; begin += LINES * MOVER_LINE) {
    uint4 v[LINES];
    uint32_t most[LINES];
    bool finite = true;
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      uint32_t at = begin + i * MOVER_LINE + lane * 16;
      v[i] = at < count ? *(const uint4 *)(bytes + at) : make_uint4(0, 0, 0, 0);
    }
    // Several lines are processed together, since each step waits for the one before. Half a warp has one block.
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      uint32_t pair = amax_pair(v[i]);
      most[i] = max(pair & 0xFFFF, pair >> 16);
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < LINES; i++)
        most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], step));
#pragma unroll
    for (int i = 0; i < LINES; i++)
      finite &= is_finite(most[i]);
    if (!__all_sync(~0u, finite)) {
#pragma unroll
      for (int i = 0; i < LINES; i++)
        most[i] = finite_over_block(v[i]);
    }
    uint2 codes[LINES];
    float scale[LINES];
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      float inverse;
      scale[i] = block_scale(most[i], dtype != CUDA_FP8, &inverse);
      codes[i] = cast8(v[i], inverse);
    }
#pragma unroll 1
    for (uint32_t o = 0; o < outputs; o++) {
      char *to = job.output[o] + row_at / 2, *scales = (char *)job.scales_at[o];
#pragma unroll
      for (int i = 0; i < LINES; i++) {
        uint32_t at = begin + i * MOVER_LINE + lane * 16, block = first + at / (2 * CUDA_BLOCK);
        if (at >= count)
          continue;
        *(uint2 *)(to + at / 2) = codes[i];
        if (lane % 16 != 0)
          continue;
        if (dtype == CUDA_FP8_UE8M0)
          scales[(uint64_t)(block / 4) * scale_stride * 4 + block % 4] = (char)ue8m0_of(scale[i]);
        else
          ((float *)scales)[(uint64_t)block * scale_stride] = scale[i];
      }
    }
  }
  // Scale bytes without a block are 0.
  if (dtype == CUDA_FP8_UE8M0 && first + count / (2 * CUDA_BLOCK) >= blocks && lane < (4 - blocks % 4) % 4)
#pragma unroll 1
    for (uint32_t o = 0; o < outputs; o++)
      ((char *)job.scales_at[o])[(uint64_t)(blocks / 4) * scale_stride * 4 + blocks % 4 + lane] = 0;
}

// Moves a role's rows, one after the other. ROLE has find(job), which finds the next row while the previous one leaves
// the stage, and place(job), which does the rest while the row's first piece is being loaded. PUT has put(stage, job,
// begin, count), which stores a piece from the stage to its places. [warp]
template <typename ROLE, typename PUT>
__device__ __forceinline__ void move_rows(ROLE &role, stage &stage, const row_pieces &pieces, const PUT &put) {
  mover_job &job = role.channel.memory.jobs[0];
#pragma unroll 1
  while (await_job(role, job)) {
    bool comes = job.inputs > 0; // false: the row is all zeros
    if (comes)
      stage.load(job.input[0], pieces.at(0));
    role.place(job);
    __syncwarp();
#pragma unroll 1
    for (uint32_t begin = 0; begin < pieces.bytes; begin += pieces.piece) {
      uint32_t count = pieces.at(begin);
      if (comes && begin)
        stage.load(job.input[0] + begin, count);
      if (comes)
        stage.await();
      else
        stage.clear(count);
      put.put(stage, job, begin, count);
    }
    role.finished(job, true);
    __syncwarp();
  }
  role.end();
}

// Serves all channels of a share: calls `run` with a ROLE for each, constructed from the memory, the channel and
// `args`. [warp]
template <typename ROLE, typename RUN, typename... ARGS>
__device__ __forceinline__ void run_rows(const channel_share &share, channel_memory &memory, const RUN &run,
                                         const ARGS &...args) {
#pragma unroll 1
  for (uint32_t c = share.index; c < CUDA_CHANNELS; c += share.count) {
    if (ROLE::WRITES)
      await_published(memory);
    ROLE role(memory, c, args...);
    if (ROLE::WRITES)
      open_channel(memory);
    run(role);
    __syncwarp(); // the memory can be used again
  }
  if (ROLE::WRITES)
    end_writing(memory);
}

struct as_it_is {
  __device__ __forceinline__ void put(const stage &stage, const mover_job &job, uint32_t begin, uint32_t count) const {
    stage.store(job, begin, count);
  }
};

#endif
