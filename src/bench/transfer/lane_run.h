// The interface between the requests of a lane and its loops.
#ifndef BENCH_TRANSFER_LANE_RUN_H
#define BENCH_TRANSFER_LANE_RUN_H

#include "bench/transfer/lane.h"

// Creates the slot's requests again. None of them may be in flight.
int transfer_lane_renew(struct transfer_lane *lane, uint32_t slot);

#endif
