// Who takes part in a phase, with the run's choice of what a negative rank does (--negative).
#ifndef RUN_COMMON_ROSTER_H
#define RUN_COMMON_ROSTER_H

#include "plan/plan.h"
#include "run/common/config.h"

// The ranks of the view with which `phase` starts: its live ranks, and those that are lost in it; with
// RUN_NEGATIVE_LEAVE, the live ranks only. Ascending, into ranks[]; room for as many as the plan names. Returns how
// many.
uint32_t run_roster_start(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t *ranks);

// Whether `rank` is to die in `phase`, and whether it is to leave when it starts.
bool run_roster_dies(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);
bool run_roster_leaves(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);

// Whether `rank`, which leaves, is to wait until those who join are in the view: where none stays, the lowest of those
// who go. A group without a member has nobody who could tell a joiner its first operation.
bool run_roster_waits(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank);

// Whether the `count` ascending ranks are exactly those of `ranks`.
bool run_roster_equal(const struct plan_ranks *ranks, const int32_t *other, uint32_t count);

#endif
