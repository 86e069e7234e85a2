// How a warp adds rows: pieces of all rows are loaded together into one slot of its stage, while the previous pieces
// are added. Sums are in f32, in the order of the inputs, each with its weight, and rounded once.
//
// Bulk copies load the pieces. Lanes store the sums from registers, since a bulk copy of data that lanes have written
// to shared memory has to wait for a fence.
#ifndef CUDA_ANSWERS_SUM_CUH
#define CUDA_ANSWERS_SUM_CUH

#include "cuda/throughput/stage.cuh"

enum { SUM_SLOTS = 2 }; // of a stage

// Bytes of each input in a slot: whole lines, if there is room for one.
__device__ __forceinline__ uint32_t sum_piece_of(uint32_t slot, uint32_t inputs) {
  uint32_t each = slot / (inputs ? inputs : 1);
  return each < MOVER_LINE ? each / 16 * 16 : each / MOVER_LINE * MOVER_LINE;
}

// Begins to load `count` bytes of each input into its part of a slot. Lane n has the address of input n; all lanes must
// have read the former contents. [warp]
__device__ __forceinline__ void load_inputs(char *slot, uint64_t *arrived, const char *from, uint32_t inputs,
                                            uint32_t count, uint32_t piece) {
  uint32_t lane = threadIdx.x % WARP;
#if __CUDA_ARCH__ >= 900
  if (lane == 0)
    ptx::expect_bulk(arrived, inputs * count);
  __syncwarp();
  if (lane < inputs)
    ptx::bulk_load(slot + lane * piece, from, count, arrived);
#else
  for (uint32_t n = 0; n < inputs; n++) {
    const char *its = (const char *)__shfl_sync(~0u, (unsigned long long)from, n);
    for (uint32_t at = lane * 16; at < count; at += MOVER_LINE)
      ptx::load_shared16_if(true, slot + n * piece + at, its + at);
  }
#endif
}

// Adds up N inputs (answers and biases), which have no weights; `to`: place of the sum. [warp]
template <int N> __device__ __forceinline__ void sum_of(const char *slot, uint32_t piece, uint32_t count, char *to) {
  // lines processed together, since each addition waits for the one before
  enum { LINES = N >= 5 ? 2 : N == 1 ? 6 : 12 / N };
  uint32_t lane = threadIdx.x % WARP * 16, from = ptx::shared_address(slot) + lane;
#pragma unroll 1
  for (uint32_t at = 0; at < count; at += LINES * MOVER_LINE) {
    uint4 v[LINES][N];
#pragma unroll
    for (int i = 0; i < LINES; i++)
#pragma unroll
      for (int n = 0; n < N; n++) // reads beyond a piece hit other pieces, or other memory of the block
        v[i][n] = ptx::shared_load16(from + at + n * piece + i * MOVER_LINE);
#pragma unroll
    for (int i = 0; i < LINES; i++)
      ptx::store16_if(at + i * MOVER_LINE + lane < count, to + at + i * MOVER_LINE + lane, sum8(v[i]));
  }
}

// Adds any number of inputs, also with a factor. [warp]
static __device__ __noinline__ void sum_of_many(const char *slot, const mover_job &job, uint32_t piece, uint32_t count,
                                                char *to) {
  uint32_t inputs = job.inputs;
#pragma unroll 1
  for (uint32_t at = threadIdx.x % WARP * 16; at < count; at += MOVER_LINE) {
    float acc[8] = {};
#pragma unroll 4
    for (uint32_t n = 0; n < inputs; n++) {
      add8(acc, *(const uint4 *)(slot + n * piece + at), job.weight[n]);
      if (n + 1 != job.factor_at)
        continue;
#pragma unroll
      for (int j = 0; j < 8; j++)
        acc[j] *= job.factor;
    }
    ptx::store16(to + at, pack8(acc));
  }
}

