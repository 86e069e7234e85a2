// A worker of the benchmark: its agent, its memory, and what it knows of the others.
#ifndef BENCH_TRANSFER_WORKER_H
#define BENCH_TRANSFER_WORKER_H

#include "bench/transfer/pairs.h"
#include "bench/transfer/storage.h"
#include "meet/meet.h"

// A buffer of another worker's, as it says.
struct transfer_remote {
  weft_region_t region;
  uint64_t address;
  char memory[32], gpu[40]; // "host", "cuda:0"; the GPU's identity
};

struct transfer_other {
  weft_peer_t peer; // 0: this worker has nothing to do with it
  uint32_t num_buffers;
  struct transfer_remote buffers[TRANSFER_MAX_DEVICES];
};

struct transfer_worker {
  const struct transfer_plan *plan;
  struct meet *meet; // NULL: storage, without other workers
  uint32_t rank, size;
  weft_agent_t *agent;
  struct transfer_pairs pairs;
  uint32_t *mine; // [num_mine] pairs that this worker initiates
  uint32_t num_mine;
  struct transfer_buffer buffers[TRANSFER_MAX_DEVICES];
  uint32_t num_buffers;
  struct transfer_other *others; // [size]
  struct transfer_stored stored; // storage
  uint64_t round;                // windows that were started (start.h)
  int64_t offset_ns;             // what added to this host's clock gives that of rank 0's
  uint64_t seed, iteration;      // of contents
};

// Opens all of it, and exchanges with the others what they need to know. `meet` outlives it.
int transfer_worker_open(struct transfer_worker *worker, const struct transfer_plan *plan, struct meet *meet);
void transfer_worker_close(struct transfer_worker *worker);

// Waits until all workers have come to this step; what they do before it may take a while.
int transfer_worker_step(struct transfer_worker *worker, const char *name);

#endif
