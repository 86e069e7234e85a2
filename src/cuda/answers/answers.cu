// The answers of a combine: some blocks send answers, the others add up the answers for this rank's tokens.
#include "cuda/answers/add.cuh"
#include "cuda/answers/answer.cuh"
#include "cuda/answers/share.cuh"
#include "cuda/answers/warp_group.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"

namespace {

struct answers_launch {
  cuda_answers_args args;
  answers_share share;
};

template <bool RING> struct summer {
  uint32_t bytes;
  bool as_it_is; // the sum of a single row is the row itself, so it is copied
  __device__ __forceinline__ void operator()(const mover_job &job, mover_share share) const {
    if (as_it_is && job.inputs == 1)
      move_row<14, RING>(job, bytes, share);
    else
      add_job<RING>(job, bytes, share);
  }
};

// For answers that are encoded as logfmt10.
struct coder {
  uint32_t hidden;
  uint64_t mine;
  __device__ __forceinline__ void operator()(const mover_job &job, mover_share share) const {
    code_job(job, hidden, job.seats != mine, share);
  }
};
struct decoder {
  uint32_t hidden;
  __device__ __forceinline__ void operator()(const mover_job &job, mover_share share) const {
    add_coded_job(job, hidden, share);
  }
};

template <bool RANK_MAJOR, bool CODED>
__global__ __launch_bounds__(ANSWERS_WARPS *WARP,
                             1) void answers_kernel(const __grid_constant__ answers_launch launch) {
  extern __shared__ channel_memory memory[];
  __shared__ flow_kernel kernel;
  const cuda_answers_args &args = launch.args;
  ptx::kernel_wait();
  begin_flow(kernel, args.state, args.op, args.route);
  uint64_t mine = 1ull << kernel.op.self, others = RANK_MAJOR ? kernel.seats & ~mine : kernel.seats;
  uint32_t bytes = 2 * args.flow.hidden;
  if (blockIdx.x < launch.share.answerers) {
    warp_group group(0, launch.share.answerers, 0, launch.share.answers.warps, launch.share.answers.group);
    if (group.works && CODED)
      run_channels<answerer>(group, memory, coder{args.flow.hidden, mine}, args, kernel, others);
    else if (group.works)
      run_channels<answerer>(group, memory, summer<false>{bytes, RANK_MAJOR}, args, kernel, others);
    return;
  }
  warp_group group(launch.share.answerers, gridDim.x - launch.share.answerers, 0, launch.share.adds.warps,
                   launch.share.adds.group);
  if (!group.works)
    return;
  if (group.warp == 0)
    for (uint32_t c = group.index; c < CUDA_CHANNELS; c += group.count)
      for (uint32_t seat = threadIdx.x % WARP; seat < DEVICE_SEATS; seat += WARP)
        if (has(others, seat)) {
          cuda_flow_word *word = &((cuda_flow_head *)kernel.op.out[seat])->answers[c];
          ptx::store_relaxed(CODED ? &word->coded_credit : &word->credit, kernel.op.answer * args.flow.list);
        }
  if (CODED)
    run_channels<adder<false>>(group, memory, decoder{args.flow.hidden}, args, kernel);
  else
    run_channels<adder<false>>(group, memory, summer<true>{bytes, false}, args, kernel);
}

// Index: whether rows are RANK_MAJOR; whether answers are coded.
const void *const answers_kernels[2][2] = {
    {(const void *)answers_kernel<false, false>, (const void *)answers_kernel<false, true>},
    {(const void *)answers_kernel<true, false>, (const void *)answers_kernel<true, true>}};

} // namespace

int cuda_launch_answers(const struct cuda_answers_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  // Measured: with more processors than that, several warps for each channel take less time than one.
  if (args->rank_major && !args->coded && (blocks < 48 || args->zero_copy.bytes > 0))
    return cuda_launch_by_rank(args, blocks, early, stream);
  answers_launch launch_args;
  launch_args.args = *args;
  float work = (float)args->flow.hidden / 7168.0f;
  float rows = args->ranks > 0 && args->flow.topk > args->ranks ? (float)args->flow.topk / (float)args->ranks : 1;
  bool sends = args->halves & DEVICE_SEND, receives = args->halves & DEVICE_RECV;
  answers_share &share = launch_args.share;
  if (!receives)
    share = {
        blocks, args->rank_major ? flow_role_of(blocks, ANSWERS_WARPS, work) : answers_alone(blocks, rows * work), {}};
  else if (!sends)
    share = {0, {}, flow_role_of(blocks, ANSWERS_WARPS, 1.5f * work)};
  else if (!args->rank_major)
    share = share_answers(blocks, args->ranks, rows * work);
  else // the caller has already added the rows up, and both ends move the same amount
    share = {blocks / 2, flow_role_of(blocks / 2, ANSWERS_WARPS, work),
             flow_role_of(blocks - blocks / 2, ANSWERS_WARPS, 1.5f * work)};
  void *params[] = {&launch_args};
  return launch(answers_kernels[args->rank_major][args->coded], params, blocks, ANSWERS_WARPS * WARP,
                flow_memory(ANSWERS_WARPS), early, stream);
}

static int load_answers(bool *early) {
  cudaError_t rc = cudaSuccess;
  for (int i = 0; i < 4 && rc == cudaSuccess; i++)
    rc = load(answers_kernels[i / 2][i % 2], early);
  return rc == cudaSuccess ? cuda_load_by_rank(early) : rc;
}

int cuda_load_throughput(bool *early) {
  int rc = cuda_load_plan(early);
  rc = rc ? rc : cuda_load_rows(early);
  return rc ? rc : load_answers(early);
}
