// The workers as each sees them while patterns run: who has come to the start of a run, when it starts, and who has
// sent all that was to be sent. They talk by notifications, for the store would be far too slow.
//
// A run has a number that all know beforehand. Those who take part send "ready" to the first of them; it chooses the
// time of the start, some tenths of a millisecond ahead, and tells all. Who has moved a pair's bytes tells the other
// end.
#ifndef BENCH_TRAFFIC_CREW_H
#define BENCH_TRAFFIC_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

#include "meet/meet.h"

struct traffic_mate {
  weft_peer_t peer;     // WEFT_PEER_SELF: this worker
  uint64_t ready, done; // runs: 0 is none
};

struct traffic_crew {
  struct meet *meet;
  weft_agent_t *agent;
  int wake;            // the agent's descriptor
  uint32_t rank, size; // of meet
  uint32_t timeout_ms;
  bool crowded;               // this host has more workers than processors
  bool roomy;                 // it has two for each: one for the agent's thread too
  struct traffic_mate *mates; // [size]
  int64_t ahead_ns;           // how far rank 0's clock is ahead of this worker's
  uint64_t error_ns;          // by how much that may be wrong; 0: it is the same clock
  uint64_t go, go_ns;         // the last run that was begun, and when by rank 0's clock
  uint64_t pong_ns;           // rank 0's clock in its last answer; 0: none has come
  uint32_t asking;            // rank 0: workers that still compare their clocks
};

// Peers are in mates[]. Compares the clocks, where `other_clock` says of rank r that its clock is another one than rank
// 0's: all workers call it together. TIMEOUT, PEER_LOST, CANCELED.
int traffic_crew_open(struct traffic_crew *crew, const bool *other_clock);
void traffic_crew_close(struct traffic_crew *crew);

// Waits until those of ranks[count] (in ascending order, this one among them) have come to the run, and until it
// starts: at *start_ns by this worker's clock. The same for all of them, but for error_ns.
int traffic_crew_start(struct traffic_crew *crew, uint64_t run, const uint32_t *ranks, uint32_t count,
                       uint64_t *start_ns);
// This worker has moved all that it had to move between itself and that one.
int traffic_crew_tell_done(struct traffic_crew *crew, uint64_t run, uint32_t rank);
int traffic_crew_await_done(struct traffic_crew *crew, uint64_t run, uint32_t rank);

// Sleeps until the deadline, and goes on serving peers. CANCELED, PEER_LOST.
int traffic_crew_sleep(struct traffic_crew *crew, uint64_t until_ns);
// Whether anything asks to end: PEER_LOST names who died, CANCELED a signal.
int traffic_crew_look(struct traffic_crew *crew);
// A transfer failed with this error and sentence: who died, where that is known within a moment; else them.
int traffic_crew_blame(struct traffic_crew *crew, int err, const char *sentence, uint32_t rank);

#endif
