// The experts' end of a channel of answers: sends one row for each pair that arrived, to the ring of its source.
#ifndef CUDA_ANSWERS_ANSWER_CUH
#define CUDA_ANSWERS_ANSWER_CUH

#include "cuda/throughput/channel.cuh"

// A ring's place: bf16 values, or their code in the same room | with row weights: K of f32, at the places of the top-k.
// This rank's own answers also use a ring, except for RANK_MAJOR rows, which are read in place.
struct answerer {
  struct channel channel;
  const cuda_answers_args &args;
  const flow_kernel &kernel;
  uint32_t last;    // source of the newest job
  uint32_t left[2]; // rows that arrived from seats `lane` and `lane` + 32
  uint64_t sources;

  __device__ __forceinline__ answerer(channel_memory &memory, uint32_t index, const cuda_answers_args &args,
                                      const flow_kernel &kernel, uint64_t sources)
      : channel(kernel, args.flow, true, args.state, memory, index), args(args), kernel(kernel), last(63),
        sources(sources) {
    channel.words += args.coded ? offsetof(cuda_flow_word, coded_tail) : 0;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      left[h] = has(sources, seat) ? kernel.route.came[seat * CUDA_CHANNELS + index] : 0;
    }
  }

  __device__ __forceinline__ found_job find(mover_job &job) {
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
    uint32_t pair = (uint32_t)kernel.route.order[((size_t)seat * CUDA_CHANNELS + channel.index) * args.flow.list + nth];
    int32_t place = -1;
    float weight = 1.0f;
    size_t at = (size_t)pair * K + lane;
    bool known = pair < kernel.route.max_rows && lane < K;
    if (known) {
      // RANK_MAJOR rows have the numbers of their pairs, so that no look-up is needed.
      place = args.rank_major ? (int32_t)pair : kernel.route.place[at];
      if ((uint32_t)place >= args.rows) // a graph that filled the route may have had a larger buffer
        place = -1;
      weight = args.rank_major || args.unweighted ? 1.0f : kernel.route.weight[at];
    }
    uint32_t valid = __ballot_sync(~0u, place >= 0);
    if (args.rank_major) // the caller has already added them up
      valid &= 0u - valid;
    if (valid >> lane & 1) {
      uint32_t i = __popc(valid & ((1u << lane) - 1));
      job.input[i] = (const char *)args.y + (uint64_t)(uint32_t)place * 2 * args.flow.hidden;
      job.weight[i] = weight;
#if __CUDA_ARCH__ >= 900
      if (!args.rank_major) // the warp group's consumers still work on the previous job
        ptx::prefetch_bulk(job.input[i], 2 * args.flow.hidden);
#endif
    }
    char *to = channel.place(kernel.op.out[seat], nth);
    if (args.row_weights && lane < K)
      ((float *)(to + 2 * args.flow.hidden))[lane] =
          known && place >= 0 ? args.row_weights[args.rank_major ? at : (size_t)place] : 0.0f;
    __syncwarp();
    if (lane == 0) {
      job.inputs = __popc(valid);
      job.factor_at = 0;
      job.output[0] = to;
      job.outputs = 1;
      job.seats = 1ull << seat;
      channel.memory.sent[seat] = nth + 1;
    }
    __syncwarp();
    return JOB_READY;
  }
  __device__ __forceinline__ void place(mover_job &) {}

  __device__ __forceinline__ void finished(const mover_job &job, bool more) {
    channel.count_row(job.seats, more);
  }
  __device__ __forceinline__ void flush() {
    channel.publish();
  }
  // Readers know how many answers to expect, and do not need a tail any more when a later one has been written. A relay
  // needs it: it collects everything before the tail that it sees. [warp]
  __device__ __forceinline__ void await_relays() {
    if (ptx::load_volatile(&args.state->control.strict))
      await_readers(channel, sources);
  }
  // [warp]
  __device__ __forceinline__ void end() {
    await_relays();
    channel.close(sources & ~channel.dropped);
  }
};

#endif
