// The source's side of combine: waits for the ranks' rows of a token and adds them.
#ifndef CUDA_COMBINE_SUM_RANKS_CUH
#define CUDA_COMBINE_SUM_RANKS_CUH

#include "cuda/combine/reduce_rows.cuh"
#include "cuda/kernels/empty.cuh"

// A team: the warps that add one token's packets and agree on the lost ranks. It has as many warps as a row of 7168 has
// packets, so that more warps remain to answer.
enum { FIRST_TEAM_BARRIER = 1, TEAM = 7, MOST_WARPS = 32 };
struct team {
  // local: index of the team in the block; count: teams of the block; warp: index of this warp in the team
  uint32_t local, count, warp;

  __device__ __forceinline__ team(const role &role)
      : local(role.thread() / WARP / TEAM), count(role.warps / TEAM), warp(role.thread() / WARP % TEAM) {}
  __device__ __forceinline__ void sync() const { ptx::barrier(FIRST_TEAM_BARRIER + local, TEAM * WARP); }
};

// Lists the rows of a token that come from `seats`, in the order of ranks. Returns their number, at most top-k. [warp]
__device__ __forceinline__ uint32_t list_arrivals(const cuda_combine_args &args, const cuda_view &view, uint64_t seats,
                                                  uint32_t token, uint64_t op, uint32_t lane, scratch &scratch) {
  size_t offset = answer_offset(args.layout, op, token, 0);
  uint32_t rows = 0;
  __syncwarp();
#pragma unroll 1
  for (uint32_t base = 0; base < view.count; base += WARP) {
    uint32_t m = base + lane;
    bool has = m < view.count && view.members[m].seat < DEVICE_SEATS && seats >> view.members[m].seat & 1;
    uint32_t all = __ballot_sync(~0u, has);
    if (has)
      scratch.rows[rows + __popc(all & ((1u << lane) - 1))] = {view.members[m].in + offset, 1.0f, view.members[m].seat};
    rows += __popc(all);
  }
  __syncwarp();
  return rows;
}

// Waits for the packet of each row. Returns the seats that are lost. [warp]
__device__ __forceinline__ uint64_t await_packets(const cuda_combine_args &args, const scratch &scratch, uint32_t rows,
                                                  uint32_t offset, uint32_t count, uint32_t lane) {
  bool lost = false;
  if (lane < rows) {
    const uint32_t *last = (const uint32_t *)(scratch.rows[lane].row + offset + count * CUDA_LINE) - 1;
    wait_limit wait_limit;
    while (!lost && ptx::load_volatile(last) == CUDA_EMPTY)
      lost = wait_limit.over(args.state, scratch.rows[lane].seat);
  }
  if (!__any_sync(~0u, lost))
    return 0;
  return or_over_warp(lost ? 1ull << scratch.rows[lane].seat : 0);
}

// A lane's lines of a packet. After the last line it repeats that line, and the copy is not used: a branch for each
// line would make each line wait for the one before.
struct lines_of {
  uint32_t offset[ABREAST];

  __device__ __forceinline__ explicit lines_of(uint32_t count) {
    seat_in_packet at;
#pragma unroll
    for (int a = 0; a < ABREAST; a++)
      offset[a] = min(at.line(a), count - 1) * CUDA_LINE + at.lane * 16;
  }
  __device__ __forceinline__ void load(uint4 v[ABREAST], const char *packet) const {
#pragma unroll
    for (int a = 0; a < ABREAST; a++)
      v[a] = ptx::load_line(packet + offset[a]);
  }
};

// Adds the packets of N rows from row r on, and loads all of them together. Returns the largest of their words.
template <int N>
__device__ __forceinline__ uint32_t add_next(float acc[ABREAST][8], const lines_of &lines, const scratch &scratch,
                                             uint32_t r, uint32_t offset) {
  uint4 v[N][ABREAST];
#pragma unroll
  for (int n = 0; n < N; n++)
    lines.load(v[n], scratch.rows[r + n].row + offset);
  uint32_t most = 0;
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int a = 0; a < ABREAST; a++) {
      most = max(most, largest(v[n][a]));
      add8(acc[a], v[n][a], 1.0f);
    }
  return most;
}

