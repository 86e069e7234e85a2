// When which processes of the program that a test names start (--as-written).
#ifndef SLURM_EXPAND_LAUNCHES_H
#define SLURM_EXPAND_LAUNCHES_H

#include "plan/plan.h"
#include "slurm/expand/maker.h"

// All processes of all nodes, since the plan is not known.
void slurm_launches_at_once(const struct slurm_maker *maker, struct slurm_run *run);

// Those that each phase adds. If there are too few slots, this is a fault at the place of the plan.
void slurm_launches_by_phase(const struct slurm_maker *maker, struct slurm_run *run, const struct plan *plan,
                             struct toml_place at);

#endif
