// One worker: its agent, its memory, its peers, and its transfers, all made before anything is timed.
#ifndef BENCH_TRAFFIC_WORKER_H
#define BENCH_TRAFFIC_WORKER_H

#include "bench/common/sync.h"
#include "bench/traffic/memory.h"
#include "bench/traffic/traffic.h"

// A pair that this worker starts: one transfer of all its pieces.
struct traffic_lane {
  uint32_t pattern, pair;
  uint32_t other; // rank of the other end
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  bool under_way;
};

// The workers that take part in a pattern, in ascending order.
struct traffic_part {
  uint32_t *ranks;
  uint32_t count;
  bool mine; // this worker is one of them
};

struct traffic_worker {
  const struct traffic_config *config;
  struct traffic_layout layout;
  struct meet *meet;
  weft_agent_t *agent;
  struct traffic_memories memories;
  struct bench_sync sync;
  struct traffic_part *parts; // [patterns]
  struct traffic_lane *lanes; // in the order of patterns
  uint32_t num_lanes;
  uint32_t most_lanes; // of any worker
  uint32_t reporter;   // rank that collects the figures
  uint64_t run;        // number of the last run; the same in all workers
  uint64_t round;      // of contents
  json_t *facts;       // list of the data that each worker gave about itself
};

// All workers call it together. `front`: this worker was started by a user; the lowest such worker is the reporter.
// `token`: that agents share; or NULL.
int traffic_worker_open(struct traffic_worker *worker, const struct traffic_config *config, struct meet *meet,
                        const char *token, bool front);
void traffic_worker_close(struct traffic_worker *worker);

#endif
