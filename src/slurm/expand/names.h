// Lists of node names in Slurm's form, and the difference of two lists.
#ifndef SLURM_EXPAND_NAMES_H
#define SLURM_EXPAND_NAMES_H

#include "slurm/core/lists.h"

// Adds each node that `list` names, for instance three for "n[01-02],login". slurm_node_list_read() has checked `list`.
void slurm_names_add(struct slurm_memory *memory, struct slurm_words *names, const char *list);

// Sorts the names and removes duplicates.
void slurm_names_sort(struct slurm_words *names);

// The names of `all` that are not in `taken` (both sorted), as a list in `memory`: "n[03-04],login". NULL: there are
// none.
const char *slurm_names_without(struct slurm_memory *memory, const struct slurm_words *all,
                                const struct slurm_words *taken);

#endif
