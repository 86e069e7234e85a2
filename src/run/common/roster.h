// The ranks that take part in a phase, depending on what a negative rank does in this run (--negative).
#ifndef RUN_COMMON_ROSTER_H
#define RUN_COMMON_ROSTER_H

#include "plan/plan.h"
#include "run/common/config.h"

// The ranks of the view with which `phase` starts: its live ranks, and those that are lost in it; with
// RUN_NEGATIVE_LEAVE, the live ranks only. Ascending, into ranks[]; room for as many as the plan names. Returns how
// many.
uint32_t run_roster_start(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t *ranks);

// Whether `rank` has to die in `phase`, and whether it has to leave when the phase starts.
bool run_roster_dies(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);
bool run_roster_leaves(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);

// Whether `rank`, which leaves, has to wait until the joining ranks are in the view. If no rank stays, the lowest
// leaving rank waits: a group without a member cannot give a joiner its first operation.
bool run_roster_waits(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);

// Whether the `count` ascending ranks are exactly those of `ranks`.
bool run_roster_equal(const struct plan_ranks *ranks, const int32_t *other, uint32_t count);

#endif
