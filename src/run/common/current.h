// The progress of a run, as the lead publishes it: the phase that has begun, and the ranks that were lost with their
// agents until then. It is one value, so that a process which knows a phase also knows every earlier loss.
#ifndef RUN_COMMON_CURRENT_H
#define RUN_COMMON_CURRENT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "plan/plan.h"

struct run_lost {
  uint32_t phase; // the rank is missing from this phase on, until it joins a later one
  int32_t rank;
  bool leaves; // the agent leaves: its rank still runs, and has to leave the group
};

// Zero-initialise; free with run_current_free().
struct run_current {
  uint32_t phase; // the plan's num_phases: the end
  uint32_t num_lost;
  struct run_lost *lost; // in the order in which the lead found them; it only grows
};

void run_current_free(struct run_current *current);

// NULL when memory ran out.
json_t *run_current_to_json(const struct run_current *current);

// Frees the old contents. PROTOCOL names what is wrong; NOMEM. After an error `*current` is unchanged.
int run_current_from_json(struct run_current *current, const json_t *json);

// Adds one; NOMEM.
int run_current_add(struct run_current *current, const struct run_lost *lost);

// Whether the run has lost the rank in this phase.
bool run_current_has_lost(const struct run_current *current, uint32_t phase, int32_t rank);

// Removes the losses from number `from` on from the plan.
void run_current_amend(const struct run_current *current, uint32_t from, struct plan *plan);

#endif
