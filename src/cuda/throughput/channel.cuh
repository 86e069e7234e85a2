// One end of a channel (flow.h), as a warp has it, and what all such ends do: wait, tell, take job after job.
#ifndef CUDA_THROUGHPUT_CHANNEL_CUH
#define CUDA_THROUGHPUT_CHANNEL_CUH

#include "cuda/throughput/job.cuh"
#include "cuda/throughput/steps.cuh"

// Of one warp, or of those that share a channel. In shared memory.
struct channel_memory {
  mover_job jobs[2];
  uint32_t sent[DEVICE_SEATS];                        // rows of this operation and channel, by seat: written or read
  uint32_t room[DEVICE_SEATS];                        // up to which number there is room, or a row
  uint32_t written[DEVICE_SEATS], told[DEVICE_SEATS]; // rows whose stores have been issued, and that were told
  uint64_t arrived[2];                                // barriers of the warp's stage (stage.cuh)
  // For the block's teller (teller.cuh), to whom rows are written when they have arrived.
  uint64_t closing;       // seats to which nothing more is written
  uint32_t index;         // of the channel
  uint32_t serial, acked; // odd: a channel is open; the last even number that was told
  uint32_t over;          // there will be no other channel
};

// What all warps of a kernel know. In shared memory.
struct flow_kernel {
  cuda_flow_op op;
  cuda_route route;
  uint64_t seats;                  // that take part, and are not lost
  uint32_t row_base[DEVICE_SEATS]; // of each seat's rows, among all that are received
  uint32_t rows, tokens;           // received in all; of this rank
  // Of a sender that began before all headers had come: where it is said who takes part; else NULL.
  const cuda_flow_op *rest;
  uint64_t zero_copy[DEVICE_SEATS]; // where each peer's is mapped here; 0: it is not
};

// Which channels a warp serves, and with whom: a crew has a warp that finds jobs and some that do them, so that none of
// them needs the registers of both. Crew i of each kind serves channels i, i + crews and so on.
struct crew {
  uint32_t index, count; // of the crew, among all of its kind
  uint32_t warp, warps;  // of this warp in it; how many they are
  uint32_t local;        // of the crew in the block
  bool works;            // this warp is in one

  // Of a kind that has warps [first, first + most) of blocks [block, block + blocks), `each` to a crew.
  __device__ __forceinline__ crew(uint32_t block, uint32_t blocks, uint32_t first, uint32_t most, uint32_t each) {
    uint32_t mine = threadIdx.x / WARP - first;
    local = mine / each;
    warp = mine % each;
    warps = each;
    works = blockIdx.x - block < blocks && mine < most && local < most / each;
    index = local * blocks + blockIdx.x - block;
    count = most / each * blocks;
  }
  __device__ __forceinline__ void sync(uint32_t barrier) const { ptx::barrier((int)barrier, (int)(warps * WARP)); }
};

// Copies what the kernel goes by to shared memory. [block, barrier to follow]
__device__ __forceinline__ void begin_route(flow_kernel &kernel, const cuda_route *route) {
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_route) / 4; i += blockDim.x)
    ((uint32_t *)&kernel.route)[i] = ((const volatile uint32_t *)route)[i];
}

// The sum of what the lanes below have, and this one. [warp]
__device__ __forceinline__ uint32_t sum_up_to(uint32_t value) {
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    uint32_t below = __shfl_up_sync(~0u, value, step);
    value += (int)(threadIdx.x % WARP) >= step ? below : 0;
  }
  return value;
}

// Where the part of each expert begins among packed rows, if it has `counts` of them and parts begin at multiples of
// `alignment`; returns where the last one ends. [warp, some experts a lane]
__device__ __forceinline__ uint32_t list_begins(const uint32_t *counts, uint32_t experts, uint32_t alignment,
                                                uint32_t *begins) {
  uint32_t each = (experts + WARP - 1) / WARP, first = threadIdx.x % WARP * each, end = min(first + each, experts);
  uint32_t sum = 0;
  for (uint32_t e = first; e < end; e++)
    sum += cuda_round_up(counts[e], alignment);
  uint32_t behind = sum_up_to(sum), begin = behind - sum;
  for (uint32_t e = first; e < end; e++) {
    begins[e] = begin;
    begin += cuda_round_up(counts[e], alignment);
  }
  return __shfl_sync(~0u, behind, WARP - 1);
}

