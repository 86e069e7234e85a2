// A worker of the benchmark: its agent, its memory, and its data about the other workers.
#ifndef BENCH_TRANSFER_WORKER_H
#define BENCH_TRANSFER_WORKER_H

#include "bench/common/sync.h"
#include "bench/transfer/pairs.h"
#include "bench/transfer/storage.h"
#include "meet/meet.h"

// A buffer of another worker, as that worker describes it.
struct transfer_remote {
  weft_region_t region;
  uint64_t address;
  char memory[32], gpu[40]; // "host", "cuda:0"; the GPU's identity
};

struct transfer_other {
  uint32_t processors; // that it may use
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
  struct bench_sync sync;        // of workers that meet
  uint64_t window;               // number of the last window that was started
  uint64_t seed, iteration;      // of contents
};

// Opens the worker, and exchanges data with the other workers. `meet` must outlive it.
int transfer_worker_open(struct transfer_worker *worker, const struct transfer_plan *plan, struct meet *meet);
void transfer_worker_close(struct transfer_worker *worker);

// Waits until all workers have reached this step; their work before it may take a while.
int transfer_worker_step(struct transfer_worker *worker, const char *name);

// Returns when all workers are ready for the next window, at its common start. PEER_LOST; TIMEOUT names who is missing;
// CANCELED.
int transfer_worker_start(struct transfer_worker *worker);

#endif
