// How a warp adds rows: pieces of all of them come side by side into one of the slots of its stage, while those before
// are added. Sums are in f32, in the order of the inputs, each with its weight, and rounded once.
//
// Each lane loads the 16 bytes of a line that it adds itself, so that no lane waits for others, and stores the sum.
#ifndef CUDA_THROUGHPUT_SUM_CUH
#define CUDA_THROUGHPUT_SUM_CUH

#include "cuda/throughput/stage.cuh"

enum { SUM_SLOTS = 4 }; // of a stage

// Bytes of each input in a slot: whole lines, where there is room for one.
__device__ __forceinline__ uint32_t sum_piece_of(uint32_t slot, uint32_t inputs) {
  uint32_t each = slot / (inputs ? inputs : 1);
  return each < STAGE_LINE ? each / 16 * 16 : each / STAGE_LINE * STAGE_LINE;
}

// Begins to bring the piece from `begin` on. [warp]
__device__ __forceinline__ void load_inputs(char *slot, const row_job &job, uint32_t begin, uint32_t count,
                                            uint32_t piece) {
  uint32_t inputs = job.inputs, lane = threadIdx.x % WARP * 16;
#pragma unroll 1
  for (uint32_t n = 0; n < inputs; n++) {
    const char *from = job.input[n] + begin;
    char *to = slot + n * piece;
#pragma unroll 2
    for (uint32_t at = lane; at < count; at += STAGE_LINE)
      ptx::load_shared16_if(true, to + at, from + at);
  }
  ptx::load_shared_commit();
}

// Adds up N inputs; `to`: of the sum. [warp]
template <int N>
__device__ __forceinline__ void sum_of(const char *slot, const row_job &job, uint32_t piece, uint32_t count, char *to) {
  float weight[N];
#pragma unroll
  for (int n = 0; n < N; n++)
    weight[n] = job.weight[n];
#pragma unroll 2
  for (uint32_t at = threadIdx.x % WARP * 16; at < count; at += STAGE_LINE) {
    float acc[8] = {};
    uint4 v[N];
#pragma unroll
    for (int n = 0; n < N; n++)
      v[n] = *(const uint4 *)(slot + n * piece + at);
#pragma unroll
    for (int n = 0; n < N; n++)
      add8(acc, v[n], weight[n]);
    ptx::store16(to + at, pack8(acc));
  }
}

// Any number of them, and with a factor. [warp]
static __device__ __noinline__ void sum_of_many(const char *slot, const row_job &job, uint32_t piece, uint32_t count,
                                                char *to) {
  uint32_t inputs = job.inputs;
#pragma unroll 1
  for (uint32_t at = threadIdx.x % WARP * 16; at < count; at += STAGE_LINE) {
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

__device__ __forceinline__ void sum_piece(const char *slot, const row_job &job, uint32_t piece, uint32_t count,
                                          char *to) {
  switch (job.factor_at ? JOB_INPUTS : job.inputs) {
  case 1:
    return sum_of<1>(slot, job, piece, count, to);
  case 2:
    return sum_of<2>(slot, job, piece, count, to);
  case 3:
    return sum_of<3>(slot, job, piece, count, to);
  case 4:
    return sum_of<4>(slot, job, piece, count, to);
  case 5:
    return sum_of<5>(slot, job, piece, count, to);
  case 6:
    return sum_of<6>(slot, job, piece, count, to);
  case 7:
    return sum_of<7>(slot, job, piece, count, to);
  case 8:
    return sum_of<8>(slot, job, piece, count, to);
  default:
    return sum_of_many(slot, job, piece, count, to);
  }
}

// The pieces that have been asked for are there, but for the newest `newer`, which is less than SUM_SLOTS.
__device__ __forceinline__ void await_pieces(uint32_t newer) {
  if (newer >= 3)
    ptx::load_shared_wait_but<3>();
  else if (newer == 2)
    ptx::load_shared_wait_but<2>();
  else if (newer == 1)
    ptx::load_shared_wait_but<1>();
  else
    ptx::load_shared_wait_but<0>();
}

// The pieces of a role's rows, one after the other.
struct sum_cursor {
  uint32_t job, begin, piece; // which of the two jobs; where in its rows; bytes of a piece

  __device__ __forceinline__ void start(const row_job *jobs, uint32_t at, uint32_t slot) {
    job = at;
    begin = 0;
    piece = sum_piece_of(slot, jobs[at].inputs);
  }
};

// Adds a role's rows of `bytes`, one after the other: pieces are asked for as far ahead as there are slots, also those
// of the next row, which is found meanwhile. `stage`: SUM_SLOTS of `slot` bytes. [warp]
template <typename ROLE>
__device__ __forceinline__ void sum_rows(ROLE &role, char *stage, uint32_t slot, uint32_t bytes) {
  row_job *jobs = role.channel.memory.jobs;
  uint32_t asked = 0, added = 0; // pieces
  sum_cursor ahead;
  bool here = await_job(role, jobs[0]);
  ahead.start(jobs, 0, slot);
#pragma unroll 1
  for (uint32_t i = 0; here; i ^= 1) {
    row_job &job = jobs[i], &next = jobs[i ^ 1];
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
        load_inputs(stage + asked % SUM_SLOTS * slot, jobs[ahead.job], ahead.begin,
                    min(ahead.piece, bytes - ahead.begin), ahead.piece);
        ahead.begin += ahead.piece;
        asked++;
      }
      await_pieces(asked - added - 1);
      sum_piece(stage + added % SUM_SLOTS * slot, job, now.piece, min(now.piece, bytes - now.begin),
                job.output[0] + now.begin);
      now.begin += now.piece;
      added++;
    }
    role.finished(job);
    here = found == JOB_READY;
    if (found == JOB_WAITS && (here = await_job(role, next)))
      ahead.start(jobs, i ^ 1, slot);
  }
  role.end();
}

#endif