__device__ __forceinline__ void sum_piece(const char *slot, const mover_job &job, uint32_t piece, uint32_t count,
                                          char *to) {
  switch (job.factor_at ? MOVER_INPUTS : job.inputs) {
  case 1:
    return sum_of<1>(slot, piece, count, to);
  case 2:
    return sum_of<2>(slot, piece, count, to);
  case 3:
    return sum_of<3>(slot, piece, count, to);
  case 4:
    return sum_of<4>(slot, piece, count, to);
  case 5:
    return sum_of<5>(slot, piece, count, to);
  case 6:
    return sum_of<6>(slot, piece, count, to);
  case 7:
    return sum_of<7>(slot, piece, count, to);
  case 8:
    return sum_of<8>(slot, piece, count, to);
  default:
    return sum_of_many(slot, job, piece, count, to);
  }
}

// The pieces of a role's rows, one after the other.
struct sum_cursor {
  // job: which of the two jobs; begin: offset in its rows; piece: bytes of a piece
  uint32_t job, begin, piece, inputs;
  const char *from; // lane n has the address of input n

  __device__ __forceinline__ void start(const mover_job *jobs, uint32_t at, uint32_t slot) {
    job = at;
    begin = 0;
    inputs = jobs[at].inputs;
    piece = sum_piece_of(slot, inputs);
    from = threadIdx.x % WARP < inputs ? jobs[at].input[threadIdx.x % WARP] : nullptr;
  }
};

// Makes the barriers of a stage. [warp]
__device__ __forceinline__ void begin_sums(channel_memory &memory) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % WARP < SUM_SLOTS)
    ptx::init_bulk(&memory.arrived[threadIdx.x % WARP]);
#endif
  __syncwarp();
}

// Adds a role's rows of `bytes`, one after the other. Pieces are loaded as far ahead as there are slots, also pieces of
// the next row, which is found meanwhile. `stage`: SUM_SLOTS slots of `slot` bytes; `added`: pieces so far. [warp]
template <typename ROLE>
__device__ __forceinline__ void sum_rows(ROLE &role, char *stage, uint32_t slot, uint32_t bytes, uint32_t &added) {
  mover_job *jobs = role.channel.memory.jobs;
  uint64_t *arrived = role.channel.memory.arrived;
  uint32_t asked = added; // pieces that have been requested
  sum_cursor ahead;
  bool here = await_job(role, jobs[0]);
  ahead.start(jobs, 0, slot);
#pragma unroll 1
  for (uint32_t i = 0; here; i ^= 1) {
    mover_job &job = jobs[i], &next = jobs[i ^ 1];
    bool looked = false;
    found_job found = JOB_WAITS;
    sum_cursor now;
    now.start(jobs, i, slot);
#pragma unroll 1
    while (now.begin < bytes) {
#pragma unroll 1
      while (asked - added < SUM_SLOTS) {
        if (ahead.begin >= bytes && ahead.job == i && !looked) {
          found = role.find(next);
          __syncwarp();
          looked = true;
          if (found == JOB_READY)
            ahead.start(jobs, i ^ 1, slot);
        }
        if (ahead.begin >= bytes)
          break;
        load_inputs(stage + asked % SUM_SLOTS * slot, &arrived[asked % SUM_SLOTS], ahead.from + ahead.begin,
                    ahead.inputs, min(ahead.piece, bytes - ahead.begin), ahead.piece);
        ahead.begin += ahead.piece;
        asked++;
      }
#if __CUDA_ARCH__ >= 900
      ptx::await_bulk(&arrived[added % SUM_SLOTS], added / SUM_SLOTS % 2);
#else
      ptx::load_shared_wait();
      __syncwarp();
#endif
      sum_piece(stage + added % SUM_SLOTS * slot, job, now.piece, min(now.piece, bytes - now.begin),
                job.output[0] + now.begin);
      now.begin += now.piece;
      added++;
      __syncwarp(); // all lanes have read the slot
    }
    role.finished(job, found == JOB_READY);
    here = found == JOB_READY;
    if (found == JOB_WAITS && (here = await_job(role, next)))
      ahead.start(jobs, i ^ 1, slot);
  }
  role.end();
}

#endif
