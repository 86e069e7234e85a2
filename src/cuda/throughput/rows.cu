// The rows of a dispatch. Some blocks send rows to other ranks; the others receive rows and copy this rank's own rows
// to their places. If the launch has one half only, all blocks do that half.
#include "cuda/throughput/launch.h"
#include "cuda/throughput/lost.cuh"
#include "cuda/throughput/receive.cuh"
#include "cuda/throughput/send.cuh"
#include "cuda/throughput/sizes.h"

namespace {

struct rows_launch {
  cuda_rows_args args;
  uint32_t senders; // number of sending blocks, which are the first ones
  uint32_t stage;   // bytes of a warp's
  // sending: warps that send in each sending block. receiving, owning: warps of each other block that receive, and that
  // copy own rows.
  uint32_t sending, receiving, owning;
};

template <bool CAST> struct caster {
  const cuda_rows_args &args;
  uint32_t scale_stride;
  __device__ __forceinline__ void put(const stage &stage, const mover_job &job, uint32_t begin, uint32_t count) const {
    if (CAST)
      cast_piece(stage.bytes, job, begin, count, args.flow.hidden / CUDA_BLOCK, args.shape.casts, scale_stride);
    else
      stage.store(job, begin, count);
  }
};

// Loads the data of the operation that this block needs, and the destinations of all tokens. [block]
__device__ __forceinline__ void begin_block(flow_kernel &kernel, const cuda_rows_args &args, bool sends) {
  begin_route(kernel, args.route);
  if (args.overlaps && threadIdx.x == 0)
    await_step(&args.op->ready, sends ? CUDA_READY_SENDING : CUDA_READY_ALL);
  __syncthreads();
  begin_op(kernel, args.state, args.op, kernel.route);
  if (args.overlaps && threadIdx.x == 0) {
    if (sends)
      kernel.rest = args.op;
    if (args.planners) // control may have been ready before the plan
      kernel.tokens = await_count(&args.op->planned, args.planners);
  }
  __syncthreads();
}

// The last block that ends checks whether all rows that the headers announced have arrived. [block]
__device__ __forceinline__ void end_block(const cuda_rows_args &args, flow_kernel &kernel, places_table &table,
                                          bool sends) {
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(args.workspace + ROWS_ENDED, 1) == gridDim.x - 1;
    __threadfence();
  }
  if (!__syncthreads_or(last))
    return;
  if (kernel.rest) // this block began before all headers had arrived
    begin_op(kernel, args.state, args.op, kernel.route);
  bool missing = false;
  if (threadIdx.x < DEVICE_SEATS) {
    uint32_t seat = threadIdx.x, *came = args.workspace + ROWS_CAME + seat;
    missing =
        has(kernel.op.seats, seat) && seat != kernel.op.self && *(volatile uint32_t *)came != kernel.op.rows[seat];
    if (missing) {
      mark_lost(args.state, seat); // the seat has given this rank up, or died
      ptx::set_bits(&args.op->lost, 1ull << seat);
    }
    *came = 0;
    if (seat == 0)
      args.workspace[ROWS_ENDED] = 0;
  }
  if (!__syncthreads_or(missing))
    return;
  if (sends) // this block did not need the table before
    make_places(args, kernel, table, gridDim.x);
  fill_lost(args, kernel, table);
}