// factor * (the packet's rows added up). False: some word has not arrived yet. [warp]
__device__ __forceinline__ bool add_packets(packet<ANSWER_EACH> &p, const scratch &scratch, uint32_t rows,
                                            uint32_t offset, uint32_t count, float factor) {
  static_assert(packet<ANSWER_EACH>::ITERATIONS == ABREAST, "all lines of a lane at once");
  const lines_of lines(count);
  float acc[ABREAST][8] = {};
  uint32_t r = 0, most = 0;
#pragma unroll 1
  for (; r + 4 <= rows; r += 4)
    most = max(most, add_next<4>(acc, lines, scratch, r, offset));
  if (rows - r == 3)
    most = max(most, add_next<3>(acc, lines, scratch, r, offset));
  else if (rows - r == 2)
    most = max(most, add_next<2>(acc, lines, scratch, r, offset));
  else if (rows - r == 1)
    most = max(most, add_next<1>(acc, lines, scratch, r, offset));
#pragma unroll
  for (int a = 0; a < ABREAST; a++) {
#pragma unroll
    for (int j = 0; j < 8; j++)
      acc[a][j] *= factor;
    p.v[a] = pack8(acc[a]);
  }
  return __all_sync(~0u, most != CUDA_EMPTY);
}

// (sum of all weights) / (sum of the weights whose rows arrived) of a token; without weights each selection counts as
// 1. [warp]
static __device__ __noinline__ float make_up(const cuda_combine_args &args, const cuda_view &view, uint32_t token,
                                             uint64_t seats) {
  uint32_t lane = threadIdx.x % WARP;
  size_t at = (size_t)token * args.layout.topk + lane;
  int32_t expert = lane < args.layout.topk ? expert_at(args.c.topk_idx, args.c.narrow, at) : -1;
  float weight = expert >= 0 ? 1.0f : 0.0f, there = 0.0f;
  if (expert >= 0 && args.c.topk_weights)
    weight = args.c.topk_weights[at];
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (expert >= 0 && view.members[m].seat < DEVICE_SEATS && seats >> view.members[m].seat & 1 &&
        expert / (int32_t)args.layout.experts == view.members[m].rank)
      there = weight;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    weight += __shfl_xor_sync(~0u, weight, step);
    there += __shfl_xor_sync(~0u, there, step);
  }
  return there != 0.0f ? weight / there : 1.0f;
}

// Records that the seats `gone` contributed nothing to the token: which members, and how many selections. [warp]
static __device__ __noinline__ void record_missing(const cuda_combine_args &args, const cuda_view &view, uint32_t token,
                                                   uint64_t gone, uint64_t op) {
  uint32_t lane = threadIdx.x % WARP;
  size_t at = (size_t)token * args.layout.topk + lane;
  int32_t expert = lane < args.layout.topk ? expert_at(args.c.topk_idx, args.c.narrow, at) : -1;
  uint64_t members = 0;
  bool missing = false;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    if (view.members[m].seat >= DEVICE_SEATS || !(gone >> view.members[m].seat & 1))
      continue;
    members |= 1ull << m;
    missing |= expert >= 0 && expert / (int32_t)args.layout.experts == view.members[m].rank;
  }
  uint32_t selections = __popc(__ballot_sync(~0u, missing));
  if (lane != 0)
    return;
  device_record &record = args.state->record[op % CUDA_RECORDS];
  ptx::add(&record.missing, selections);
  ptx::set_bits(&record.combine_lost, members);
  args.state->handle[op % CUDA_LIVE].missing[token] |= members;
}

// factor * (the sum of the packet's rows) if rows of other ranks are coded. Rows are decoded to bf16 and added one
// after the other, while the next one is loaded. Returns the seats that are lost. [warp]
__device__ __forceinline__ uint64_t add_coded(packet<ANSWER_EACH> &sum, cuda_state *state, const scratch &scratch,
                                              uint32_t rows, uint32_t own, uint32_t offset, uint32_t chunks,
                                              float factor, char *room) {
  const spot at = {offset, 0};
  uint32_t wire = cuda_coded_lines(chunks);
  float acc[ABREAST][8] = {};
  inbound_packet<ANSWER_EACH> came;
  if (rows > 0)
    came.load(scratch.rows[0].row, at, scratch.rows[0].seat == own ? chunks : wire);
#pragma unroll 1
  for (uint32_t r = 0; r < rows; r++) {
    uint32_t seat = scratch.rows[r].seat, next = min(r + 1, rows - 1);
    if (!came.whole() && !came.await(state, seat, scratch.rows[r].row, at, seat == own ? chunks : wire))
      return 1ull << seat;
    if (seat == own) {
#pragma unroll
      for (int a = 0; a < ABREAST; a++)
        add8(acc[a], came.p.v[a], 1.0f);
    } else {
      open_packet(came.p, chunks, room);
    }
    came.load(scratch.rows[next].row, at, scratch.rows[next].seat == own ? chunks : wire);
    if (seat != own) {
#pragma unroll
      for (int a = 0; a < ABREAST; a++) {
        add_decoded(acc[a], room, chunks, a);
        ptx::in_order(); // there are not enough registers for more at the same time
      }
    }
  }
#pragma unroll
  for (int a = 0; a < ABREAST; a++) {
#pragma unroll
    for (int j = 0; j < 8; j++)
      acc[a][j] *= factor;
    sum.v[a] = pack8(acc[a]);
  }
  return 0;
}

