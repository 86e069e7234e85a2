// Scenarios in which some ranks of a group fail, and checks of the other ranks' results. Ranks are processes, and the
// faults are real signals. The ranks found a group and run operations; at a place in an operation the victims are
// killed or stopped. The oracle checks that the survivors' operation lists exactly the data that the victims did not
// send. The next view does not contain the victims, and the survivors have no memory or socket of them mapped or open
// any more. Then each victim rejoins: as a new process or, if it was only stopped, after it has found that it is
// FENCED. At the end the store has no key of the group.
#ifndef TESTS_EP_FAULT_SCENARIO_H
#define TESTS_EP_FAULT_SCENARIO_H

#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum { SCENARIO_RANKS = 5 };

enum fault {
  SCENARIO_KILL,
  SCENARIO_STOP, // it is woken when the others have continued without it, and then sends wrong data
};

struct fault_scenario {
  struct setup setup;
  uint32_t ranks;   // founders, from rank 0
  uint32_t victims; // bit r: rank r is a victim; all victims fail in the same operation
  enum place place;
  enum fault blow;
};

// Ends the test on failure.
void fault_scenario_run(const struct fault_scenario *scenario);

#endif
