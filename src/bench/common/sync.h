// Synchronisation of workers while something is timed: which workers have reached the start of a run, when it starts,
// and which workers have sent all their data. They use notifications, since the store would be far too slow.
//
// A run has a number that all workers know beforehand. The workers that take part send "ready" to the first of them. It
// chooses the time of the start, some tenths of a millisecond ahead, and sends it to all. A worker that has moved a
// pair's bytes notifies the other end.
#ifndef BENCH_COMMON_SYNC_H
#define BENCH_COMMON_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

#include "meet/meet.h"

struct bench_sync_peer {
  weft_peer_t peer;     // WEFT_PEER_SELF: this worker
  uint64_t ready, done; // runs: 0 is none
  bool other_clock;     // its clock is not the clock of rank 0
  uint64_t compared;    // on rank 0: how often the peer has compared its clock
};

struct bench_sync {
  struct meet *meet;
  weft_agent_t *agent;
  int wake;            // the agent's descriptor
  uint32_t rank, size; // of meet
  uint32_t timeout_ms;
  // how long a worker may be late at a start, because of its work before; bench_sync_init() sets it to timeout_ms
  uint32_t start_ms;
  bool crowded;                  // this host has more workers than processors
  bool roomy;                    // this host has two processors for each worker: also one for the agent's thread
  struct bench_sync_peer *peers; // [size]
  int64_t ahead_ns;              // how far rank 0's clock is ahead of this worker's
  uint64_t error_ns;             // possible error of ahead_ns; 0: it is the same clock
  bool apart;                    // some workers have other clocks: messages to them take longer
  uint64_t go, go_ns;            // the last run that was begun, and its start by rank 0's clock
  uint64_t pong_ns;              // rank 0's clock in its last answer; 0: no answer yet
  uint64_t rounds;               // how often clocks were compared
};

// Makes peers[], still without peers, and compares the number of processors with the workers of this host. NOMEM.
int bench_sync_init(struct bench_sync *sync, struct meet *meet, uint32_t timeout_ms);
// To be called by all workers together, when the agent and the peers exist. Compares the clocks of workers whose boot
// id differs from rank 0's (boots[size]; NULL or "": not known). TIMEOUT, PEER_LOST, CANCELED.
int bench_sync_open(struct bench_sync *sync, const char *const *boots);
void bench_sync_close(struct bench_sync *sync);
// Compares the clocks once more, since they drift apart. To be called by all workers together. TIMEOUT, PEER_LOST,
// CANCELED.
int bench_sync_compare(struct bench_sync *sync);

// Waits until ranks[count] (in ascending order, including this one; NULL: all) have reached the run, and until it
// starts, at *start_ns by this worker's clock. The time is the same for all of them, except for error_ns. TIMEOUT names
// the missing workers, as the first of the ranks reports them: it waits for start_ms, and the others wait for it more
// than twice as long.
int bench_sync_start(struct bench_sync *sync, uint64_t run, const uint32_t *ranks, uint32_t count, uint64_t *start_ns);
// Notifies that worker that this one has moved all bytes between the two.
int bench_sync_send_done(struct bench_sync *sync, uint64_t run, uint32_t rank);
int bench_sync_await_done(struct bench_sync *sync, uint64_t run, uint32_t rank);

// Sleeps until the deadline, and serves peers meanwhile. CANCELED, PEER_LOST.
int bench_sync_sleep(struct bench_sync *sync, uint64_t until_ns);
// Checks for a reason to end: PEER_LOST names the worker that died; CANCELED: a signal came.
int bench_sync_look(struct bench_sync *sync);
// To be called after a transfer failed with this error and sentence. Returns PEER_LOST with the worker that died, if
// that becomes known within a moment; otherwise the given error.
int bench_sync_blame(struct bench_sync *sync, int err, const char *sentence, uint32_t rank);

#endif
