// The answers of a combine of RANK_MAJOR rows, which the caller has added up, on few processors: one warp for each
// channel. Answers are copied through the warp's stage unchanged, and sums are computed there.
#include "cuda/answers/add.cuh"
#include "cuda/answers/answer.cuh"
#include "cuda/answers/sum.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"

namespace {

// The number of working warps of a block, and the bytes of their stages.
struct part {
  uint32_t warps, stage;
};

struct by_rank_launch {
  cuda_answers_args args;
  uint32_t answerers; // number of answering blocks, which are the first ones
  part answers, adds;
  part in_place; // for all blocks, which all add, if there is nothing to answer
};

// An answerer in a block that has a publisher (publisher.cuh).
struct published_answerer : answerer {
  static constexpr bool WRITES = true;
  using answerer::answerer;
  __device__ __forceinline__ void finished(const mover_job &job, bool) { channel.count_arrived(job.seats); }
  __device__ __forceinline__ void flush() { channel.settle(); }
  // [warp]
  __device__ __forceinline__ void end() {
    channel.settle();
    await_relays();
    end_channel(channel.memory, sources & ~channel.dropped);
  }
};

// ZERO_COPY: the ranks of the group have zero-copy memory.
template <bool ZERO_COPY>
__global__ __launch_bounds__(ANSWERS_WARPS *WARP,
                             1) void by_rank_kernel(const __grid_constant__ by_rank_launch launch) {
  extern __shared__ __align__(CUDA_LINE) char shared[];
  __shared__ flow_kernel kernel;
  const cuda_answers_args &args = launch.args;
  ptx::kernel_wait();
  uint64_t mapped = ZERO_COPY ? mapped_zero_copy(args.state, args.zero_copy) : 0;
  begin_flow(kernel, args.state, args.op, args.route);
  // y has no more rows than the caller says, and the route has places for no more than its max_rows.
  const bool in_place = ZERO_COPY && begin_in_place(kernel, args.zero_copy, mapped) &&
                        kernel.rows <= min(args.rows, kernel.route.max_rows);
  uint64_t others = kernel.seats & ~(1ull << kernel.op.self);
  uint32_t bytes = 2 * args.flow.hidden, warp = threadIdx.x / WARP;
  uint32_t answerers = in_place ? 0 : launch.answerers;
  bool answers = blockIdx.x < answerers;
  part part = in_place ? launch.in_place : answers ? launch.answers : launch.adds;
  channel_memory *memories = (channel_memory *)shared, &memory = memories[warp];
  char *place = shared + ANSWERS_WARPS * sizeof(channel_memory) + (size_t)warp * part.stage;
  begin_publishing(memory);
  if (!answers)
    begin_sums(memory);
  __syncthreads();
  if (answers && warp == ANSWERS_WARPS - 1) {
    publish_tails(kernel, args.flow, true, memories, part.warps);
  } else if (answers && warp < part.warps) {
    channel_share share(0, answerers, 0, part.warps);
    stage stage(place, memory.arrived);
    row_pieces pieces(bytes, part.stage);
    run_rows<published_answerer>(
        share, memory, [&](published_answerer &role) { move_rows(role, stage, pieces, as_it_is()); }, args, kernel,
        others);
  } else if (!answers && warp < part.warps) {
    channel_share share(answerers, gridDim.x - answerers, 0, part.warps);
    gather_channels(share.index, share.count, gridDim.x - answerers);
    for (uint32_t c = share.index; c < CUDA_CHANNELS; c += share.count)
      for (uint32_t seat = threadIdx.x % WARP; seat < DEVICE_SEATS; seat += WARP)
        if (has(others, seat))
          ptx::store_relaxed(&((cuda_flow_head *)kernel.op.out[seat])->answers[c].credit,
                             kernel.op.answer * args.flow.list);
    for (uint32_t c = share.index; in_place && c < CUDA_CHANNELS; c += share.count)
      show_places(args, kernel, memory, c, others);
    uint32_t added = 0;
    run_rows<adder<ZERO_COPY>>(
        share, memory,
        [&](adder<ZERO_COPY> &role) {
          do
            sum_rows(role, place, part.stage / SUM_SLOTS, bytes, added);
          while (role.begins_again());
        },
        args, kernel);
    for (uint32_t c = share.index; in_place && c < CUDA_CHANNELS; c += share.count)
      await_places_read(args, kernel, memory, c, others);
  }
}

} // namespace

// The part of each of `blocks` blocks. Fewer warps have larger stages. Adding lanes may read up to five lines beyond a
// line.
static part part_of(uint32_t blocks, uint32_t turns, uint32_t room) {
  uint32_t warps = warps_of(blocks, turns), unit = SUM_SLOTS * STAGE_UNIT;
  return {warps, warps == 0 ? 0 : (room - 5 * STAGE_UNIT) / warps / unit * unit};
}

// The number of answering blocks if a launch has both halves, from measurements: with more ranks each rank adds more
// rows than it has tokens, and eight or nine blocks saturate the links.
static uint32_t answering(uint32_t blocks, uint32_t ranks) {
  uint32_t half = blocks > 1 ? blocks / 2 : 1, most = ranks > 3 ? 8 : ranks == 3 ? 9 : half;
  return half < most ? half : most;
}

int cuda_launch_by_rank(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  by_rank_launch launch_args;
  launch_args.args = *args;
  uint32_t answerers = answerers_of(*args, blocks, answering(blocks, args->ranks)), room = stages_room(ANSWERS_WARPS);
  launch_args.answerers = answerers;
  // Both ends have the same number of turns, so that no adding warp waits for a channel that is answered in a later
  // turn. The number is the one that the answering blocks need; if there are both, these are never more than the adding
  // blocks. The last warp is the publisher.
  uint32_t adders = blocks - answerers, turns = turns_of(answerers ? answerers : adders, ANSWERS_WARPS - 1);
  launch_args.answers = part_of(answerers, turns, room);
  launch_args.adds = part_of(adders, turns, room);
  launch_args.in_place = part_of(blocks, turns_of(blocks, ANSWERS_WARPS), room);
  void *params[] = {&launch_args};
  return launch(args->zero_copy.bytes > 0 ? (const void *)by_rank_kernel<true> : (const void *)by_rank_kernel<false>,
                params, blocks, ANSWERS_WARPS * WARP, ANSWERS_WARPS * sizeof(channel_memory) + room, early, stream);
}

int cuda_load_by_rank(bool *early) {
  int rc = load((const void *)by_rank_kernel<false>, early);
  return rc ? rc : load((const void *)by_rank_kernel<true>, early);
}
