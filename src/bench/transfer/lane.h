// The transfers of one thread: created in advance, posted and timed in a loop that allocates nothing.
#ifndef BENCH_TRANSFER_LANE_H
#define BENCH_TRANSFER_LANE_H

#include "base/fail.h"
#include "bench/transfer/buffer.h"

// The places of one block on both sides.
struct transfer_block {
  struct transfer_buffer *buffer; // this side, from `offset` on
  uint64_t offset;
  weft_peer_t peer; // there
  weft_region_t region;
  uint64_t address;
  uint64_t stream, at; // place of the block in the other side's stream, for its contents
};

// The description of the transfers. An iteration is a group of requests, one for each peer or device, each of `batch`
// blocks.
struct transfer_load {
  weft_agent_t *agent;
  enum weft_transfer_op op;
  const char *transport; // NULL: the cheapest
  uint64_t block, batch;
  uint32_t group, depth, iterations, warmup; // iterations of this thread
  uint32_t variants;                         // number of places that a slot uses in rotation, if places are random
  bool recreate, prepared;
  struct transfer_buffer *reregister; // [num_reregister] buffers that are registered again before each iteration
  uint32_t num_reregister;            // 0: never
  uint32_t timeout_ms;
  // Block `number` of the batch; `slot` is below depth.
  void (*place)(void *arg, uint32_t thread, uint32_t slot, uint32_t member, uint32_t variant, uint64_t number,
                struct transfer_block *block);
  bool (*ended)(void *arg); // called from time to time; true: a peer for which the lane waits has ended
  void *arg;
};

struct transfer_request {
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
};

struct transfer_lane {
  const struct transfer_load *load;
  uint32_t thread;
  struct transfer_request *requests; // [depth][variants][group]
  struct weft_descriptor *here, *there;
  uint32_t *variant;     // [depth] the current variant of each slot
  uint64_t *slot_number; // [depth] number of the iteration in flight in each slot
  // Times of the last run, by iteration, in ticks; `posted` 0: not measured for this iteration.
  uint64_t *started, *posted, *ended;
  uint64_t *prep; // of iterations if requests are created again in each, else of requests
  uint32_t num_prep;
  uint64_t begin_ns, end_ns, begin_ticks;
  uint64_t rate_begin_ns, rate_end_ns; // from transfer_lane_rate(); 0: it did not run
  char transport[16];                  // transport that carries the transfers
  uint32_t spin_limit;                 // unsuccessful polls before the lane yields the processor
  int err;                             // error of the last run, and its sentence
  char why[FAIL_DETAIL_SIZE];
};

// Makes the requests. Errors are those of weft_transfer_create().
int transfer_lane_open(struct transfer_lane *lane, const struct transfer_load *load, uint32_t thread);
void transfer_lane_close(struct transfer_lane *lane);

// Runs `count` iterations, at most as many as the lane was made for. After an error no transfer is in flight any more.
// CANCELED: a signal; PEER_LOST: load->ended() returned true.
int transfer_lane_run(struct transfer_lane *lane, uint32_t count);

// Whether reading the clock for each request would distort the measurement: for small requests, one after the other.
bool transfer_lane_is_brief(const struct transfer_lane *lane);
// Runs the same loop of such a lane without reading a clock, for the rate only: lane->rate_begin_ns and rate_end_ns.
int transfer_lane_rate(struct transfer_lane *lane, uint32_t count);

#endif
