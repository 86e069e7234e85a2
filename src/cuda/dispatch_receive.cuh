// The receiving half of dispatch: hears the routing, then copies each row to its places when it has come.
#ifndef CUDA_DISPATCH_RECEIVE_CUH
#define CUDA_DISPATCH_RECEIVE_CUH

#include "cuda/places.cuh"

// Hears the header and the routing of every member, and marks the places. Equal parts of the block listen to each
// member. tokens[m]: how many it has; 0 when it was not heard.
__device__ __forceinline__ void hear(const cuda_dispatch_args &args, const scene &scene, places &places,
                                     uint32_t *tokens, uint64_t op, uint32_t thread) {
  const cuda_layout &layout = args.layout;
  const cuda_handle &handle = args.state->handle[op % CUDA_DEPTH];
  uint32_t listeners = RECEIVERS / scene.counters.count, m = thread / listeners, begin = thread % listeners;
  uint32_t flag = (uint32_t)op + 1;
  if (m >= scene.counters.count)
    return;
  const char *slot = slot_of(layout, scene.members[m].in, op);
  const cuda_unit *head = &((const cuda_slot_head *)slot)->count, *routing = (const cuda_unit *)(slot + layout.routing);
  uint4 first = begin < layout.max_tokens * layout.units ? ptx::load_unit(routing + begin) : make_uint4(0, 0, 0, 0);
  uint4 count = ptx::load_unit(head);
  uint32_t together = __activemask(), leader = __ffs((int)__match_any_sync(together, m)) - 1;
  bool here = true; // one thread of a warp asks for each member's header
  if (threadIdx.x % WARP == leader)
    here = wait_unit(args.state, m, head, flag, count);
  __syncwarp(together);
  here = __shfl_sync(together, here, (int)leader);
  count.x = __shfl_sync(together, count.x, (int)leader);
  uint32_t units = here ? min(count.x, layout.max_tokens) * layout.units : 0;
  for (uint32_t i = begin; i < units && here; i += listeners) {
    uint4 unit = i == begin ? first : ptx::load_unit(routing + i);
    here = wait_unit(args.state, m, routing + i, flag, unit);
    if (!here)
      break;
    uint32_t token = i / layout.units, k = i % layout.units * CUDA_UNIT_SELECTIONS;
    places.experts[m * layout.max_tokens * layout.units + i] = unit.x;
    mark(args, places, m, token, unit.x & 0xFFFF);
    mark(args, places, m, token, unit.x >> 16);
    if (i % gridDim.x == blockIdx.x) {
      float *weight = handle.weight + ((size_t)m * layout.max_tokens + token) * layout.topk + k;
      weight[0] = __uint_as_float(unit.y);
      if (k + 1 < layout.topk)
        weight[1] = __uint_as_float(unit.z);
    }
  }
  if (begin == 0)
    tokens[m] = here ? min(count.x, layout.max_tokens) : 0;
}

// Counts and ranges: one warp for each part.
__device__ __forceinline__ void tell_counts(const cuda_dispatch_args &args, const scene &scene, const places &places,
                                            uint32_t thread) {
  uint32_t lane = threadIdx.x % WARP, E = args.experts_per_rank;
  uint32_t warps = RECEIVERS / WARP, warp = thread / WARP;
  for (uint32_t part = warp * gridDim.x + blockIdx.x; part < places.parts; part += gridDim.x * warps) {
    uint32_t last = part * places.words + places.words - 1;
    uint32_t total = places.before[last] + __popc(places.bits[last]);
    if (lane == 0 && part < E)
      args.counts[part] = (int32_t)total;
    if (!args.range || (args.rank_major && part < E))
      continue;
    int64_t *range = args.rank_major ? args.range : args.range + (size_t)part * args.capacity;
    for (uint32_t i = lane; i < args.capacity; i += WARP)
      range[i] = 0;
    __syncwarp();
    for (uint32_t m = lane; m < scene.counters.count; m += WARP) {
      uint32_t begin = places.before[part * places.words + m * places.words_per_member];
      uint32_t end =
          m + 1 < scene.counters.count ? places.before[part * places.words + (m + 1) * places.words_per_member] : total;
      range[scene.members[m].rank] = (int64_t)((uint64_t)begin << 32 | (end - begin));
    }
  }
}

// Rank-major: a row's local experts and weights, in top-k order. [warp]
__device__ __forceinline__ void tell_selections(const cuda_dispatch_args &args, const cuda_unit *routing, int32_t place,
                                                int expert, uint32_t valid, const team &t) {
  uint32_t K = args.layout.topk, count = __popc(valid), k = __popc(valid & ((1u << t.lane) - 1));
  int32_t *experts = args.local_expert ? args.local_expert + (size_t)place * K : nullptr;
  float *weights = args.weights ? args.weights + (size_t)place * K : nullptr;
  if (expert >= 0 && experts)
    experts[k] = expert;
  if (expert >= 0 && weights)
    weights[k] = *(const volatile float *)&routing[t.lane / 2].word[1 + t.lane % 2];
  if (t.lane >= count && experts)
    experts[t.lane] = -1;
  if (t.lane >= count && weights)
    weights[t.lane] = 0.0f;
}

