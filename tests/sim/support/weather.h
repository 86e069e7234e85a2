// Random lives and random faults, from the simulation's seed.
#ifndef TESTS_SIM_WEATHER_H
#define TESTS_SIM_WEATHER_H

#include "sim/support/sim.h"

enum sim_mishap {
  SIM_JOIN,    // of one member
  SIM_RETURN,  // of one member to a rank that is free, or soon will be
  SIM_GROW,    // a member changes the view in one step: one to four come in, and perhaps one is put out
  SIM_LEAVE,   // half of them only close
  SIM_CRASH,   // of one to four members; the others notice it
  SIM_SILENCE, // of one member; only its lease shows it
  SIM_ACCUSE,  // of one member that is alive
  SIM_PAUSE,   // of one member, for up to three times its lease
  SIM_CUT,     // of a watch, for up to three times a lease
  SIM_OUTAGE,  // of the store, for up to three times a lease, with or without its clock
  SIM_RESTART, // of the store, empty
  SIM_MISHAPS
};

struct sim_weather {
  uint64_t gap_ns;               // between two mishaps, on average
  uint32_t members;              // desired number of members
  uint32_t weights[SIM_MISHAPS]; // frequency of each kind
  bool each_first;               // each kind with a weight happens once before the random ones
};

// Lets `mishaps` mishaps happen, and counts them by kind.
void sim_endure(struct sim *sim, const struct sim_weather *weather, uint32_t mishaps, uint32_t happened[SIM_MISHAPS]);

#endif
