// The start line of timed windows: all workers begin at one time, which rank 0 names, each by its own clock.
//
// It goes by notifications of the agents: a worker tells rank 0 that it is ready, and rank 0 tells all when to begin, a
// little later than now. How far a host's clock is from that of rank 0's is measured once by pings; it is known within
// half of the shortest round trip.
#ifndef BENCH_TRANSFER_START_H
#define BENCH_TRANSFER_START_H

#include "bench/transfer/worker.h"

// Measures the offset of this host's clock: worker->offset_ns. In step with the others.
int transfer_start_open(struct transfer_worker *worker);
// Returns when all are ready and the time has come. PEER_LOST; TIMEOUT names who is missing; CANCELED.
int transfer_start_wait(struct transfer_worker *worker);

#endif
