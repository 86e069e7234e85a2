// Lists of a run's words and settings, in the memory of their batch.
#ifndef SLURM_CORE_LISTS_H
#define SLURM_CORE_LISTS_H

#include "slurm/core/memory.h"
#include "slurm/run_spec.h"

// Strings are kept as they are, not copied.
void slurm_words_add(struct slurm_memory *memory, struct slurm_words *words, const char *word);

// The words of a line, by the shell's rules for quotes and backslashes, without its expansions. False: a quote in it
// has no end.
bool slurm_words_split(struct slurm_memory *memory, struct slurm_words *words, const char *line);

void slurm_settings_add(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value);

// The same, in the place of an earlier one of that name.
void slurm_settings_set(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value);

void slurm_settings_sort(struct slurm_settings *settings); // by name

#endif
