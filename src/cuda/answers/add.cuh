// The source's end of a channel of answers: adds up the answers for each token, in the order of ranks.
#ifndef CUDA_ANSWERS_ADD_CUH
#define CUDA_ANSWERS_ADD_CUH

#include "cuda/answers/coded.cuh"
#include "cuda/answers/in_place.cuh"

// IN_PLACE: answers may lie in the senders' zero-copy memory.
template <bool IN_PLACE> struct adder {
  static constexpr bool WRITES = false; // to a ring
  struct channel channel;
  const cuda_answers_args &args;
  const flow_kernel &kernel;
  token_walk walk;
  uint64_t mine;  // this rank's own seat, as a bit, if its own rows are read in place
  uint64_t shut;  // seats from which nothing arrives
  uint64_t ended; // seats that should send more, but will not
  // The next token, loaded early.
  bool loaded;
  uint32_t token;
  uint64_t sent;
  cuda_way way;
  placed_answers placed;

  __device__ __forceinline__ adder(channel_memory &memory, uint32_t index, const cuda_answers_args &args,
                                   const flow_kernel &kernel)
      : channel(kernel, args.flow, true, args.state, memory, index), args(args), kernel(kernel),
        walk(kernel.route.seats, index, kernel.tokens, true), mine(args.rank_major ? 1ull << kernel.op.self : 0),
        shut(~kernel.seats), ended(0) {
    channel.words += args.coded ? offsetof(cuda_flow_word, coded_tail) : 0;
    load();
  }

  __device__ __forceinline__ found_job find(mover_job &job) {
    uint32_t lane = channel.lane;
    if (!loaded)
      return JOB_NONE;
    if (IN_PLACE)
      ended |= placed.look(args, kernel, channel, sent & ~(shut | ended | mine | channel.dropped));
    uint64_t over, wanted = sent & ~(shut | ended | mine), came = channel.there(wanted & ~channel.dropped, &over);
    ended |= over;
    // Seats that are not awaited any more contribute nothing. An answer that has arrived counts, even if its rank was
    // lost later.
    if (wanted & ~(came | channel.dropped | ended))
      return JOB_WAITS;
    ended |= wanted & ~came; // a gap: later answers belong to other tokens
    uint32_t seat = way.row == CUDA_WAY_NONE ? DEVICE_SEATS : way.row >> CUDA_WAY_SEAT;
    uint64_t has_row = came | (sent & mine & ~shut);
    if (IN_PLACE && seat < DEVICE_SEATS) // the numbers of the token's rows, in memory that only writers need
      channel.memory.row[seat] = way.row & ((1u << CUDA_WAY_SEAT) - 1);
    __syncwarp();
    uint32_t inputs = list_answers(job, way, seat, has_row, lane);
    finish_job(job, token, way, seat, sent, has_row, inputs, lane);
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      channel.memory.sent[lane + h * WARP] += has(came, lane + h * WARP);
    if (lane == 0)
      job.seats = came;
    __syncwarp();
    load();
    return JOB_READY;
  }

  // Loads the data of the next token. [warp]
  __device__ __forceinline__ void load() {
    loaded = walk.look(&token, &sent);
    if (!loaded)
      return;
    walk.take();
    way = {CUDA_WAY_NONE, 0};
    if (channel.lane < args.topk) {
      uint2 both = __ldg((const uint2 *)(kernel.route.ways + (size_t)token * args.topk + channel.lane));
      way = {both.x, both.y};
    }
  }

  // Lists the answers in the order of ranks. Returns their number. [warp]
  __device__ __forceinline__ uint32_t list_answers(mover_job &job, cuda_way way, uint32_t seat, uint64_t has_row,
                                                   uint32_t lane) {
    const char *own = nullptr;
    if (has_row & mine) {
      uint32_t first = __ffs((int)__ballot_sync(~0u, seat == kernel.op.self)) - 1;
      uint32_t row = __shfl_sync(~0u, way.row, first) & ((1u << CUDA_WAY_SEAT) - 1);
      uint32_t pair = kernel.row_base[kernel.op.self] + row;
      if (pair < args.rows)
        own = (const char *)args.y + (uint64_t)pair * 2 * args.flow.hidden;
    }
    uint32_t inputs = 0;
#pragma unroll 1
    for (uint32_t begin = 0; begin < kernel.op.count; begin += WARP) {
      uint32_t i = begin + lane, at = i < kernel.op.count ? kernel.op.by_rank[i] : DEVICE_SEATS;
      bool self = at == kernel.op.self && mine;
      bool here = at < DEVICE_SEATS && has(has_row, at) && (!self || own);
      uint32_t all = __ballot_sync(~0u, here), nth = inputs + __popc(all & ((1u << lane) - 1));
      const char *in_place = IN_PLACE ? placed_answers::of(placed.rows, at) : nullptr;
      if (here && nth < CUDA_MAX_TOPK) {
        job.input[nth] = self       ? own
                         : in_place ? in_place + (uint64_t)channel.memory.row[at] * 2 * args.flow.hidden
                                    : channel.place(kernel.op.in[at], channel.memory.sent[at]);
        job.weight[nth] = 1.0f;
      }
      if (args.coded)
        list_coded(job, nth, here, at == kernel.op.self, begin == 0);
      inputs += __popc(all);
    }
    return min(inputs, (uint32_t)CUDA_MAX_TOPK);
  }

  // Lists which of the answers are coded: all except this rank's own. [warp]
  __device__ __forceinline__ void list_coded(mover_job &job, uint32_t nth, bool here, bool self, bool first) {
    uint32_t coded = __reduce_or_sync(~0u, here && !self && nth < CUDA_MAX_TOPK ? 1u << nth : 0);
    if (channel.lane == 0)
      coded_inputs(job) = coded | (first ? 0 : coded_inputs(job));
  }

  // Completes a job: its destination, biases, weights and missing contributions. [warp]
  __device__ __forceinline__ void finish_job(mover_job &job, uint32_t token, cuda_way way, uint32_t seat, uint64_t sent,
                                             uint64_t has_row, uint32_t inputs, uint32_t lane) {
    uint32_t K = args.topk, answers = inputs;
    uint64_t row = (uint64_t)token * 2 * args.flow.hidden;
    float factor = 1.0f;
    if (args.renormalize)
      factor = make_up(token, seat, has_row, lane);
    bool weighed = seat < DEVICE_SEATS && has(has_row, seat);
    const char *rows = IN_PLACE && args.out_weights ? placed_answers::of(placed.rows, seat) : nullptr,
               *weights = IN_PLACE && args.out_weights ? placed_answers::of(placed.weights, seat) : nullptr;
    if (args.out_weights && lane < K) {
      float weight = 0.0f;
      if (weighed && seat == kernel.op.self && mine) {
        uint32_t pair = kernel.row_base[seat] + (way.row & ((1u << CUDA_WAY_SEAT) - 1));
        weight = pair < args.rows ? args.row_weights[(size_t)pair * K + lane] : 0.0f;
      } else if (weighed && rows) {
        uint64_t row = channel.memory.row[seat];
        weight = weights ? __uint_as_float(ptx::load_volatile((const uint32_t *)weights + row * K + lane)) : 0.0f;
      } else if (weighed) {
        weight = __uint_as_float(ptx::load_volatile(
            (const uint32_t *)(channel.place(kernel.op.in[seat], channel.memory.sent[seat]) + 2 * args.flow.hidden) +
            lane));
      }
      args.out_weights[(size_t)token * K + lane] = weight;
    }
    __syncwarp();
    if (lane != 0)
      return;
    args.missing[token] = sent & ~has_row;
#pragma unroll
    for (int b = 0; b < 2; b++)
      if (args.bias[b]) {
        job.input[inputs] = (const char *)args.bias[b] + row;
        job.weight[inputs++] = 1.0f;
      }
    job.inputs = inputs;
    job.factor = factor;
    job.factor_at = args.renormalize ? answers : 0;
    job.output[0] = (char *)args.out + row;
    job.outputs = 1;
  }

  __device__ __forceinline__ int32_t selection(uint32_t token, uint32_t k) const {
    size_t at = (size_t)token * args.topk + k;
    return args.narrow ? ((const int32_t *)args.topk_idx)[at] : (int32_t)((const int64_t *)args.topk_idx)[at];
  }
  // (sum of all weights) / (sum of the weights whose rows arrived) of a token; without weights each selection counts as
  // 1. [warp]
  __device__ __noinline__ float make_up(uint32_t token, uint32_t seat, uint64_t has_row, uint32_t lane) const {
    bool selected = lane < args.topk && selection(token, lane) >= 0;
    float weight = selected ? 1.0f : 0.0f;
    if (selected && args.topk_weights)
      weight = args.topk_weights[(size_t)token * args.topk + lane];
    float there = seat < DEVICE_SEATS && has(has_row, seat) ? weight : 0.0f;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      weight += __shfl_xor_sync(~0u, weight, step);
      there += __shfl_xor_sync(~0u, there, step);
    }
    return there != 0.0f ? weight / there : 1.0f;
  }

  __device__ __forceinline__ void finished(const mover_job &job, bool) {
    // The rows of the job have been read, and no further rows of these seats before the next job.
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      if (has(job.seats, seat) && !(IN_PLACE && placed.rows[h])) // for answers in place credit is given at the end
        channel.give_credit(seat, channel.base + ++channel.memory.written[seat]);
    }
  }
  __device__ __forceinline__ void flush() {}
  // Gives credit in both words, since the next answers may be coded or not.
  __device__ __forceinline__ void give_all(uint32_t seat) const {
    cuda_flow_word &word = ((cuda_flow_head *)kernel.op.out[seat])->answers[channel.index];
    ptx::store_relaxed(&word.credit, channel.base + channel.list);
    ptx::store_relaxed(&word.coded_credit, channel.base + channel.list);
  }
  // [warp]
  __device__ __forceinline__ void end() {
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      if (has(kernel.seats & ~(mine | channel.dropped), channel.lane + h * WARP))
        give_all(channel.lane + h * WARP);
    // Seats that were lost after the dispatch contribute nothing, either.
    uint64_t lost = ((channel.dropped | ended) & kernel.seats) | (kernel.op.seats & ~kernel.seats);
    if (channel.lane == 0 && lost)
      ptx::set_bits(&args.op->answers_lost, lost);
  }

  // To be called after the end: whether a sender has given up answers that were read in place. Then everything has to
  // be added again, without the answers of other ranks, whose rings have got their credit already. [warp]
  __device__ __forceinline__ bool begins_again() {
    uint64_t seats = IN_PLACE ? placed.seats() : 0, gone = seats ? let_go(channel, seats) : 0;
    if (!gone)
      return false;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      if (has(gone, channel.lane + h * WARP))
        mark_lost(args.state, channel.lane + h * WARP);
    if (channel.lane == 0)
      ptx::set_bits(&args.op->answers_lost, seats);
    placed.forget();
    shut = ~mine;
    walk = token_walk(kernel.route.seats, channel.index, kernel.tokens, true);
    load();
    return true;
  }
};

#endif
