// The progress of a load over time, in bounded memory, however long the load runs.
#ifndef P2P_METER_H
#define P2P_METER_H

#include <stdint.h>

enum { P2P_STAMPS = 1024 }; // of a run

struct p2p_stamp {
  uint64_t ns, ended; // a time, and the number of transfers that had ended by then
};

// Begins as zeros, with `every` 1.
struct p2p_meter {
  struct p2p_stamp list[P2P_STAMPS], last;
  uint32_t count;
  uint64_t looks, every; // how many looks there were; every `every`-th look is in the list
};

void p2p_meter_add(struct p2p_meter *meter, uint64_t ns, uint64_t ended);
// The number of transfers that ended in that time, interpolated between stamps. There must be at least one stamp.
double p2p_meter_between(const struct p2p_meter *meter, uint64_t from, uint64_t until);

#endif
