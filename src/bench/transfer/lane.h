// The transfers of one thread: made before, posted and timed in a loop that allocates nothing.
#ifndef BENCH_TRANSFER_LANE_H
#define BENCH_TRANSFER_LANE_H

#include "base/fail.h"
#include "bench/transfer/buffer.h"

// Where one block lies on both sides.
struct transfer_block {
  struct transfer_buffer *buffer; // here, from `offset` on
  uint64_t offset;
  weft_peer_t peer; // there
  weft_region_t region;
  uint64_t address;
  uint64_t stream, at; // its place in what the other side holds, for its contents
};

// What is moved, and how. An iteration is a group of requests, one for each peer or device, each of `batch` blocks.
struct transfer_load {
  weft_agent_t *agent;
  enum weft_transfer_op op;
  const char *transport; // NULL: the cheapest
  uint64_t block, batch;
  uint32_t group, depth, iterations, warmup; // iterations of this thread
  uint32_t variants;                         // places that a slot goes through in turn, where they are random
  bool recreate, prepared;
  struct transfer_buffer *reregister; // [num_reregister] all anew before each iteration
  uint32_t num_reregister;            // 0: never
  uint32_t timeout_ms;
  // Block `number` of the batch; `slot` is below depth.
  void (*place)(void *arg, uint32_t thread, uint32_t slot, uint32_t member, uint32_t variant, uint64_t number,
                struct transfer_block *block);
  bool (*ended)(void *arg); // somebody whom this waits for has gone; asked now and then
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
  uint32_t *variant;     // [depth] whose turn it is
  uint64_t *slot_number; // [depth] of the iteration that is under way in a slot
  // Of the last run, by iteration, in ticks; `posted` 0: of that one it was not looked at.
  uint64_t *started, *posted, *ended;
  uint64_t *prep; // of iterations where they are made anew, else of requests
  uint32_t num_prep;
  uint64_t begin_ns, end_ns, begin_ticks;
  uint64_t rate_begin_ns, rate_end_ns; // of transfer_lane_rate(); 0: it did not run
  char transport[16];                  // that carries it
  uint32_t spin_limit;                 // polls in vain before others get the processor
  int err;                             // of the last run, and its sentence
  char why[FAIL_DETAIL_SIZE];
};

// Makes the requests. Errors are those of weft_transfer_create().
int transfer_lane_open(struct transfer_lane *lane, const struct transfer_load *load, uint32_t thread);
void transfer_lane_close(struct transfer_lane *lane);

// Begins and ends `count` iterations, at most as many as the lane was made for. On an error nothing is under way any
// more. CANCELED: a signal; PEER_LOST: load->ended() said so.
int transfer_lane_run(struct transfer_lane *lane, uint32_t count);

// Whether a clock reading for each request would be a part of what is measured: small ones, one after the other.
bool transfer_lane_is_brief(const struct transfer_lane *lane);
// The same loop of such a lane without a clock in it, for the rate alone: lane->rate_begin_ns and rate_end_ns.
int transfer_lane_rate(struct transfer_lane *lane, uint32_t count);

#endif
