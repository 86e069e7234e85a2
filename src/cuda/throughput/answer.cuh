// The experts' end of a channel of answers: one row for each pair that came, to the ring of its source.
#ifndef CUDA_THROUGHPUT_ANSWER_CUH
#define CUDA_THROUGHPUT_ANSWER_CUH

#include "cuda/throughput/channel.cuh"

// A ring's place: bf16 values | with row weights, K of f32 at the places of the top-k. This rank's own answers go
// through a ring as well, but for rows by rank, which are read where they lie.
template <bool SUMS> struct answerer {
  struct channel channel;
  const cuda_answers_args &args;
  const flow_kernel &kernel;
  uint32_t last;    // source of the newest job
  uint32_t left[2]; // rows that came from seats `lane` and `lane` + 32
  uint32_t foot;    // bytes

  __device__ __forceinline__ answerer(const cuda_answers_args &args, const flow_kernel &kernel, pump &pump,
                                      uint32_t index, uint64_t sources)
      : channel(kernel, args.flow, true, args.state, *pump.memory, index), args(args), kernel(kernel), last(63),
        foot(args.row_weights ? cuda_round_up(4 * args.topk, 16) : 0) {
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      left[h] = has(sources, seat) ? kernel.route.came[seat * CUDA_CHANNELS + index] : 0;
    }
  }

  __device__ __forceinline__ found_job find(pump &pump, pump_job &job, uint32_t number) {
    uint32_t lane = channel.lane, K = args.topk;
    bool more[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      more[h] = channel.memory.sent[lane + h * WARP] < left[h];
    uint64_t open = seats_of(more[0], more[1]) & ~channel.dropped;
    if (!open)
      return JOB_NONE;
    uint64_t found = open & ~channel.full(open);
    if (!found)
      return JOB_WAITS;
    uint32_t seat = last = next_seat(found, last), nth = channel.memory.sent[seat];
    uint32_t pair = (uint32_t)kernel.route
                        .order[((size_t)seat * CUDA_CHANNELS + channel.index) * args.flow.list + nth];
    int32_t place = -1;
    float weight = 1.0f;
    size_t at = (size_t)pair * K + lane;
    bool known = pair < kernel.route.max_rows && lane < K;
    if (known) {
      place = kernel.route.place[at];
      weight = args.rank_major || args.unweighted ? 1.0f : kernel.route.weight[at];
    }
    uint32_t valid = __ballot_sync(~0u, place >= 0);
    if (args.rank_major) // the caller has added them up
      valid &= 0u - valid;
    if (valid >> lane & 1) {
      uint32_t i = __popc(valid & ((1u << lane) - 1));
      job.input[i] = (const char *)args.y + (uint64_t)(uint32_t)place * pump.shape.in_row;
      job.weight[i] = weight;
    }
    if (lane == 0) {
      job.inputs = max(__popc(valid), 1);
      job.step = valid ? pump.shape.in_packet : 0;
      if (!valid)
        job.input[0] = (const char *)pump_zeros;
      if (!valid)
        job.weight[0] = 0.0f;
      job.factor_at = 0;
      job.output[0] = channel.place(kernel.op.out[seat], nth);
      job.remote = job.outputs = 1;
      job.seats = 1ull << seat;
      job.foot = number % PUMP_FEET;
      channel.memory.sent[seat] = nth + 1;
    }
    if (foot) {
#if __CUDA_ARCH__ >= 900
      if (lane == 0)
        ptx::bulk_wait_read_but<2>(); // four jobs ago the foot was another's
      __syncwarp();
#endif
      if (lane < K)
        ((float *)pump.foot(number % PUMP_FEET))[lane] = known && place >= 0 ? args.row_weights[at] : 0.0f;
      pump::settle();
    }
    __syncwarp();
    return JOB_READY;
  }

  template <typename MORE>
  __device__ __forceinline__ void work(pump &pump, const pump_job &job, uint32_t &ready, MORE more) {
    auto last = [&]() {
      if (foot)
        pump.store_feet(job, foot);
    };
    if (SUMS)
      pump.sum(job, ready, more, last);
    else
      pump.pass(job, ready, more, last);
  }
  __device__ __forceinline__ void finished(pump &pump, const pump_job &job) {
    channel.count_row(pump, pump.shape.packets * job.inputs, job.seats);
  }
  __device__ __forceinline__ void flush(pump &pump) {
    pump.await_stores(0);
    channel.tell();
  }
  // [warp]
  __device__ __forceinline__ void end(pump &pump, uint64_t sources) {
    pump.await_stores(0);
    channel.close(sources & ~channel.dropped);
  }
};

#endif
