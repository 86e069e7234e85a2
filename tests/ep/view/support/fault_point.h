// Places inside an operation at which a test strikes a rank. The operation runs with setup.apart, so that its halves
// are calls of their own; inside them the places are found by the rows that go out and the flags that are up.
#ifndef TESTS_EP_PLACE_H
#define TESTS_EP_PLACE_H

#include "ep/support/rank.h"

enum place {
  PLACE_DISPATCH_FIRST_ROW, // nothing has been written to anybody
  PLACE_DISPATCH_ROWS,      // some rows of the first peer, no flag
  PLACE_DISPATCH_PEERS,     // the first peer has everything, the others nothing
  PLACE_DISPATCH_SENT,      // every peer has everything
  PLACE_DISPATCH_HEARD,     // everybody's rows have come, nothing is answered
  PLACE_COMBINE_FIRST_ROW,
  PLACE_COMBINE_ROWS,
  PLACE_COMBINE_PEERS,
  PLACE_COMBINE_SENT,
  PLACE_BETWEEN, // after an operation
};

// Calls `strike`, once, when the rank's next operation comes to that place. A process has one such rank.
void place_arm(struct rank *rank, enum place place, void (*strike)(struct rank *rank));

// To be called by setup.at.
void place_reach(struct rank *rank, enum rank_step step);

#endif