// [block]
template <bool CAST, bool KEPT> __device__ __forceinline__ void run_rows_kernel(const rows_launch &launch) {
  extern __shared__ __align__(CUDA_LINE) char shared[];
  __shared__ flow_kernel kernel;
  __shared__ places_table table;
  const cuda_rows_args &args = launch.args;
  bool sends = blockIdx.x < launch.senders;
  begin_block(kernel, args, sends);
  uint64_t mine = 1ull << kernel.op.self, others = kernel.seats & ~mine;
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  channel_memory *memories = (channel_memory *)(shared + (size_t)ROWS_WARPS * launch.stage), &memory = memories[warp];
  stage stage(shared + (size_t)warp * launch.stage, memory.arrived);
  row_pieces given(args.shape.in_bytes, launch.stage), travelling(args.shape.value_bytes, launch.stage);
  begin_publishing(memory);
  __syncthreads();
  if (sends) {
    if (warp < launch.sending)
      run_rows<row_sender<CAST, KEPT>>(
          channel_share(0, launch.senders, 0, launch.sending), memory,
          [&](row_sender<CAST, KEPT> &role) {
            move_rows(role, stage, given, caster<CAST>{args, 1});
          },
          args, kernel);
    else if (warp == ROWS_WARPS - 1)
      publish_tails(kernel, args.flow, false, memories, launch.sending);
  } else {
    uint32_t blocks = gridDim.x - launch.senders;
    // If rows are cast, as many warps copy own rows as receive: a separate number would need one more register.
    uint32_t first = CAST ? ROWS_WARPS / 2 : launch.receiving, owning = CAST ? launch.receiving : launch.owning;
    channel_share receivers(launch.senders, blocks, 0, launch.receiving), owners(launch.senders, blocks, first, owning);
    // Only where measurements showed a gain: other cases take the same time, and for packed rows there are few senders,
    // which serve channels in several turns.
    if (CAST && args.layout == WEFT_EP_RANK_MAJOR)
      gather_channels(receivers.index, receivers.count, blocks);
    bool receives = warp < launch.receiving, owns = warp >= first && warp - first < owning;
    // Data sent before this operation is not read any more.
    if (receives)
      for (uint32_t c = receivers.index; c < CUDA_CHANNELS; c += receivers.count)
        for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP)
          if (has(others, seat))
            ptx::store_relaxed(&((cuda_flow_head *)kernel.op.out[seat])->rows[c].credit, kernel.op.op * args.flow.list);
    make_places(args, kernel, table, gridDim.x - 1);
    if (args.zero_padding && args.layout == WEFT_EP_PACKED)
      zero_padding(args, table, warp * (gridDim.x - launch.senders) + blockIdx.x - launch.senders,
                   blockDim.x / WARP * (gridDim.x - launch.senders), lane);
    uint64_t sources = 0;
    for (uint32_t i = 0; i < kernel.op.count; i++) {
      uint32_t seat = kernel.op.by_rank[i];
      sources |= (uint64_t)(kernel.op.rows[seat] > 0) << seat;
    }
    if (receives)
      run_rows<row_receiver<KEPT>>(
          receivers, memory, [&](row_receiver<KEPT> &role) { move_rows(role, stage, travelling, as_it_is()); }, args,
          kernel, table, sources & others);
    else if (owns)
      run_rows<own_rows<CAST, KEPT>>(
          owners, memory,
          [&](own_rows<CAST, KEPT> &role) {
            move_rows(role, stage, given, caster<CAST>{args, args.out_scale_block_stride});
          },
          args, kernel, table);
    if (KEPT)
      clear_absent(args, kernel, table, launch.senders);
  }
  if (launch.senders != gridDim.x) // false: no other blocks receive
    end_block(args, kernel, table, sends);
}

template <bool CAST, bool KEPT>
__global__ __launch_bounds__(ROWS_WARPS *WARP, 1) void rows_kernel(const __grid_constant__ rows_launch launch) {
  if (!launch.args.overlaps)
    ptx::await_previous();
  ptx::let_next();
  run_rows_kernel<CAST, KEPT>(launch);
  if (launch.args.overlaps)
    ptx::await_previous();
}

const void *kernel_of(bool casts, bool kept) {
  return casts  ? kept ? (const void *)rows_kernel<true, true> : (const void *)rows_kernel<true, false>
          : kept ? (const void *)rows_kernel<false, true>
                : (const void *)rows_kernel<false, false>;
}

} // namespace

size_t cuda_rows_workspace(const struct cuda_flow *flow, uint32_t blocks, uint32_t max_rows) {
  size_t places = (size_t)max_rows * flow->topk; // of one source
  return ROWS_PLACES * 4 + (size_t)blocks * places_words(flow->experts) * 4 + (places + 31) / 32 * 4;
}

