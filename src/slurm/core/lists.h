// Lists of a run's words and settings, in the memory of their batch.
#ifndef SLURM_CORE_LISTS_H
#define SLURM_CORE_LISTS_H

#include "slurm/core/memory.h"
#include "slurm/run_spec.h"

// Adds a string to a list; it is not copied.
void slurm_words_add(struct slurm_memory *memory, struct slurm_words *words, const char *word);

// Splits a line into words by the shell's rules for quotes and backslashes, without expansions. False: a quote in it is
// not closed.
bool slurm_words_split(struct slurm_memory *memory, struct slurm_words *words, const char *line);

void slurm_settings_add(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value);

// Sets a name to a value; replaces an earlier value of that name.
void slurm_settings_set(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value);

void slurm_settings_sort(struct slurm_settings *settings); // by name

#endif
