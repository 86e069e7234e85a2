// One end of a channel (flow.h), which a warp serves, and what all ends have in common: they wait, publish, and do one
// job after the other.
#ifndef CUDA_THROUGHPUT_CHANNEL_CUH
#define CUDA_THROUGHPUT_CHANNEL_CUH

#include "cuda/throughput/kernel.cuh"

// The memory of one warp, or of the warps that share a channel. In shared memory.
struct channel_memory {
  mover_job jobs[2];
  uint32_t sent[DEVICE_SEATS];    // number of rows of this operation and channel written or read, for each seat
  uint32_t room[DEVICE_SEATS];    // writer: number of rows that have room; reader: number of rows that have arrived
  uint32_t written[DEVICE_SEATS]; // rows whose stores have been issued
  union {
    uint32_t published[DEVICE_SEATS]; // writer: rows that its tail covers
    uint32_t row[DEVICE_SEATS];       // adder that reads answers in place (add.cuh): the token's row at each seat
  };
  uint64_t arrived[2]; // barriers of the warp's stage (stage.cuh)
  // For the block's publisher (publisher.cuh). With a publisher, `written` counts rows that have arrived.
  uint64_t closing;       // seats to which no more rows are written
  uint32_t index;         // of the channel
  uint32_t serial, acked; // serial: odd while a channel is open; acked: the last even serial that was published
  uint32_t over;          // this is the last channel
};

struct channel {
  const flow_kernel &kernel;
  const cuda_ring &ring;
  cuda_state *state;
  channel_memory &memory;
  uint64_t base; // position of the operation's first row
  uint32_t index, lane, words, first_place, list;
  uint64_t awaited, dropped; // seats that were not ready at the last look; seats lost since the kernel began
  // rows since the last publication; number of rows after which the channel publishes again
  uint32_t unpublished, batch;
  uint64_t under_way; // seats of the newest row written, if there is a publisher

  // `answers`: use the ring for answers, else the ring for rows. [warp]
  __device__ __forceinline__ channel(const flow_kernel &kernel, const cuda_flow &flow, bool answers, cuda_state *state,
                                     channel_memory &memory, uint32_t index)
      : kernel(kernel), ring(answers ? flow.answers : flow.rows), state(state), memory(memory),
        base((answers ? kernel.op.answer : kernel.op.op) * flow.list), index(index), lane(threadIdx.x % WARP),
        words((uint32_t)((answers ? offsetof(cuda_flow_head, answers) : 0) + index * sizeof(cuda_flow_word))),
        first_place((uint32_t)(base % ring.places)), list(flow.list), awaited(0), dropped(0), batch(ring.batch),
        under_way(0) {
    unpublished = batch - 1; // the first row is published at once
    __syncwarp();
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP)
      memory.sent[seat] = memory.room[seat] = memory.written[seat] = memory.published[seat] = 0;
    memory.index = index;
    __syncwarp();
  }

  __device__ __forceinline__ cuda_flow_word *word(char *window) const { return (cuda_flow_word *)(window + words); }
  __device__ __forceinline__ char *place(char *window, uint32_t number) const {
    return window + ring.at + ((uint64_t)index * ring.places + (first_place + number) % ring.places) * ring.place;
  }

  // --- writers ---

  // The position before which a seat must have read everything before this rank may write.
  __device__ __forceinline__ uint64_t sent_before(uint32_t seat) const {
    const cuda_flow_sent &sent = ((const cuda_flow_head *)kernel.op.in[seat])->sent;
    return list * ptx::load_volatile(words < offsetof(cuda_flow_head, answers) ? &sent.rows : &sent.answers);
  }
  // Returns those of `seats` that have no room for a next row. [warp]
  __device__ __forceinline__ uint64_t full(uint64_t seats) {
    bool none[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = lane + h * WARP;
      none[h] = has(seats, seat) && memory.sent[seat] >= memory.room[seat];
      if (!none[h])
        continue;
      // The reader may still be reading rows of earlier operations. The load needs no acquire: this rank reads no data
      // that the reader has written, and it issues no store before the load has returned the credit.
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
  // Publishes the rows whose stores have been issued, by this warp or before a barrier, to their readers. [warp]
  __device__ __forceinline__ void publish() {
#pragma unroll 1
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP) {
      uint32_t written = memory.written[seat];
      if (memory.published[seat] == written)
        continue;
      memory.published[seat] = written;
      ptx::store_release(&word(kernel.op.out[seat])->tail, (base + written) * 2);
    }
    __syncwarp();
  }
  // To be called when a row's stores have been issued. Publishes once for several rows, since the fence of a release at
  // system scope takes as long as a row. [warp]
  __device__ __forceinline__ void count_row(uint64_t seats, bool more) {
    count_written(seats);
    if (++unpublished >= batch && more) {
      publish();
      unpublished = 0;
    }
  }
  __device__ __forceinline__ void count_written(uint64_t seats) {
    memory.written[lane] += has(seats, lane);
    memory.written[lane + WARP] += has(seats, lane + WARP);
  }
  // Publishes that the operation has no further row. [warp]
  __device__ __forceinline__ void close(uint64_t seats) {
#pragma unroll 1
    for (uint32_t seat = lane; seat < DEVICE_SEATS; seat += WARP)
      if (has(seats, seat))
        ptx::store_release(&word(kernel.op.out[seat])->tail, (base + memory.written[seat]) * 2 + 1);
  }

  // Drops the seats that do not take part after all: they read nothing. [warp]
  __device__ __forceinline__ void drop_others() {
    if (kernel.rest && ptx::load_acquire(&kernel.rest->ready) == CUDA_READY_ALL)
      dropped |= awaited & ~ptx::load_volatile(&kernel.rest->seats);
  }

  // --- writers with a publisher ---

  // To be called when a row's stores have been issued: the rows before it have arrived. [warp]
  __device__ __forceinline__ void count_arrived(uint64_t seats) {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_wait_older();
#endif
    note_arrived();
    under_way = seats;
  }
  // To be called when all stores of this warp have arrived. [warp]
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

  // --- readers ---

  // Returns those of `seats` from which a row has arrived. *ended: seats whose last row has been taken, or is counted
  // in `room`. [warp]
  __device__ __forceinline__ uint64_t there(uint64_t seats, uint64_t *ended) {
    bool some[2], over[2], acquired = false;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = lane + h * WARP;
      some[h] = has(seats, seat) && memory.sent[seat] < memory.room[seat];
      over[h] = false;
      if (some[h] || !has(seats, seat))
        continue;
      const uint64_t *tail_word = &word(kernel.op.in[seat])->tail;
      if (ptx::load_volatile(tail_word) <= (base + memory.sent[seat]) * 2)
        continue;
      uint64_t tail = ptx::load_acquire(tail_word), position = tail / 2;
      memory.room[seat] = (uint32_t)min(position - base, (uint64_t)list - 1);
      some[h] = memory.sent[seat] < memory.room[seat];
      over[h] = !some[h] && tail % 2;
      acquired |= some[h];
    }
#if __CUDA_ARCH__ >= 900
    if (__any_sync(~0u, acquired))
      ptx::bulk_fence_global(); // bulk copies read the rows that the tails cover
#endif
    *ended = seats_of(over[0], over[1]);
    uint64_t found = seats_of(some[0], some[1]);
    awaited = seats & ~found & ~*ended;
    return found;
  }
  // Returns those of `seats` of which this warp already knows that a row has arrived. [warp]
  __device__ __forceinline__ uint64_t known(uint64_t seats) const {
    return seats_of(has(seats, lane) && memory.sent[lane] < memory.room[lane],
                    has(seats, lane + WARP) && memory.sent[lane + WARP] < memory.room[lane + WARP]);
  }
  // Gives credit: all rows before this number have been read. [one thread]
  __device__ __forceinline__ void give_credit(uint32_t seat, uint64_t position) const {
    ptx::store_relaxed(&word(kernel.op.out[seat])->credit, position);
  }
};

