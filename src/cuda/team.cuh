// How the warps of a block share the work. *Workers* make rows in shared memory; *couriers*, one warp for each place of
// a ring, carry them to the peers and raise their flags, so that no worker waits for a link.
#ifndef CUDA_TEAM_CUH
#define CUDA_TEAM_CUH

#include "cuda/ptx.cuh"

enum {
  WARP = 32,
  TEAM = 7 * WARP, // threads that handle one row: 7 * 2^n divides most hidden sizes' pieces well, and others not badly
  COURIERS = 4,    // warps, and places of a block's ring
  BLOCK = 4 * TEAM + COURIERS * WARP,
};

// Named barriers of a block; 0 is __syncthreads.
enum {
  BARRIER_FULL = 1,                        // + place
  BARRIER_EMPTY = BARRIER_FULL + COURIERS, // + place
  BARRIER_ROLE = BARRIER_EMPTY + COURIERS,
};

struct team {
  uint32_t thread, lane, warp; // within the team
  uint32_t index, count;       // among all teams of the kernel that do the same
};

// Rows on their way out of a block. Mail says what a courier needs to know of a row.
template <typename Mail> struct ring {
  Mail mail[COURIERS];
  bool end[COURIERS];
};

// The workers' side. `workers`: their threads.
template <typename Mail> struct outbox {
  ring<Mail> *ring;
  char *stage; // [COURIERS][stage_size]
  uint32_t stage_size, workers, round;

  // Where the next row is to be made: waits until the courier is done with what was there. [all workers]
  __device__ __forceinline__ char *next() {
    uint32_t place = round % COURIERS;
    if (round >= COURIERS)
      ptx::barrier(BARRIER_EMPTY + place, workers + WARP);
    return stage + place * stage_size;
  }
  // Hands the row over. `first`: the one thread that has the mail.
  __device__ __forceinline__ void send(const Mail &mail, bool first, bool end = false) {
    uint32_t place = round++ % COURIERS;
    if (first) {
      ring->mail[place] = mail;
      ring->end[place] = end;
    }
    ptx::bulk_fence();
    ptx::barrier_arrive(BARRIER_FULL + place, workers + WARP);
  }
  // No more rows.
  __device__ __forceinline__ void close(bool first) {
    for (int i = 0; i < COURIERS; i++) {
      next();
      send(Mail(), first, true);
    }
  }
};

// A courier's life: deliver(mail, stage) for each row of its place, by the whole warp.
template <typename Mail, typename Deliver>
__device__ __forceinline__ void run_courier(const outbox<Mail> &outbox, uint32_t place, Deliver deliver) {
  for (;;) {
    ptx::barrier(BARRIER_FULL + place, outbox.workers + WARP);
    if (outbox.ring->end[place])
      return;
    deliver(outbox.ring->mail[place], outbox.stage + place * outbox.stage_size);
    __syncwarp();
    ptx::barrier_arrive(BARRIER_EMPTY + place, outbox.workers + WARP);
  }
}

// Copies a row to a peer and waits until it is there, where bulk copies exist; else until it has been written. The
// caller raises the flag with a release in lane 0. [warp]
__device__ __forceinline__ void carry(char *to, const char *from, uint32_t size, uint32_t lane) {
#if __CUDA_ARCH__ >= 900
  if (lane == 0)
    ptx::bulk_store(to, from, size);
#else
  for (uint32_t at = lane * 16; at < size; at += WARP * 16)
    ptx::store16(to + at, *(const uint4 *)(from + at));
#endif
}

__device__ __forceinline__ void carried(uint32_t lane) {
#if __CUDA_ARCH__ >= 900
  if (lane == 0) {
    ptx::bulk_commit();
    ptx::bulk_wait();
  }
#endif
  __syncwarp();
}

#endif
