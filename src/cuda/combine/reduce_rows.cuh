// The experts' side of combine: adds this rank's rows for a token, each with its weight, and returns one.
#ifndef CUDA_COMBINE_REDUCE_ROWS_CUH
#define CUDA_COMBINE_REDUCE_ROWS_CUH

#include "cuda/combine/coded.cuh"
#include "cuda/combine/late_weights.cuh"

enum { BARRIER_BEGUN = 8 }; // follows the barriers of all teams that a block can have: sum_ranks.cuh

// Chunks of a packet, and the lines of it that are a lane's. A warp prefetches several rows at once into shared memory
// ("aside"): registers would not suffice, and a register that spills delays all that follows.
enum { ANSWER_EACH = CUDA_BF16_CHUNKS, ABREAST = 4, ROW_ASIDE = ABREAST * WARP * 16 }; // bytes

// Where the experts' outputs for one row stand, and with which weight: lane k has selection k.
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
  if (args.c.rank_major) // the caller has reduced them to one
    valid &= 0u - valid;
  __syncwarp();
  if (valid >> lane & 1)
    scratch.rows[__popc(valid & ((1u << lane) - 1))] = {
        (const char *)args.c.y + (size_t)s.place * args.layout.hidden * 2, args.c.rank_major ? 1.0f : s.weight, 0};
  __syncwarp();
  return __popc(valid);
}

// Prefetches a packet's lines of listed rows, from row `base` on. `aside`: of this warp, in shared memory, for ASIDE
// rows; each lane reads what it wrote. [warp]
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

// One packet of an answer: f32, in the listed order, rounded once. Its first rows are being prefetched. [warp]
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
    // Without branches, so that the lines do not wait for each other: what lies behind the packet's last is added as it
    // happens to be, and not sent.
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

// A packet to be answered: of the i-th row, taking all members in rotation, beginning with the one after this rank.
struct request {
  uint32_t m, row, index, token;
  selection s;
  uint4 unit; // with a late weight, as it was at the last look

  // Loads what has to be known of the row, before it is known that there is such a row. [warp]
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
  // Looks whether its weights are here, if they are late. What is found is needed when its rows are being loaded.
  __device__ __forceinline__ void look(const cuda_combine_args &args, const cuda_view &view, const cuda_handle &handle,
                                       uint64_t op, uint32_t lane) {
    if (handle.late >> m & 1 && row < handle.rows[m] && view.members[m].seat < DEVICE_SEATS)
      unit = ptx::load_unit(late_unit(args, view.members[m], token, op, lane));
  }
};

// Gives the listed rows of a request their weights, which are late. [warp]
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

// Releases the adding warps of a block, once, when the inputs of the first answers are being loaded: stores of theirs
// before that would delay these loads.
struct begun {
  int threads; // of the block
  bool arrived;
  __device__ __forceinline__ void report() {
    if (!arrived)
      ptx::barrier_arrive(BARRIER_BEGUN, threads);
    arrived = true;
  }
};

// Answers to every member, packet by packet. `room`: for coding. [role]
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
  // Rows of member `lane`, and of the one a warp behind it.
  uint32_t mine = lane < view.count ? handle.rows[lane] : 0;
  uint32_t also = lane + WARP < view.count ? handle.rows[lane + WARP] : 0;
  uint64_t open = await_room(args, snapshot, view, op);
  uint32_t most = __reduce_max_sync(~0u, max(mine, also)), sent = 0;
  if (AHEAD)
    next.look(args, view, handle, op, lane);
  // The links serve some processors better than others. So where there are many packets, a warp has two of its own, and
  // then takes the next free one: it claims that one while it works on the one before.
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
      uint32_t listed = list_rows(args, s, lane, scratch); // none, where there was no room: the source gets zeros
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