// Copies what control left as well, and how many tokens there are. Loads go side by side, as each takes as long as all
// of them. [block]
__device__ __forceinline__ void begin_op(flow_kernel &kernel, cuda_state *state, const cuda_flow_op *op,
                                         const cuda_route &route) {
  __shared__ uint64_t lost;
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_flow_op) / 4; i += blockDim.x)
    ((uint32_t *)&kernel.op)[i] = ((const volatile uint32_t *)op)[i];
  if (threadIdx.x == blockDim.x - 1)
    lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
  if (threadIdx.x == blockDim.x - WARP)
    kernel.tokens = *(const volatile uint32_t *)&route.sums[0];
  __syncthreads();
  if (threadIdx.x / WARP == 0) {
    uint32_t all = 0;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < cuda_round_up(kernel.op.count, WARP); i += WARP) {
      bool counts = i < kernel.op.count;
      uint32_t seat = counts ? kernel.op.by_rank[i] : 0, rows = counts ? kernel.op.rows[seat] : 0;
      uint32_t end = all + sum_up_to(rows);
      if (counts)
        kernel.row_base[seat] = end - rows;
      all = __shfl_sync(~0u, end, WARP - 1);
    }
    kernel.rows = all;
    kernel.seats = kernel.op.seats & ~lost;
    kernel.rest = nullptr;
  }
  __syncthreads();
}
// Both, where the kernel has the route at hand. [block]
__device__ __forceinline__ void begin_flow(flow_kernel &kernel, cuda_state *state, const cuda_flow_op *op,
                                           const cuda_route &route) {
  if (threadIdx.x == 0)
    kernel.route = route;
  begin_op(kernel, state, op, route);
}

__device__ __forceinline__ bool has(uint64_t seats, uint32_t seat) {
  return seats >> seat & 1;
}
// The seats of which a lane found something: `low` of seat `lane`, `high` of seat `lane` + 32.
__device__ __forceinline__ uint64_t seats_of(bool low, bool high) {
  return __ballot_sync(~0u, low) | (uint64_t)__ballot_sync(~0u, high) << 32;
}
// The next seat of `seats` behind `last`, in a circle. There is one.
__device__ __forceinline__ uint32_t next_seat(uint64_t seats, uint32_t last) {
  uint64_t behind = last >= 63 ? 0 : seats & ~0ull << (last + 1);
  return (uint32_t)__ffsll((long long)(behind ? behind : seats)) - 1;
}

struct channel {
  const flow_kernel &kernel;
  const cuda_ring &ring;
  cuda_state *state;
  channel_memory &memory;
  uint64_t base; // position of the operation's first row
  uint32_t index, lane, words, first_place, list;
  uint64_t awaited, dropped; // seats that the last look was not content with; that are lost since the kernel began
  uint32_t untold, batch;    // rows since one was told; after how many
  uint64_t under_way;        // seats of the newest row written, where a teller tells

