// The experts' side of combine: adds this rank's rows for a token, each with its weight, and returns one row.
#ifndef CUDA_COMBINE_REDUCE_ROWS_CUH
#define CUDA_COMBINE_REDUCE_ROWS_CUH

#include "cuda/combine/coded.cuh"
#include "cuda/combine/late_weights.cuh"

enum { BARRIER_BEGUN = 8 }; // the ids below belong to the teams of a block: sum_ranks.cuh

// Chunks of a packet; lines of a packet for each lane; bytes of a prefetched row. A warp prefetches several rows
// together into shared memory ("aside"): there are not enough registers, and a spilled register delays everything after
// it.
enum { ANSWER_EACH = CUDA_BF16_CHUNKS, ABREAST = 4, ROW_ASIDE = ABREAST * WARP * 16 };

// The places and weights of the experts' outputs for one row: lane k has selection k.
struct selection {
  int32_t place;
  float weight;
};

__device__ __forceinline__ selection load_selection(const cuda_handle &handle, const cuda_layout &layout, uint32_t m,
                                                    uint32_t row, uint32_t lane) {
  size_t entry = ((size_t)m * layout.max_tokens + row) * layout.topk + lane;
  return lane < layout.topk ? selection{handle.place[entry], handle.weight[entry]} : selection{-1, 0.0f};
}

// Lists the rows to be added, each with its weight, in the order of top-k. Returns how many. [warp]
__device__ __forceinline__ uint32_t list_rows(const cuda_combine_args &args, const selection &s, uint32_t lane,
                                              scratch &scratch) {
  uint32_t valid = __ballot_sync(~0u, s.place >= 0);
  if (args.c.rank_major) // the caller has already added them up to one row
    valid &= 0u - valid;
  __syncwarp();
  if (valid >> lane & 1)
    scratch.rows[__popc(valid & ((1u << lane) - 1))] = {
        (const char *)args.c.y + (size_t)s.place * args.layout.hidden * 2, args.c.rank_major ? 1.0f : s.weight, 0};
  __syncwarp();
  return __popc(valid);
}

// Prefetches a packet's lines of listed rows, from row `base` on. `aside`: this warp's shared memory for ASIDE rows;
// each lane reads only its own writes. [warp]
template <uint32_t ASIDE>
__device__ __forceinline__ void prefetch_rows(const scratch &scratch, uint32_t base, uint32_t rows, uint32_t first,
                                              uint32_t count, char *aside) {
  seat_in_packet at;
  size_t offset = (size_t)first * CUDA_LINE + at.offset(0);
  uint32_t end = min(base + ASIDE, rows);
  aside += threadIdx.x % WARP * 16;
#pragma unroll 1
  for (uint32_t j = base; j < end; j++, aside += ROW_ASIDE) {
    const char *from = scratch.rows[j].row + offset;
#pragma unroll
    for (int a = 0; a < ABREAST; a++)
      ptx::load_shared16_if(at.line(a) < count, aside + a * WARP * 16, from + a * GROUPS * CUDA_LINE);
  }
}

// Computes one packet of an answer: adds in f32, in the listed order, and rounds once. Its first rows are already being
// prefetched. [warp]
template <uint32_t ASIDE>
__device__ __forceinline__ void add_rows(packet<ANSWER_EACH> &p, const scratch &scratch, uint32_t rows, uint32_t first,
                                         uint32_t count, char *aside) {
  static_assert(packet<ANSWER_EACH>::ITERATIONS == ABREAST, "all lines of a lane at once");
  float acc[ABREAST][8] = {};
#pragma unroll 1
  for (uint32_t base = 0; base < rows; base += ASIDE) {
    uint32_t end = min(base + ASIDE, rows);
    if (base > 0)
      prefetch_rows<ASIDE>(scratch, base, rows, first, count, aside);
    ptx::load_shared_wait();
    char *to = aside + threadIdx.x % WARP * 16;
    // Without branches, so that the lines do not wait for each other: undefined lines after the packet's last one are
    // added, but not sent.
#pragma unroll 1
    for (uint32_t j = base; j < end; j++, to += ROW_ASIDE) {
      float weight = scratch.rows[j].weight;
      uint4 v[ABREAST];
#pragma unroll
      for (int a = 0; a < ABREAST; a++)
        v[a] = *(const uint4 *)(to + a * WARP * 16);
#pragma unroll
      for (int a = 0; a < ABREAST; a++)
        add8(acc[a], v[a], weight);
    }
  }
#pragma unroll
  for (int a = 0; a < ABREAST; a++)
    p.v[a] = pack8(acc[a]);
}

// A packet to be answered. Rows are taken from all members in rotation, beginning with the member after this rank.
struct request {
  uint32_t m, row, index, token;
  selection s;
  uint4 unit; // unit of a late weight, as last read

  // Begins to load the data of the row, before it is known that there is such a row. [warp]
  __device__ __forceinline__ request(const cuda_layout &layout, const cuda_view &view, const cuda_handle &handle,
                                     uint32_t i, uint32_t lane) {
    uint32_t nth = divide(i, layout.answer.by_packets);
    row = divide(nth, view.by_count);
    index = i - nth * layout.answer.packets;
    m = nth - row * view.count + view.self + 1;
    m -= m >= view.count ? view.count : 0;
    uint32_t there = min(row, layout.max_tokens - 1);
    token = handle.token[(size_t)m * layout.max_tokens + there];
    s = load_selection(handle, layout, m, there, lane);
    unit = make_uint4(0, 0, 0, 0);
  }
  // Reads the late weights of the row, if they have arrived. The result is needed only after the rows are being loaded.
  __device__ __forceinline__ void look(const cuda_combine_args &args, const cuda_view &view, const cuda_handle &handle,
                                       uint64_t op, uint32_t lane) {
    if (handle.late >> m & 1 && row < handle.rows[m] && view.members[m].seat < DEVICE_SEATS)
      unit = ptx::load_unit(late_unit(args, view.members[m], token, op, lane));
  }
};

