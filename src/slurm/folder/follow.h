// Shows the progress of a batch.
#ifndef SLURM_FOLDER_FOLLOW_H
#define SLURM_FOLDER_FOLLOW_H

#include <stdio.h>

#include "slurm/folder/record.h"

// Prints a line for each event of a run: it gets nodes, a phase begins or ends, it ends. Returns 0 when all runs have
// ended; `*bad` is the number of runs that have not passed. CANCELED: a signal asked to stop (base/signal/stop.h); the
// jobs go on. If Slurm does not answer, this is printed once, and the query is repeated.
int slurm_follow(const struct slurm_record *record, FILE *out, size_t *bad);

#endif