  // `answers`: of the two rings. [warp]
  __device__ __forceinline__ channel(const flow_kernel &kernel, const cuda_flow &flow, bool answers, cuda_state *state,
                                     channel_memory &memory, uint32_t index)
      : kernel(kernel), ring(answers ? flow.answers : flow.rows), state(state), memory(memory),
        base((answers ? kernel.op.answer : kernel.op.op) * flow.list), index(index), lane(threadIdx.x % WARP),
        words((uint32_t)((answers ? offsetof(cuda_flow_head, answers) : 0) + index * sizeof(cuda_flow_word))),
        first_place((uint32_t)(base % ring.places)), list(flow.list), awaited(0), dropped(0), batch(ring.batch),
        under_way(0) {
    untold = batch - 1; // the first row is told of at once
    __syncwarp();
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP)
      memory.sent[seat] = memory.room[seat] = memory.written[seat] = memory.told[seat] = 0;
    memory.index = index;
    __syncwarp();
  }

  __device__ __forceinline__ cuda_flow_word *word(char *window) const { return (cuda_flow_word *)(window + words); }
  __device__ __forceinline__ char *place(char *window, uint32_t number) const {
    return window + ring.at + ((uint64_t)index * ring.places + (first_place + number) % ring.places) * ring.place;
  }

  // --- whoever writes ---

  // The position before which a seat has to have read all, so that anything can be written.
  __device__ __forceinline__ uint64_t sent_before(uint32_t seat) const {
    const cuda_flow_sent &sent = ((const cuda_flow_head *)kernel.op.in[seat])->sent;
    return list * ptx::load_volatile(words < offsetof(cuda_flow_head, answers) ? &sent.rows : &sent.answers);
  }
  // Those of `seats` for whose next row there is no room. [warp]
  __device__ __forceinline__ uint64_t full(uint64_t seats) {
    bool none[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = lane + h * WARP;
      none[h] = has(seats, seat) && memory.sent[seat] >= memory.room[seat];
      if (!none[h])
        continue;
      // What other operations left there may still be read. No acquire: nothing is read that the reader has written,
      // and no store is issued before this load has brought what allows it.
      uint64_t credit = ptx::load_volatile(&word(kernel.op.in[seat])->credit);
      if (credit < base && credit < sent_before(seat))
        continue;
      credit = max(credit, base);
      if (credit + ring.places <= base + memory.sent[seat])
        continue;
      memory.room[seat] = (uint32_t)min(credit - base, (uint64_t)list) + ring.places;
      none[h] = memory.sent[seat] >= memory.room[seat];
    }
    return awaited = seats_of(none[0], none[1]);
  }
  // Tells the readers of the rows whose stores have been issued, by this warp or before a barrier. [warp]
  __device__ __forceinline__ void tell() {
#pragma unroll 1
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP) {
      uint32_t written = memory.written[seat];
      if (memory.told[seat] == written)
        continue;
      memory.told[seat] = written;
      ptx::store_release(&word(kernel.op.out[seat])->tail, (base + written) * 2);
    }
    __syncwarp();
  }
  // A row's stores have been issued: tells of it now and then, since the fence of a release at system scope takes as
  // long as a row does. [warp]
  __device__ __forceinline__ void count_row(uint64_t seats, bool more) {
    count_written(seats);
    if (++untold >= batch && more) {
      tell();
      untold = 0;
    }
  }
  __device__ __forceinline__ void count_written(uint64_t seats) {
    memory.written[lane] += has(seats, lane);
    memory.written[lane + WARP] += has(seats, lane + WARP);
  }
  // The operation's last row has been told. [warp]
  __device__ __forceinline__ void close(uint64_t seats) {
#pragma unroll 1
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP)
      if (has(seats, seat))
        ptx::store_release(&word(kernel.op.out[seat])->tail, (base + memory.written[seat]) * 2 + 1);
  }

  // Who does not take part after all reads nothing. [warp]
  __device__ __forceinline__ void drop_others() {
    if (kernel.rest && ptx::load_acquire(&kernel.rest->ready) == CUDA_READY_ALL)
      dropped |= awaited & ~ptx::load_volatile(&kernel.rest->seats);
  }

  // --- whoever writes, and has a teller ---

  // A row's stores have been issued: those before it have arrived. [warp]
  __device__ __forceinline__ void count_arrived(uint64_t seats) {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_older();
#endif
    note_arrived();
    under_way = seats;
  }
  // All stores of this warp have arrived. [warp]
  __device__ __forceinline__ void settle() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait();
#endif
    note_arrived();
  }
  __device__ __forceinline__ void note_arrived() {
    __syncwarp();
    __threadfence_block();
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      volatile uint32_t *written = &memory.written[lane + h * WARP];
      if (has(under_way, lane + h * WARP))
        *written = *written + 1;
    }
    under_way = 0;
    __syncwarp();
  }

  // --- whoever reads ---

  // Those of `seats` that have a row here. *ended: seats whose last row has been taken, or is in `room`. [warp]
  __device__ __forceinline__ uint64_t there(uint64_t seats, uint64_t *ended) {
    bool some[2], over[2], acquired = false;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = lane + h * WARP;
      some[h] = has(seats, seat) && memory.sent[seat] < memory.room[seat];
      over[h] = false;
      if (some[h] || !has(seats, seat))
        continue;
      const uint64_t *said = &word(kernel.op.in[seat])->tail;
      if (ptx::load_volatile(said) <= (base + memory.sent[seat]) * 2)
        continue;
      uint64_t tail = ptx::load_acquire(said), position = tail / 2;
      memory.room[seat] = (uint32_t)min(position - base, (uint64_t)list - 1);
      some[h] = memory.sent[seat] < memory.room[seat];
      over[h] = !some[h] && tail % 2;
      acquired |= some[h];
    }
