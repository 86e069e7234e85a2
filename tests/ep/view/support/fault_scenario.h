// What befalls some ranks of a group, and what the others must make of it: processes, and real signals. The ranks found
// a group and operate; at a place in an operation the victims are struck. The survivors' operation must list just what
// the victims did not bring, judged by the oracle; then comes the view without them, with nothing of them left mapped
// or open; then each victim rejoins, as a new process or, if it was only stopped, after it has found itself FENCED; and
// in the end the store holds no key of the group.
#ifndef TESTS_EP_STORY_H
#define TESTS_EP_STORY_H

#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum { SCENARIO_RANKS = 5 };

enum fault {
  SCENARIO_KILL,
  SCENARIO_STOP, // woken when the others have gone on without it; it then sends rubbish
};

struct fault_scenario {
  struct setup setup;
  uint32_t ranks;   // founders, from rank 0
  uint32_t victims; // bit r: rank r is one; struck in the same operation
  enum place place;
  enum fault blow;
};

// Ends the test on failure.
void fault_scenario_run(const struct fault_scenario *story);

#endif