// One row: from its area to each of its places. [team]
__device__ void place_row(const cuda_dispatch_args &args, const scene &scene, const places &places, uint32_t m,
                          uint32_t token, uint64_t op, const team &t) {
  const cuda_layout &layout = args.layout;
  const char *slot = slot_of(layout, scene.members[m].in, op);
  const int16_t *experts = (const int16_t *)(places.experts + (m * layout.max_tokens + token) * layout.units);
  int expert = t.lane < layout.topk ? experts[t.lane] : -1;
  uint32_t valid = __ballot_sync(~0u, expert >= 0);
  const cuda_handle &handle = args.state->handle[op % CUDA_DEPTH];
  size_t entry = ((size_t)m * layout.max_tokens + token) * layout.topk + t.lane;
  if (!valid) {
    if (t.warp == 0 && t.lane < layout.topk)
      handle.place[entry] = -1;
    return;
  }
  int32_t place = -1;
  if (args.rank_major)
    place = (int32_t)places.find(args.experts_per_rank, m, token);
  else if (expert >= 0)
    place = (int32_t)(expert * args.rows + places.find((uint32_t)expert, m, token));
  bool fits = args.rank_major ? (uint32_t)place < args.rows
                              : expert >= 0 && (uint32_t)place < (uint32_t)(expert + 1) * args.rows;
  uint32_t targets = args.rank_major ? (fits ? 1u : 0u) : __ballot_sync(~0u, fits);
  if (t.warp == 0 && t.lane < layout.topk) {
    handle.place[entry] = expert >= 0 && fits ? place : -1;
    if (args.rank_major && fits)
      tell_selections(args, (const cuda_unit *)(slot + layout.routing) + token * layout.units, place, expert, valid, t);
    if (targets >> t.lane & 1) {
      if (args.src_rank)
        args.src_rank[place] = scene.members[m].rank;
      if (args.src_token)
        args.src_token[place] = (int32_t)token;
    }
  }
  bool here =
      t.lane != 0 || wait_flag(args.state, m, (const uint32_t *)(slot + layout.row_flags) + token, (uint32_t)op + 1);
  here = __all_sync(~0u, here);
  const char *from = slot + layout.rows + (size_t)token * layout.row_stride;
  enum { BATCH = 5 }; // loads of a thread under way at once
  for (uint32_t base = 0; base < layout.value_bytes / 16; base += BATCH * PLACERS) {
    uint4 v[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      uint32_t piece = base + i * PLACERS + t.thread;
      v[i] = here && piece < layout.value_bytes / 16 ? ptx::load_shared16(from + piece * 16) : make_uint4(0, 0, 0, 0);
    }
    for (uint32_t left = targets; left; left &= left - 1) {
      int32_t to = __shfl_sync(~0u, place, __ffs((int)left) - 1);
#pragma unroll
      for (int i = 0; i < BATCH; i++) {
        uint32_t piece = base + i * PLACERS + t.thread;
        if (piece < layout.value_bytes / 16)
          ptx::store16((char *)args.out + (size_t)to * layout.value_bytes + piece * 16, v[i]);
      }
    }
  }
  uint32_t scales = layout.scale_bytes / 4;
  for (uint32_t base = 0; base < scales; base += PLACERS) {
    uint32_t at = base + t.thread;
    float scale = here && at < scales ? *(const volatile float *)(from + layout.value_bytes + at * 4) : 0.0f;
    for (uint32_t left = targets; left; left &= left - 1) {
      int32_t to = __shfl_sync(~0u, place, __ffs((int)left) - 1);
      if (at < scales)
        args.scales[(size_t)to * scales + at] = scale;
    }
  }
}

__device__ __forceinline__ void receivers_sync() {
  ptx::barrier(BARRIER_ROLE, RECEIVERS);
}

// [all receivers of a block]
__device__ __forceinline__ void receive(const cuda_dispatch_args &args, const scene &scene, uint32_t *tokens,
                                        uint32_t *memory, uint32_t thread, const team &t) {
  uint64_t op = scene.counters.received;
  uint32_t count = scene.counters.count;
  places places;
  places_begin(places, args, count, memory, thread);
  receivers_sync();
  hear(args, scene, places, tokens, op, thread);
  receivers_sync();
  trace(args.trace, 3, thread == 0);
  count_places(places, thread);
  receivers_sync();
  trace(args.trace, 4, thread == 0);
  uint32_t most = 0;
  for (uint32_t m = 0; m < count; m++)
    most = max(most, tokens[m]);
  for (uint32_t i = t.index; i < most * count; i += t.count) {
    uint32_t token = i / count, m = (i + scene.counters.self) % count;
    if (token < tokens[m])
      place_row(args, scene, places, m, token, op, t);
  }
  tell_counts(args, scene, places, thread);
  if (blockIdx.x == 0 && thread < count)
    args.state->handle[op % CUDA_DEPTH].tokens[thread] = tokens[thread];
  trace(args.trace, 5, thread == 0);
}

#endif