#if __CUDA_ARCH__ >= 900
    if (__any_sync(~0u, acquired))
      ptx::bulk_fence_global(); // bulk copies read what the tails vouch for
#endif
    *ended = seats_of(over[0], over[1]);
    uint64_t found = seats_of(some[0], some[1]);
    awaited = seats & ~found & ~*ended;
    return found;
  }
  // Those of `seats` that are known to have a row here. [warp]
  __device__ __forceinline__ uint64_t known(uint64_t seats) const {
    return seats_of(has(seats, lane) && memory.sent[lane] < memory.room[lane],
                    has(seats, lane + WARP) && memory.sent[lane + WARP] < memory.room[lane + WARP]);
  }
  // All rows before this number have been read. [a thread]
  __device__ __forceinline__ void give_credit(uint32_t seat, uint64_t position) const {
    ptx::store_relaxed(&word(kernel.op.out[seat])->credit, position);
  }
};

// Waits on for the seats that a channel awaits; who does not come is dropped. Lives as long as one wait.
struct channel_wait {
  wait_limit limit[2];
  __device__ __forceinline__ void step(channel &channel) {
    bool over[2];
    channel.drop_others();
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      over[h] = has(channel.awaited, seat) && limit[h].over_soon(channel.state, seat);
    }
    __syncwarp();
    channel.dropped |= seats_of(over[0], over[1]);
  }
};

// In a channel without rows for some of `seats`: waits until these have read all that they were sent in operations
// before. A tail says how many rows there are. So it is not written over, by that of a later operation, before it has
// been read. [warp]
__device__ __forceinline__ void await_readers(channel &channel, uint64_t seats) {
  channel_wait wait;
  const uint32_t *sent = channel.memory.sent;
  seats &= seats_of(sent[channel.lane] == 0, sent[channel.lane + WARP] == 0);
#pragma unroll 1
  while (channel.full(seats & ~channel.dropped))
    wait.step(channel);
}

enum found_job { JOB_READY, JOB_WAITS, JOB_NONE };

// Which channels a warp serves that needs no others: of a kind that has warps [first, first + most) of `blocks` blocks
// from `block` on, warp i serves channels i, i + warps and so on.
struct channel_share {
  uint32_t index, count;
  __device__ __forceinline__ channel_share(uint32_t block, uint32_t blocks, uint32_t first, uint32_t most)
      : index((threadIdx.x / WARP - first) * blocks + blockIdx.x - block), count(most * blocks) {}
};

// Has each of `blocks` blocks serve channels that follow each other, as far as its warps suffice. Where writers take
// them by turns, and readers so, the channels of one processor are read by several: one that is slow holds up a few
// warps of each, and not all of one.
__device__ __forceinline__ void gather_channels(uint32_t &index, uint32_t &count, uint32_t blocks) {
  uint32_t each = min(count / blocks, (CUDA_CHANNELS + blocks - 1) / blocks), nth = index / blocks;
  index = nth < each ? index % blocks * each + nth : (uint32_t)CUDA_CHANNELS;
  count = each * blocks;
}

// The next job, for which it may have to wait. False: there is none. [warp]
template <typename ROLE> __device__ __forceinline__ bool await_job(ROLE &role, mover_job &job) {
  channel_wait wait;
#pragma unroll 1
  for (bool waits = false;; waits = true) {
    found_job found = role.find(job);
    __syncwarp();
    if (found != JOB_WAITS)
      return found == JOB_READY;
    if (!waits)
      role.flush();
    wait.step(role.channel);
  }
}