// Gives the listed rows of a request their late weights. [warp]
__device__ __forceinline__ void put_weights(const cuda_combine_args &args, const cuda_member &member,
                                            const request &now, uint64_t op, uint32_t flag, uint32_t lane,
                                            scratch &scratch) {
  uint32_t valid = __ballot_sync(~0u, now.s.place >= 0);
  if (valid >> lane & 1) {
    float weight = weight_in(now.unit, lane);
    if (now.unit.w != flag)
      weight = await_weight(args.state, member.seat, late_unit(args, member, now.token, op, lane), flag, lane);
    scratch.rows[__popc(valid & ((1u << lane) - 1))].weight = weight;
  }
  __syncwarp();
}

// Releases the adding warps of a block, once, when the inputs of the first answers are being loaded: earlier stores of
// the adding warps would delay these loads.
struct begun {
  int threads; // of the block
  bool arrived;
  __device__ __forceinline__ void report() {
    if (!arrived)
      ptx::barrier_arrive(BARRIER_BEGUN, threads);
    arrived = true;
  }
};

// Sends the answers to every member, packet by packet. `room`: memory for coding. [role]
template <bool CODED, uint32_t ASIDE>
__device__ __forceinline__ void answer(const cuda_combine_args &args, const snapshot &snapshot, const cuda_view &view,
                                       const warp_set &warp_set, scratch &scratch, char *stage, char *aside, char *room,
                                       begun begun) {
  constexpr bool AHEAD = CUDA_LATE && !CODED; // looks for late weights ahead
  const cuda_layout &layout = args.layout;
  uint64_t op = snapshot.counters.answered + ahead_of(args);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  uint32_t packets = layout.answer.packets, each_row = view.count * packets, lane = warp_set.lane;
  if (view.count == 0)
    return begun.report();
  request next(layout, view, handle, warp_set.index, lane);
  // Rows of members `lane` and `lane` + WARP.
  uint32_t mine = lane < view.count ? handle.rows[lane] : 0;
  uint32_t also = lane + WARP < view.count ? handle.rows[lane + WARP] : 0;
  uint64_t open = await_room(args, snapshot, view, op);
  uint32_t most = __reduce_max_sync(~0u, max(mine, also)), sent = 0;
  if (AHEAD)
    next.look(args, view, handle, op, lane);
  // The links serve some processors better than others. So if there are many packets, each warp has two fixed packets,
  // and then claims the next free one while it works on the previous one.
  bool many = most * each_row > 4 * warp_set.count;
  uint32_t *taken = &args.state->votes[op % CUDA_LIVE].answers, ticket = 0, i = warp_set.index,
           then = i + warp_set.count;
#pragma unroll 1
  while (i < most * each_row) {
    const request now = next;
    next = request(layout, view, handle, then, lane);
    i = then;
    uint32_t m = now.m, row = now.row, index = now.index, token = now.token;
    const cuda_member &member = view.members[m];
    bool there = row < handle.rows[m] && member.seat < DEVICE_SEATS && open >> member.seat & 1;
    if (many && lane == 0)
      ticket = atomicAdd(taken, 1);
    if (there) {
      selection s = now.s;
      if (!AHEAD && handle.late >> m & 1 && !args.c.rank_major && s.place >= 0)
        s.weight = await_weight(args.state, member.seat, late_unit(args, member, token, op, lane),
                                cuda_late_flag(op, round_of(args, snapshot, op)), lane);
      // none if there was no room for the row: the source gets zeros
      uint32_t listed = list_rows(args, s, lane, scratch);
      packet<ANSWER_EACH> p;
      uint32_t count = chunks_of(layout.answer, index);
      prefetch_rows<ASIDE>(scratch, 0, listed, index * layout.answer.each, count, aside);
      begun.report();
      if (AHEAD && handle.late >> m & 1 && !args.c.rank_major)
        put_weights(args, member, now, op, cuda_late_flag(op, round_of(args, snapshot, op)), lane, scratch);
      if (AHEAD)
        next.look(args, view, handle, op, lane);
      add_rows<ASIDE>(p, scratch, listed, index * layout.answer.each, count, aside);
      if (CODED && m != view.self) {
        encode_packet(p, count, room);
        count = cuda_coded_lines(count);
      }
      outbound_packet<ANSWER_EACH>::wait_until_read(); // the one before
      const outbound_packet<ANSWER_EACH> outbound_packet(p, stage, count, snapshot.control.strict);
      outbound_packet.send(lane == 0 ? member.out : nullptr, {answer_offset(layout, op, token, index), 0});
      outbound_packet.sent();
      sent += index == 0 && m != view.self;
    }
    then = many ? 2 * warp_set.count + __shfl_sync(~0u, ticket, 0) : then + warp_set.count;
  }
  begun.report();
  if (lane == 0 && sent)
    ptx::add(&args.state->record[op % CUDA_RECORDS].answered_rows, sent);
  outbound_packet<ANSWER_EACH>::wait_until_read();
}

#endif
