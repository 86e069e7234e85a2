// Shows how a batch goes on.
#ifndef SLURM_FOLDER_FOLLOW_H
#define SLURM_FOLDER_FOLLOW_H

#include <stdio.h>

#include "slurm/folder/record.h"

// Prints a line for each thing that happens to a run: it gets nodes, a phase begins or ends, it ends. Returns when all
// runs have ended: 0, and `*bad` is how many have not passed; CANCELED when a signal asked to stop
// (base/signal/stop.h): the jobs go on. A Slurm that does not answer is told once, and asked again.
int slurm_follow(const struct slurm_record *record, FILE *out, size_t *bad);

#endif