// Finds a role's jobs, one after the other, each while the crew's others do the one before. ROLE has find(job),
// finished(job, whether there are more), flush(), end() and `channel`. What this warp tells behind a barrier covers the
// others' stores. [crew's first]
template <typename ROLE> __device__ __forceinline__ void run_first(ROLE &role, const crew &crew, uint32_t barrier) {
  mover_job *jobs = role.channel.memory.jobs;
#pragma unroll 1
  for (uint32_t i = 0;; i++) {
    mover_job &job = jobs[i % 2];
    bool here = await_job(role, job);
    if (!here && threadIdx.x % WARP == 0)
      job.outputs = CUDA_WAY_NONE;
    crew.sync(barrier); // this job is known, and the one before it is done
    if (i > 0)
      role.finished(jobs[(i + 1) % 2], here);
    if (!here)
      break;
    __syncwarp();
  }
  role.end();
}
// Do them, `work` each. [crew's others]
template <typename WORK>
__device__ __forceinline__ void run_others(channel_memory &memory, const crew &crew, uint32_t barrier, WORK work) {
#pragma unroll 1
  for (uint32_t i = 0;; i++) {
    crew.sync(barrier);
    const mover_job &job = memory.jobs[i % 2];
    if (job.outputs == CUDA_WAY_NONE)
      break;
    work(job, mover_share{crew.warp - 1, crew.warps - 1});
  }
}

// Of all channels of a crew: what its first warp does, with a ROLE for each, made of the memory, the channel and
// `args`; and what the others do: a function of its own, so that neither keeps registers for the other. [warp]
template <typename ROLE, typename... ARGS>
__device__ __forceinline__ void find_jobs(const crew &crew, channel_memory &memory, uint32_t barrier,
                                          const ARGS &...args) {
#pragma unroll 1
  for (uint32_t c = crew.index; c < CUDA_CHANNELS; c += crew.count) {
    ROLE role(memory, c, args...);
    run_first(role, crew, barrier);
    crew.sync(barrier); // the memory is free
  }
}
template <typename WORK>
static __device__ __noinline__ void do_jobs(const crew crew, channel_memory &memory, uint32_t barrier,
                                            const WORK work) {
#pragma unroll 1
  for (uint32_t c = crew.index; c < CUDA_CHANNELS; c += crew.count) {
    run_others(memory, crew, barrier, work);
    crew.sync(barrier);
  }
}
template <typename ROLE, typename WORK, typename... ARGS>
__device__ __forceinline__ void run_channels(const crew &crew, channel_memory *all, const WORK &work,
                                             const ARGS &...args) {
  uint32_t first = threadIdx.x / WARP - crew.warp, barrier = 1 + first / 2; // crews have two warps at least
  if (crew.warp == 0)
    find_jobs<ROLE>(crew, all[first / 2], barrier, args...);
  else
    do_jobs(crew, all[first / 2], barrier, work);
}

// The tokens of a channel, in their order.
struct token_walk {
  const uint64_t *seats;
  uint32_t index, tokens, lane, group;
  uint32_t low, high, live; // of the group's 32 tokens: the lane's seats; which are left
  bool all;                 // also tokens that go nowhere

  __device__ __forceinline__ token_walk(const uint64_t *seats, uint32_t index, uint32_t tokens, bool all)
      : seats(seats), index(index), tokens(tokens), lane(threadIdx.x % WARP), group(0), low(0), high(0), live(0),
        all(all) {}
  // The next token and its seats; false: there is none. take() goes beyond it. [warp]
  __device__ __forceinline__ bool look(uint32_t *token, uint64_t *to) {
    while (live == 0) {
      uint32_t mine = index + (group * WARP + lane) * CUDA_CHANNELS;
      if (index + group * WARP * CUDA_CHANNELS >= tokens)
        return false;
      uint64_t its = mine < tokens ? seats[mine] : 0;
      low = (uint32_t)its;
      high = (uint32_t)(its >> 32);
      live = __ballot_sync(~0u, mine < tokens && (all || its));
      group++;
    }
    int nth = __ffs((int)live) - 1;
    *token = index + ((group - 1) * WARP + nth) * CUDA_CHANNELS;
    *to = __shfl_sync(~0u, low, nth) | (uint64_t)__shfl_sync(~0u, high, nth) << 32;
    return true;
  }
  __device__ __forceinline__ void take() { live &= live - 1; }
};

#endif