// Adds the token's packets. Returns the seats that this warp has found to be lost. [team]
template <bool CODED>
__device__ __forceinline__ uint64_t add_token(const cuda_combine_args &args, const cuda_view &view, uint32_t token,
                                              uint64_t seats, uint64_t op, const team &team, uint32_t lane,
                                              scratch &scratch, char *room) {
  const cuda_layout &layout = args.layout;
  float factor = args.c.renormalize ? make_up(args, view, token, seats) : 1.0f;
  char *out = (char *)args.c.out + (size_t)token * layout.hidden * 2;
  seat_in_packet at;
#pragma unroll 1
  for (uint32_t index = team.warp; index < layout.answer.packets; index += TEAM) {
    uint32_t count = chunks_of(layout.answer, index), offset = index * layout.answer.each * CUDA_LINE;
    uint32_t rows = list_arrivals(args, view, seats, token, op, lane, scratch);
    packet<ANSWER_EACH> p;
    if (CODED) {
      uint64_t lost =
          add_coded(p, args.state, scratch, rows, view.members[view.self].seat, offset, count, factor, room);
      if (lost)
        return lost;
    } else {
      wait_limit wait_limit; // for words that arrive later than a packet's last word
      uint64_t lost = await_packets(args, scratch, rows, offset, count, lane);
      while (!lost && !add_packets(p, scratch, rows, offset, count, factor))
        lost = or_over_warp(
            lane < rows && wait_limit.over(args.state, scratch.rows[lane].seat) ? 1ull << scratch.rows[lane].seat : 0);
      if (lost)
        return lost;
    }
#pragma unroll
    for (int i = 0; i < packet<ANSWER_EACH>::ITERATIONS; i++)
      if (at.line(i) < count)
        ptx::store16(out + (size_t)index * layout.answer.each * CUDA_LINE + at.offset(i), p.v[i]);
  }
  return 0;
}

// The seats whose answers can be read if this call asks for coded answers. All ranks must ask for them; a rank that
// does not sends bf16, and is lost. [warp]
__device__ __forceinline__ uint64_t legible_seats(const cuda_combine_args &args, const snapshot &snapshot,
                                                  const cuda_view &view, uint64_t op) {
  if (snapshot.control.strict)
    return ~0ull;
  uint64_t open = view.seats & ~(snapshot.counters.lost | snapshot.control.gone);
  return await_taken(args.state, view, open, op, cuda_round(op, round_of(args, snapshot, op)), &cuda_area_head::coded);
}

// lost[team]: shared. [role]
template <bool CODED>
__device__ __forceinline__ void add_up(const cuda_combine_args &args, const snapshot &snapshot, const cuda_view &view,
                                       uint64_t *lost, const role &role, const warp_set &warp_set, scratch &scratch,
                                       char *room) {
  uint64_t op = snapshot.counters.combined + ahead_of(args);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  team team(role);
  empty_read(args.layout, args.state, snapshot, warp_set);
  if (team.local >= team.count)
    return;
  // all warps of a team use the same set, valid after the team's next barrier
  __shared__ uint64_t legible[MOST_WARPS / TEAM];
  if (CODED && CUDA_OPTION(args.by_call) && team.warp == 0)
    legible[team.local] = legible_seats(args, snapshot, view, op);
#pragma unroll 1
  for (uint32_t token = team.local * role.blocks + blockIdx.x - role.first_block; token < handle.sent;
       token += role.blocks * team.count) {
    uint64_t sent = handle.members[token];
    if (team.warp == 0 && warp_set.lane == 0) { // before the wait, since work after the wait would add to the latency
      lost[team.local] = 0;
      handle.missing[token] = handle.unsent[token];
    }
    team.sync();
    uint64_t seats = sent & ~handle.passed & (CODED && CUDA_OPTION(args.by_call) ? legible[team.local] : ~0ull);
    for (;;) { // until all warps of the team have added the same rows
      uint64_t found = add_token<CODED>(args, view, token, seats, op, team, warp_set.lane, scratch, room);
      if (found && warp_set.lane == 0)
        atomicOr((unsigned long long *)&lost[team.local], found);
      team.sync();
      uint64_t gone = lost[team.local];
      team.sync();
      if (!(gone & seats))
        break;
      seats &= ~gone;
    }
    if (team.warp == 0 && seats != sent)
      record_missing(args, view, token, sent & ~seats, op);
  }
}

#endif
