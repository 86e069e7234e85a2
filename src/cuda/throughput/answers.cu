// The answers of a combine: some blocks answer, the others add up what this rank's tokens get.
#include "cuda/throughput/add.cuh"
#include "cuda/throughput/answer.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"
#include "cuda/throughput/sum.cuh"

namespace {

struct answers_launch {
  cuda_answers_args args;
  uint32_t answerers; // blocks, the first ones
  flow_part answers, adds;
};

template <bool RANK_MAJOR>
__global__ __launch_bounds__(ANSWERS_WARPS *WARP, 1) void answers_kernel(const __grid_constant__ answers_launch launch) {
  extern __shared__ __align__(CUDA_LINE) char shared[];
  __shared__ flow_kernel kernel;
  const cuda_answers_args &args = launch.args;
  ptx::kernel_wait();
  begin_flow(kernel, args.state, args.op, args.route);
  uint64_t mine = 1ull << kernel.op.self, others = RANK_MAJOR ? kernel.seats & ~mine : kernel.seats;
  uint32_t bytes = 2 * args.flow.hidden;
  uint32_t warp = threadIdx.x / WARP;
  channel_memory *memories = (channel_memory *)shared, &memory = memories[warp];
  bool answers = blockIdx.x < launch.answerers;
  flow_part part = answers ? launch.answers : launch.adds;
  char *place = shared + ANSWERS_WARPS * sizeof(channel_memory) + (size_t)warp * part.stage;
  begin_telling(memory);
  __syncthreads();
  if (answers && warp == ANSWERS_WARPS - 1) {
    tell_readers(kernel, args.flow, true, memories, part.warps);
  } else if (warp >= part.warps) {
    return;
  } else if (answers) {
    channel_share share(0, launch.answerers, 0, part.warps);
    stage stage(place, &memory.arrived, part.stage);
    run_channels<answerer>(
        share, memory,
        [&](answerer &role) {
          if (RANK_MAJOR)
            move_rows(role, stage, row_pieces(bytes, part.stage), as_it_is());
          else
            sum_rows(role, place, part.stage / SUM_SLOTS, bytes);
        },
        args, kernel, others);
  } else {
    channel_share share(launch.answerers, gridDim.x - launch.answerers, 0, part.warps);
    for (uint32_t c = share.index; c < CUDA_CHANNELS; c += share.count)
      for (uint32_t seat = threadIdx.x % WARP; seat < DEVICE_SEATS; seat += WARP)
        if (has(others, seat))
          ptx::store_relaxed(&((cuda_flow_head *)kernel.op.out[seat])->answers[c].credit,
                             kernel.op.op * args.flow.list);
    run_channels<adder>(share, memory, [&](adder &role) { sum_rows(role, place, part.stage / SUM_SLOTS, bytes); }, args, kernel);
  }
}

} // namespace

int cuda_launch_answers(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  answers_launch launch_args;
  launch_args.args = *args;
  // The experts' rows of a token are many more than its answers; where they have been added up, both ends move as much.
  // Of those, 16 of 24 processors and 48 of 64 answer: so channels go round in three and in two turns without rest.
  uint32_t first = args->rank_major ? blocks / 2 : blocks < 48 ? blocks * 2 / 3 : blocks * 3 / 4;
  launch_args.answerers = first ? first : 1;
  uint32_t room = flow_room(ANSWERS_WARPS);
  launch_args.answers = flow_part_of(launch_args.answerers, ANSWERS_WARPS - 1, room);
  launch_args.adds = flow_part_of(blocks - launch_args.answerers, ANSWERS_WARPS, room);
  void *params[] = {&launch_args};
  const void *kernel = args->rank_major ? (const void *)answers_kernel<true> : (const void *)answers_kernel<false>;
  return launch(kernel, params, blocks, ANSWERS_WARPS * WARP, flow_memory(ANSWERS_WARPS, room), early,
                stream);
}

int cuda_load_answers(bool *early) {
  cudaError_t rc = load((const void *)answers_kernel<true>, early);
  return rc == cudaSuccess ? load((const void *)answers_kernel<false>, early) : rc;
}
