// combine: the experts' rank reduces its rows for a token and returns one; the source adds the rows of the ranks.
#include "cuda/cast.cuh"
#include "cuda/launch.h"
#include "cuda/scene.cuh"

namespace {

enum { WORKERS = 4 * TEAM }; // threads of a block that make rows, all of them one at a time

enum { BATCH = 4 }; // rows of which a thread has loads under way at once

// Rows to be added, each with its weight: lane r has the r-th.
struct sum {
  const char *row;
  float weight;
  uint32_t rows;
};

// Asks for piece `piece` of rows r to r + BATCH. WRITTEN: by other processors, while this kernel ran.
template <bool WRITTEN>
__device__ __forceinline__ void load_batch(uint4 v[BATCH], const sum &sum, uint32_t r, uint32_t piece,
                                           uint32_t pieces) {
#pragma unroll
  for (uint32_t i = 0; i < BATCH; i++) {
    const char *from = (const char *)__shfl_sync(~0u, (unsigned long long)sum.row, (int)((r + i) % WARP));
    if (r + i < sum.rows && piece < pieces)
      v[i] = WRITTEN ? ptx::load_shared16(from + piece * 16) : ptx::load_once16(from + piece * 16);
  }
}

__device__ __forceinline__ void add_batch(float acc[8], const uint4 v[BATCH], const sum &sum, uint32_t r) {
#pragma unroll
  for (uint32_t i = 0; i < BATCH; i++) {
    float weight = __shfl_sync(~0u, sum.weight, (int)((r + i) % WARP));
    if (r + i < sum.rows)
      add8(acc, v[i], weight);
  }
}

// out = factor * (sum of weight * row): f32, in the rows' order, rounded once. ANSWER: `out` is in shared memory; else
// the rows were written by other processors while this kernel ran. [workers]
template <bool ANSWER>
__device__ __forceinline__ void reduce(char *out, const sum &sum, float factor, uint32_t pieces) {
  for (uint32_t piece = threadIdx.x; piece - threadIdx.x < pieces; piece += WORKERS) {
    float acc[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (uint32_t r = 0; r < sum.rows; r += BATCH) {
      uint4 v[BATCH];
      load_batch<!ANSWER>(v, sum, r, piece, pieces);
      add_batch(acc, v, sum, r);
    }
    if (piece >= pieces)
      continue;
#pragma unroll
    for (int i = 0; i < 8; i++)
      acc[i] *= factor;
    if (ANSWER)
      *(uint4 *)(out + piece * 16) = pack8(acc);
    else
      ptx::store16(out + piece * 16, pack8(acc));
  }
}

// Where the experts' outputs for one row stand, and with which weight: lane k has selection k.
struct selection {
  int32_t place;
  float weight;
};

// Of job i: token i / count of member (i + self) % count. None behind the last token.
__device__ __forceinline__ selection load_selection(const cuda_combine_args &args, const cuda_handle &handle,
                                                    uint32_t i, uint32_t count, uint32_t self) {
  uint32_t lane = threadIdx.x % WARP, K = args.layout.topk, token = i / count, m = (i + self) % count;
  if (lane >= K || token >= args.layout.max_tokens)
    return {-1, 0.0f};
  size_t entry = ((size_t)m * args.layout.max_tokens + token) * K + lane;
  return {handle.place[entry], handle.weight[entry]};
}

// What a courier has to know of a row: where it goes.
struct row_mail {
  char *slot;
  uint32_t token;
};

__device__ __forceinline__ void deliver(const cuda_combine_args &args, uint64_t op, const row_mail &mail,
                                        const char *stage, uint32_t lane) {
  const cuda_layout &layout = args.layout;
  carry(mail.slot + layout.combine + (size_t)mail.token * layout.combine_stride, stage, layout.combine_stride, lane);
  carried(lane);
  if (lane == 0)
    ptx::store_release((uint32_t *)(mail.slot + layout.combine_flags) + mail.token, (uint32_t)op + 1);
}

// The experts' side: reduces the rows of this block, and hands them to the couriers. Where the next row's inputs stand
// is asked for while a row is reduced. [workers]
__device__ __forceinline__ void answer(const cuda_combine_args &args, const scene &scene, outbox<row_mail> &outbox) {
  const cuda_layout &layout = args.layout;
  uint64_t op = scene.counters.answered;
  const cuda_handle &handle = args.state->handle[op % CUDA_DEPTH];
  uint32_t count = scene.counters.count, self = scene.counters.self, lane = threadIdx.x % WARP;
  // Tokens of member `lane`, and of the one a warp behind it.
  uint32_t mine = lane < count ? handle.tokens[lane] : 0, also = lane + WARP < count ? handle.tokens[lane + WARP] : 0;
  selection next = load_selection(args, handle, blockIdx.x, count, self);
  uint64_t open = await_credit(args.state, scene, op, &cuda_area_head::taken_combine);
  uint32_t most = __reduce_max_sync(~0u, max(mine, also));
  for (uint32_t i = blockIdx.x; i < most * count; i += gridDim.x) {
    selection now = next;
    next = load_selection(args, handle, i + gridDim.x, count, self);
    uint32_t token = i / count, m = (i + self) % count, valid = __ballot_sync(~0u, now.place >= 0);
    uint32_t tokens = __shfl_sync(~0u, m < WARP ? mine : also, (int)(m % WARP));
    if (token >= tokens || !valid || !(open >> m & 1))
      continue;
    uint32_t rows = args.rank_major ? 1 : __popc(valid); // rank-major: the caller has reduced them to one
    int k = lane < rows ? (int)__fns(valid, 0, (int)lane + 1) : 0;
    int32_t place = __shfl_sync(~0u, now.place, k);
    float weight = __shfl_sync(~0u, now.weight, k);
    const sum sum = {(const char *)args.y + (size_t)max(place, 0) * layout.hidden * 2, args.rank_major ? 1.0f : weight,
                     rows};
    reduce<true>(outbox.next(), sum, 1.0f, layout.hidden / 8);
    outbox.send({slot_of(layout, scene.members[m].out, op), token}, threadIdx.x == 0);
  }
}

// (all weights) / (weights that came) of a token. [warp]
__device__ float make_up(const cuda_combine_args &args, const scene &scene, uint32_t token, uint64_t came) {
  uint32_t lane = threadIdx.x % WARP;
  size_t at = (size_t)token * args.layout.topk + lane;
  int64_t expert = lane < args.layout.topk ? args.topk_idx[at] : -1;
  float weight = expert >= 0 ? args.topk_weights[at] : 0.0f, there = 0.0f;
  for (uint32_t m = 0; m < scene.counters.count; m++)
    if (came >> m & 1 && expert >= 0 && expert / args.experts_per_rank == scene.members[m].rank)
      there = weight;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    weight += __shfl_xor_sync(~0u, weight, step);
    there += __shfl_xor_sync(~0u, there, step);
  }
  return there != 0.0f ? weight / there : 1.0f;
}

// The n-th lowest bit that is set.
__device__ __forceinline__ int nth_bit(uint64_t bits, uint32_t n) {
  for (; n > 0; n--)
    bits &= bits - 1;
  return __ffsll((long long)bits) - 1;
}

// The source's side: waits for the ranks' rows of one token and adds them. [workers]
__device__ __forceinline__ void add_up(const cuda_combine_args &args, const scene &scene, uint32_t token,
                                       uint64_t *arrived) {
  const cuda_layout &layout = args.layout;
  uint64_t op = scene.counters.combined, members = args.state->handle[op % CUDA_DEPTH].members[token], came = 0;
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t base = 0; threadIdx.x < WARP && base < scene.counters.count; base += WARP) { // one warp asks
    uint32_t m = base + lane;
    bool here = m < scene.counters.count && members >> m & 1 &&
                wait_flag(args.state, m,
                          (const uint32_t *)(slot_of(layout, scene.members[m].in, op) + layout.combine_flags) + token,
                          (uint32_t)op + 1);
    came |= (uint64_t)__ballot_sync(~0u, here) << base;
  }
  if (threadIdx.x == 0)
    *arrived = came;
  ptx::barrier(BARRIER_ROLE, WORKERS);
  came = *arrived;
  ptx::barrier(BARRIER_ROLE, WORKERS);
  sum sum = {nullptr, 1.0f, (uint32_t)__popcll(came)};
  if (lane < sum.rows)
    sum.row = slot_of(layout, scene.members[nth_bit(came, lane)].in, op) + layout.combine +
              (size_t)token * layout.combine_stride;
  float factor = args.renormalize && came != members ? make_up(args, scene, token, came) : 1.0f;
  reduce<false>((char *)args.out + (size_t)token * layout.hidden * 2, sum, factor, layout.hidden / 8);
  if (args.missing && threadIdx.x == 0)
    args.missing[token] = members & ~came;
}