// Continues to wait for the seats that a channel awaits, and drops a seat that is lost. One object serves one wait.
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

// For a channel without rows for some of `seats`: waits until these seats have read everything that was sent to them in
// earlier operations. Since a tail gives the number of rows, the tail of a later operation must not overwrite it before
// it has been read. [warp]
__device__ __forceinline__ void await_readers(channel &channel, uint64_t seats) {
  channel_wait wait;
  const uint32_t *sent = channel.memory.sent;
  seats &= seats_of(sent[channel.lane] == 0, sent[channel.lane + WARP] == 0);
#pragma unroll 1
  while (channel.full(seats & ~channel.dropped))
    wait.step(channel);
}

enum found_job { JOB_READY, JOB_WAITS, JOB_NONE };

// The channels that a warp serves by itself. If a role has warps [first, first + most) of `blocks` blocks from `block`
// on, its warp i serves channels i, i + warps and so on.
struct channel_share {
  uint32_t index, count;
  __device__ __forceinline__ channel_share(uint32_t block, uint32_t blocks, uint32_t first, uint32_t most)
      : index((threadIdx.x / WARP - first) * blocks + blockIdx.x - block), count(most * blocks) {}
};

// Makes each of `blocks` blocks serve consecutive channels, as far as its warps suffice. If writers take channels in
// rotation and readers take consecutive ones, several processors read the channels that one processor writes. A slow
// processor then delays a few warps of each other processor, and not all warps of one.
__device__ __forceinline__ void gather_channels(uint32_t &index, uint32_t &count, uint32_t blocks) {
  uint32_t each = min(count / blocks, (CUDA_CHANNELS + blocks - 1) / blocks), nth = index / blocks;
  index = nth < each ? index % blocks * each + nth : (uint32_t)CUDA_CHANNELS;
  count = each * blocks;
}

// Gets the next job; may wait for it. False: there is no further job. [warp]
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

// Walks over the tokens of a channel, in their order.
struct token_walk {
  const uint64_t *seats;
  uint32_t index, tokens, lane, group;
  uint32_t low, high, live; // for a group of 32 tokens: the seats of the lane's token; the tokens that are left
  bool all;                 // includes tokens without a destination

  __device__ __forceinline__ token_walk(const uint64_t *seats, uint32_t index, uint32_t tokens, bool all)
      : seats(seats), index(index), tokens(tokens), lane(threadIdx.x % WARP), group(0), low(0), high(0), live(0),
        all(all) {}
  // Gets the next token and its seats, without removing it; take() removes it. False: there is none. [warp]
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
