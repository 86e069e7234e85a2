// Random lives and random faults, from the simulation's seed.
#ifndef TESTS_SIM_WEATHER_H
#define TESTS_SIM_WEATHER_H

#include "sim/support/sim.h"

enum sim_mishap {
  SIM_JOIN,    // of one
  SIM_RETURN,  // of one to a rank that is free, or soon will be
  SIM_GROW,    // one changes the view in one step: one to four come in, and perhaps one goes
  SIM_LEAVE,   // half of them by closing alone
  SIM_CRASH,   // of one to four, and the others hear it
  SIM_SILENCE, // of one, which only its lease tells
  SIM_ACCUSE,  // of one that is alive
  SIM_PAUSE,   // of one, for up to three times its lease
  SIM_CUT,     // of a watch, for up to three times a lease
  SIM_OUTAGE,  // of the store, for up to three times a lease, with or without its clock
  SIM_RESTART, // of the store, empty
  SIM_MISHAPS
};

struct sim_weather {
  uint64_t gap_ns;               // between two mishaps, on average
  uint32_t members;              // about so many there are to be
  uint32_t weights[SIM_MISHAPS]; // how often which
  bool each_first;               // each kind that has a weight happens once before any at random
};

// Lets so many mishaps happen, and counts them by kind.
void sim_endure(struct sim *sim, const struct sim_weather *weather, uint32_t mishaps, uint32_t happened[SIM_MISHAPS]);

#endif