// The number of sending blocks if a launch has both halves, from measurements on two to four GPUs. Eight to ten
// processors saturate the links; more of them slow each other down. With more ranks a token goes to more of them, so
// more blocks have to send packed rows. For RANK_MAJOR only as many send as saturate the links, since each rank
// receives more rows than it has tokens.
static uint32_t senders_of(uint32_t blocks, bool by_rank, bool casts, uint32_t ranks) {
  uint32_t senders, most = 16;
  if (!by_rank) // each row goes to several places, so receivers take longer
    senders = ranks > 3    ? (blocks + 1) / 3
              : ranks == 3 ? blocks / 4
                           : (blocks < 24 ? (blocks + 4) / 6 : 4 + (blocks - 24) * 3 / 10);
  else if (casts || (blocks > 26 && ranks > 2)) // if rows are cast, warps that copy own rows have more work
    senders = blocks * 3 / 8;
  else {
    senders = (5 * blocks + 4) / 12;
    most = ranks > 3 ? 8 : ranks == 3 ? 9 : 10;
  }
  return senders < 1 ? 1 : senders > most ? most : senders;
}

// Assigns each block's warps. All turns of the senders have the same size, and all turns of the receivers. For
// RANK_MAJOR senders and receivers have the same number of turns, so that no row waits for a later turn of a reader;
// the remaining warps copy own rows, since nobody waits for these. If rows are cast, every warp gets work, since the
// cast needs all warps.
static void share_warps(rows_launch &launch, uint32_t blocks) {
  uint32_t senders = launch.senders, others = blocks - senders, half = ROWS_WARPS / 2;
  launch.sending = ROWS_WARPS - 1;
  launch.receiving = launch.owning = half;
  if (launch.args.shape.casts)
    return;
  bool by_rank = senders > 0 && launch.args.layout == WEFT_EP_RANK_MAJOR; // and both halves
  uint32_t turns = turns_of(senders, ROWS_WARPS - 1);
  launch.sending = warps_of(senders, turns);
  // otherwise too few warps would remain for own rows
  bool alike = by_rank && warps_of(others, turns) <= ROWS_WARPS * 3 / 4;
  launch.receiving = warps_of(others, alike ? turns : turns_of(others, half));
  launch.owning = warps_of(others, turns_of(others, by_rank ? ROWS_WARPS - launch.receiving : half));
}

int cuda_launch_rows(const struct cuda_rows_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  rows_launch launch_args;
  launch_args.args = *args;
  cuda_rows_args &a = launch_args.args;
  uint32_t scales = a.shape.scale_words;
  a.row_stride = a.row_stride ? a.row_stride : a.shape.in_bytes;
  a.scale_row_stride = a.scale_row_stride ? a.scale_row_stride : scales;
  a.scale_block_stride = a.scale_block_stride ? a.scale_block_stride : 1;
  a.out_scale_row_stride = a.out_scale_row_stride ? a.out_scale_row_stride : scales;
  a.out_scale_block_stride = a.out_scale_block_stride ? a.out_scale_block_stride : 1;
  if (!a.out_scale_expert_stride)
    a.out_scale_expert_stride = (uint64_t)a.rows * scales; // dense, whatever the stride of rows, as with LATENCY
  a.alignment = a.alignment ? a.alignment : 1;
  bool sends = a.halves & DEVICE_SEND, receives = a.halves & DEVICE_RECV;
  launch_args.senders = !receives ? blocks
                        : sends   ? senders_of(blocks, a.layout == WEFT_EP_RANK_MAJOR, a.shape.casts, a.ranks)
                                  : 0;
  share_warps(launch_args, blocks);
  // As large as there is room for, at most a row of 7168 bytes.
  uint32_t each = stages_room(ROWS_WARPS) / ROWS_WARPS / STAGE_UNIT * STAGE_UNIT;
  launch_args.stage = each < 7168 ? each : 7168;
  void *params[] = {&launch_args};
  return launch(kernel_of(a.shape.casts, a.kept), params, blocks, ROWS_WARPS * WARP,
                ROWS_WARPS * (launch_args.stage + sizeof(channel_memory)), early, stream);
}

int cuda_load_rows(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (int i = 0; rc == cudaSuccess && i < 4; i++)
    rc = load(kernel_of(i & 1, i & 2), early);
  return rc;
}
