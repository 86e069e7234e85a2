// Places inside an operation at which a test stops or kills a rank. The operation runs with setup.apart, so that its
// halves are separate calls; inside them the rows that are sent and the flags that are set identify the place.
#ifndef TESTS_EP_PLACE_H
#define TESTS_EP_PLACE_H

#include "ep/support/rank.h"

enum place {
  PLACE_DISPATCH_FIRST_ROW, // nothing has been written to any peer
  PLACE_DISPATCH_ROWS,      // some rows have been written to the first peer, but no flag
  PLACE_DISPATCH_PEERS,     // the first peer has everything, the others nothing
  PLACE_DISPATCH_SENT,      // every peer has everything
  PLACE_DISPATCH_HEARD,     // the rows of all peers have arrived, and no row has been answered
  PLACE_COMBINE_FIRST_ROW,
  PLACE_COMBINE_ROWS,
  PLACE_COMBINE_PEERS,
  PLACE_COMBINE_SENT,
  PLACE_BETWEEN, // after an operation
};

// Calls `strike`, once, when the rank's next operation reaches that place. A process has one such rank.
void place_arm(struct rank *rank, enum place place, void (*strike)(struct rank *rank));

// setup.at has to call this function for every step.
void place_reach(struct rank *rank, enum rank_step step);

#endif
