// Nodes by their names: lists as Slurm writes them, one taken from another.
#ifndef SLURM_EXPAND_NAMES_H
#define SLURM_EXPAND_NAMES_H

#include "slurm/core/lists.h"

// Adds each node that `list` names, which slurm_node_list_read() has found right: "n[01-02],login" is three.
void slurm_names_add(struct slurm_memory *memory, struct slurm_words *names, const char *list);

// In order, each once.
void slurm_names_sort(struct slurm_words *names);

// Those of `all` that `taken` does not have, both sorted, as a list in `memory`: "n[03-04],login". NULL: there is none.
const char *slurm_names_without(struct slurm_memory *memory, const struct slurm_words *all,
                                const struct slurm_words *taken);

#endif
