// Late weights: they were not sent with the dispatch and are sent with the combine, to the ranks that use them to add
// rows.
//
// The first answers of those ranks wait for the weights, for the latency of a store over the links. So weights are
// loaded before the snapshot is complete, and sent by warps that have no other work yet; a warp that waits for weights
// has begun to load its rows before. Measured on two H200s, a pair of 128 tokens in a graph: 19.1 us with weights in
// the dispatch; 20.1 if the answering warps send the weights, and take them before they load rows; 19.9 as implemented.
// (19.5 without any wait.)
#ifndef CUDA_COMBINE_LATE_WEIGHTS_CUH
#define CUDA_COMBINE_LATE_WEIGHTS_CUH

#include "cuda/combine/room.cuh"

// The late weights of a token: each lane has the weights of one unit for one member.
struct late_weights {
  float weight[CUDA_UNIT_WEIGHTS];

  // Loads the weights of the warp's first token. [all warps]
  __device__ __forceinline__ late_weights(const cuda_combine_args &args, const warp_set &warp_set, bool sends) {
    load(args, warp_set.index, CUDA_LATE && sends && warp_set.index < args.c.num_tokens, warp_set.lane);
  }
  __device__ __forceinline__ void load(const cuda_combine_args &args, uint32_t token, bool here, uint32_t lane) {
    const float *weights = args.c.topk_weights + (size_t)token * args.layout.topk;
#pragma unroll
    for (uint32_t i = 0; i < CUDA_UNIT_WEIGHTS; i++) {
      uint32_t k = lane % args.layout.late_units * CUDA_UNIT_WEIGHTS + i;
      weight[i] = here && k < args.layout.topk ? weights[k] : 0.0f;
    }
  }
  // Sends the weights of all tokens to all members. [the sending warps]
  __device__ __forceinline__ void send(const cuda_combine_args &args, const snapshot &snapshot, const cuda_view &view,
                                       uint64_t op, const warp_set &warp_set) {
    const cuda_layout &layout = args.layout;
    uint64_t open = await_room(args, snapshot, view, op);
    uint32_t at_once = WARP / layout.late_units, unit = warp_set.lane % layout.late_units,
             flag = cuda_late_flag(op, round_of(args, snapshot, op)), sent = snapshot.handle[op % CUDA_LIVE].sent;
    uint32_t first = warp_set.lane / layout.late_units < at_once ? warp_set.lane / layout.late_units : view.count;
#pragma unroll 1
    for (uint32_t token = warp_set.index; token < sent; token += warp_set.count) {
      if (!CUDA_LATE || token != warp_set.index)
        load(args, token, true, warp_set.lane);
#pragma unroll 1
      for (uint32_t m = first; m < view.count; m += at_once) {
        const cuda_member &member = view.members[m];
        if (member.seat >= DEVICE_SEATS || !(open >> member.seat & 1))
          continue;
        cuda_unit *to = (cuda_unit *)(slot_of(layout, member.out, op) + layout.late);
        ptx::store_unit(
            to + token * layout.late_units + unit,
            make_uint4(__float_as_uint(weight[0]), __float_as_uint(weight[1]), __float_as_uint(weight[2]), flag));
      }
    }
  }
};
static_assert(CUDA_UNIT_WEIGHTS == 3, "a unit is three weights and a flag");

// The unit in which the weight of the lane's selection arrives. `token`: its number at the source.
__device__ __forceinline__ const cuda_unit *late_unit(const cuda_combine_args &args, const cuda_member &member,
                                                      uint32_t token, uint64_t op, uint32_t lane) {
  return (const cuda_unit *)(slot_of(args.layout, member.in, op) + args.layout.late) + token * args.layout.late_units +
         min(lane, args.layout.topk - 1) / CUDA_UNIT_WEIGHTS;
}
__device__ __forceinline__ float weight_in(uint4 unit, uint32_t lane) {
  uint32_t part = lane % CUDA_UNIT_WEIGHTS;
  return __uint_as_float(part == 0 ? unit.x : part == 1 ? unit.y : unit.z);
}

// Waits for the weight. If the member is lost, the result is undefined: nobody reads that answer. [one thread]
static __device__ __noinline__ float await_weight(cuda_state *state, uint32_t seat, const cuda_unit *from,
                                                  uint32_t flag, uint32_t lane) {
  uint4 unit = ptx::load_unit(from);
  wait_unit(state, seat, from, flag, unit);
  return weight_in(unit, lane);
}

#endif
