// The workers as each sees them while something is timed: who has come to the start of a run, when it starts, and who
// has sent all that was to be sent. They talk by notifications, for the store would be far too slow.
//
// A run has a number that all know beforehand. Those who take part send "ready" to the first of them; it chooses the
// time of the start, some tenths of a millisecond ahead, and tells all. A worker that has moved a pair's bytes
// tells the other end.
#ifndef BENCH_COMMON_SYNC_H
#define BENCH_COMMON_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

#include "meet/meet.h"

struct bench_sync_peer {
  weft_peer_t peer;     // WEFT_PEER_SELF: this worker
  uint64_t ready, done; // runs: 0 is none
  bool other_clock;     // it is not rank 0's
  uint64_t compared;    // rank 0: how often it has compared its clock
};

struct bench_sync {
  struct meet *meet;
  weft_agent_t *agent;
  int wake;            // the agent's descriptor
  uint32_t rank, size; // of meet
  uint32_t timeout_ms;
  uint32_t start_ms; // so long somebody may be missing at a start, for what it does before; bench_sync_init()
                     // makes it timeout_ms
  bool crowded;      // this host has more workers than processors
  bool roomy;        // it has two for each: one for the agent's thread too
  struct bench_sync_peer *peers; // [size]
  int64_t ahead_ns;              // how far rank 0's clock is ahead of this worker's
  uint64_t error_ns;             // by how much that may be wrong; 0: it is the same clock
  bool apart;                    // some workers have other clocks: messages to them take longer
  uint64_t go, go_ns;            // the last run that was begun, and when by rank 0's clock
  uint64_t pong_ns;              // rank 0's clock in its last answer; 0: none has come
  uint64_t rounds;               // how often clocks were compared
};

// Makes peers[], of nobody yet, and looks how many processors there are for the workers of this host. NOMEM.
int bench_sync_init(struct bench_sync *sync, struct meet *meet, uint32_t timeout_ms);
// Agent and peers are there now. Compares the clocks, of workers whose boot id is not that of rank 0 (boots[size]; NULL
// or "": not known): all workers call it together. TIMEOUT, PEER_LOST, CANCELED.
int bench_sync_open(struct bench_sync *sync, const char *const *boots);
void bench_sync_close(struct bench_sync *sync);
// Compares the clocks once more, for they drift apart: all workers call it together. TIMEOUT, PEER_LOST, CANCELED.
int bench_sync_compare(struct bench_sync *sync);

// Waits until those of ranks[count] (in ascending order, this one among them; NULL: all) have come to the run, and
// until it starts: at *start_ns by this worker's clock. The same for all of them, but for error_ns. TIMEOUT names who
// is missing, which the first of them says: it waits for start_ms, and the others for it more than twice as long.
int bench_sync_start(struct bench_sync *sync, uint64_t run, const uint32_t *ranks, uint32_t count, uint64_t *start_ns);
// This worker has moved all that it had to move between itself and that one.
int bench_sync_send_done(struct bench_sync *sync, uint64_t run, uint32_t rank);
int bench_sync_await_done(struct bench_sync *sync, uint64_t run, uint32_t rank);

// Sleeps until the deadline, and goes on serving peers. CANCELED, PEER_LOST.
int bench_sync_sleep(struct bench_sync *sync, uint64_t until_ns);
// Whether anything asks to end: PEER_LOST names who died, CANCELED a signal.
int bench_sync_look(struct bench_sync *sync);
// A transfer failed with this error and sentence: who died, where that is known within a moment; else them.
int bench_sync_blame(struct bench_sync *sync, int err, const char *sentence, uint32_t rank);

#endif