// Warps of a block: four teams of workers, the couriers.
__global__ void __launch_bounds__(BLOCK, 1) combine(const cuda_combine_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ scene scene;
  __shared__ ring<row_mail> ring;
  __shared__ uint64_t arrived;
  bool answers = args.halves & CUDA_SEND, adds = args.halves & CUDA_RECV;
  uint32_t tid = threadIdx.x, lane = tid % WARP;
  ptx::kernel_wait();
  trace(args.trace, 0, tid == 0);
  scene_begin(scene, args.state, {false, false, answers, adds});
  trace(args.trace, 1, tid == 0);
  outbox<row_mail> outbox = {&ring, memory, args.layout.combine_stride, WORKERS, 0};
  if (tid >= WORKERS) {
    if (answers)
      run_courier(outbox, (tid - WORKERS) / WARP, [&](const row_mail &mail, const char *stage) {
        deliver(args, scene.counters.answered, mail, stage, lane);
      });
    trace(args.trace, 3, tid == WORKERS);
    return;
  }
  if (answers)
    answer(args, scene, outbox);
  trace(args.trace, 2, tid == 0);
  if (adds)
    for (uint32_t token = blockIdx.x; token < args.num_tokens; token += gridDim.x)
      add_up(args, scene, token, &arrived);
  trace(args.trace, 4, tid == 0);
  if (answers)
    outbox.close(tid == 0); // last: it waits for the couriers
}

} // namespace

int cuda_launch_combine(const struct cuda_combine_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  size_t memory = args->halves & CUDA_SEND ? COURIERS * (size_t)args->layout.combine_stride : 0;
  cudaError_t rc = cudaSuccess;
  if (memory > 40 * 1024)
    rc = cudaFuncSetAttribute((const void *)combine, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)memory);
  void *params[] = {(void *)args};
  if (rc == cudaSuccess)
    rc = launch((const void *)combine, params, blocks, BLOCK, memory, early, stream);
  return (int)rc;
}
