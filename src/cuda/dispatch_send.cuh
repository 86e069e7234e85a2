// The sending half of dispatch: routing ahead, then rows, cast and staged in shared memory for the couriers.
#ifndef CUDA_DISPATCH_SEND_CUH
#define CUDA_DISPATCH_SEND_CUH

#include "cuda/cast.cuh"
#include "cuda/scene.cuh"

// A row as it travels, in shared memory.
__host__ __device__ inline uint32_t stage_bytes(const cuda_layout &layout) {
  return layout.row_stride;
}

// A token's row in registers: PARTS pieces of 16 values for each thread of a team (bf16: twice as many of 8).
template <int PARTS> struct row { uint4 v[2 * PARTS]; };

template <int PARTS, bool FP8>
__device__ __forceinline__ void load_row(row<PARTS> &r, const cuda_dispatch_args &args, uint32_t token, const team &t) {
  const char *x = (const char *)args.x + (size_t)token * args.layout.hidden * 2;
#pragma unroll
  for (int i = 0; i < 2 * PARTS; i++) {
    // fp8: two neighbouring pieces become one piece of codes
    uint32_t piece = FP8 ? 2 * ((i / 2) * TEAM + t.thread) + i % 2 : i * TEAM + t.thread;
    r.v[i] = piece < args.layout.hidden / 8 ? ptx::load_once16(x + (size_t)piece * 16) : make_uint4(0, 0, 0, 0);
  }
}

// Goes through a set of members, beginning behind `from`: ranks that write at the same time write to different ones.
struct round_trip {
  uint64_t left, ahead; // ahead: the members behind `from`

  __device__ __forceinline__ round_trip(uint64_t members, uint32_t from)
      : left(members), ahead(~((2ull << from) - 1)) {}
  __device__ __forceinline__ bool next(uint32_t &member) {
    uint64_t choice = left & ahead ? left & ahead : left;
    member = (uint32_t)__ffsll((long long)choice) - 1;
    left &= ~(1ull << (member & 63));
    return choice != 0;
  }
};

// Casts the row, and stages it as it travels: values, then scales. [team]
template <int PARTS, bool FP8>
__device__ __forceinline__ void stage_row(const row<PARTS> &r, const cuda_dispatch_args &args, char *stage,
                                          const team &t) {
#pragma unroll
  for (int i = 0; i < (FP8 ? PARTS : 2 * PARTS); i++) {
    uint32_t piece = i * TEAM + t.thread; // of 16 values, or of 8
    if constexpr (FP8) {
      uint32_t amax = max(amax_of(r.v[2 * i]), amax_of(r.v[2 * i + 1]));
#pragma unroll
      for (int step = 1; step < 8; step *= 2)
        amax = max(amax, __shfl_xor_sync(~0u, amax, step));
      float inverse, scale = block_scale(amax, args.dtype == CUDA_FP8_POW2, &inverse);
      uint2 low = cast8(r.v[2 * i], inverse), high = cast8(r.v[2 * i + 1], inverse);
      if (piece >= args.layout.hidden / 16)
        continue;
      *(uint4 *)(stage + piece * 16) = make_uint4(low.x, low.y, high.x, high.y);
      if (piece % 8 == 0)
        *(float *)(stage + args.layout.value_bytes + piece / 8 * 4) = scale;
    } else if (piece < args.layout.hidden / 8) {
      *(uint4 *)(stage + piece * 16) = r.v[i];
    }
  }
}

// What a courier has to know of a row: where it goes.
struct row_mail {
  uint64_t members;
  uint32_t token;
};

__device__ __forceinline__ void deliver(const cuda_dispatch_args &args, const scene &scene, const row_mail &mail,
                                        const char *stage, uint32_t lane) {
  const cuda_layout &layout = args.layout;
  uint64_t op = scene.counters.sent;
  uint32_t size = (layout.value_bytes + layout.scale_bytes + 15) / 16 * 16, member;
  uint32_t from = (scene.counters.self + mail.token) % scene.counters.count;
  round_trip trip(mail.members, from);
  while (trip.next(member))
    carry(slot_of(layout, scene.members[member].out, op) + layout.rows + mail.token * layout.row_stride, stage, size,
          lane);
  carried(lane);
  if (lane != 0)
    return;
  ptx::fence_system();
  trip = round_trip(mail.members, from);
  while (trip.next(member))
    ptx::store_relaxed((uint32_t *)(slot_of(layout, scene.members[member].out, op) + layout.row_flags) + mail.token,
                       (uint32_t)op + 1);
}

