// Between the requests of a lane and its loops.
#ifndef BENCH_TRANSFER_LANE_RUN_H
#define BENCH_TRANSFER_LANE_RUN_H

#include "bench/transfer/lane.h"

// Makes the slot's requests anew. None of them is in flight.
int transfer_lane_renew(struct transfer_lane *lane, uint32_t slot);

#endif
