// How far a load was, and when: in bounded memory, however long it runs.
#ifndef P2P_METER_H
#define P2P_METER_H

#include <stdint.h>

enum { P2P_STAMPS = 1024 }; // of a run

struct p2p_stamp {
  uint64_t ns, ended; // the clock, and transfers that had ended by then
};

// Begins as zeros, with `every` 1.
struct p2p_meter {
  struct p2p_stamp list[P2P_STAMPS], last;
  uint32_t count;
  uint64_t looks, every; // so often it was looked at; one look of so many is in the list
};

void p2p_meter_add(struct p2p_meter *meter, uint64_t ns, uint64_t ended);
// Transfers that ended in that time; between two stamps by their share of it. There is a stamp.
double p2p_meter_between(const struct p2p_meter *meter, uint64_t from, uint64_t until);

#endif