__device__ __forceinline__ int member_of_rank(const scene &scene, int32_t rank) {
  for (uint32_t m = 0; m < scene.counters.count; m++)
    if (scene.members[m].rank == rank)
      return (int)m;
  return -1;
}

// The members that own an expert of the token, by bit. [warp]
__device__ __forceinline__ uint64_t members_of_token(const cuda_dispatch_args &args, const scene &scene,
                                                     int64_t expert) {
  int member = expert >= 0 ? member_of_rank(scene, (int32_t)((uint32_t)expert / args.experts_per_rank)) : -1;
  uint32_t low = __reduce_or_sync(~0u, member >= 0 && member < 32 ? 1u << member : 0);
  uint32_t high = scene.counters.count > 32 ? __reduce_or_sync(~0u, member >= 32 ? 1u << (member - 32) : 0) : 0;
  return (uint64_t)high << 32 | low;
}

// Sends a token's routing to every member: a thread for each (member, unit). It goes ahead of the row. [warp]
__device__ __forceinline__ void send_routing(const cuda_dispatch_args &args, const scene &scene, uint64_t open,
                                             uint32_t token, uint64_t op, uint32_t lane) {
  const cuda_layout &layout = args.layout;
  uint32_t K = layout.topk;
  for (uint32_t i = lane; i < scene.counters.count * layout.units; i += WARP) {
    uint32_t m = i / layout.units, unit = i % layout.units, k = unit * CUDA_UNIT_SELECTIONS;
    if (!(open >> m & 1))
      continue;
    int64_t first = (int64_t)scene.members[m].rank * args.experts_per_rank;
    uint32_t local[2] = {0xFFFF, 0xFFFF};
    float weight[2] = {0.0f, 0.0f};
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
      if (k + j >= K)
        continue;
      int64_t expert = args.topk_idx[(size_t)token * K + k + j] - first;
      if (expert >= 0 && expert < args.experts_per_rank)
        local[j] = (uint32_t)expert;
      if (args.topk_weights)
        weight[j] = args.topk_weights[(size_t)token * K + k + j];
    }
    ptx::store_unit((cuda_unit *)(slot_of(layout, scene.members[m].out, op) + layout.routing) + token * layout.units +
                        unit,
                    make_uint4(local[0] | local[1] << 16, __float_as_uint(weight[0]), __float_as_uint(weight[1]),
                               (uint32_t)op + 1));
  }
}

__device__ __forceinline__ int64_t load_expert(const cuda_dispatch_args &args, uint32_t token, const team &t) {
  return t.lane < args.layout.topk ? args.topk_idx[(size_t)token * args.layout.topk + t.lane] : -1;
}

template <int PARTS, bool FP8>
__device__ __forceinline__ void send(const cuda_dispatch_args &args, const scene &scene, row<PARTS> &row,
                                     int64_t expert, outbox<row_mail> &outbox, const team &t) {
  uint64_t op = scene.counters.sent, open = await_credit(args.state, scene, op, &cuda_area_head::taken_dispatch);
  for (uint32_t m = t.thread; t.index == t.count - 1 && m < scene.counters.count; m += TEAM) // the headers
    if (open >> m & 1)
      ptx::store_unit(&((cuda_slot_head *)slot_of(args.layout, scene.members[m].out, op))->count,
                      make_uint4(args.num_tokens, 0, 0, (uint32_t)op + 1));
  if (t.warp == 0)
    for (uint32_t token = t.index; token < args.num_tokens; token += t.count)
      send_routing(args, scene, open, token, op, t.lane);
  const cuda_handle &handle = args.state->handle[op % CUDA_DEPTH];
  for (uint32_t token = t.index; token < args.num_tokens; token += t.count) {
    uint64_t members = members_of_token(args, scene, expert) & open;
    stage_row<PARTS, FP8>(row, args, outbox.next(), t);
    outbox.send({members, token}, t.thread == 0);
    if (t.thread == 0)
      handle.members[token] = members;
    if (token + t.count < args.num_tokens) {
      load_row<PARTS, FP8>(row, args, token + t.count, t);
      expert = load_expert(args, token + t.count, t);
    }
  }
  outbox.close(t.thread == 0);
}

#endif
