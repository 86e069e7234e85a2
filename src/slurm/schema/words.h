// Texts with a form of their own: time limits and lists of nodes, as Slurm reads them, and sizes.
#ifndef SLURM_SCHEMA_WORDS_H
#define SLURM_SCHEMA_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NULL: it is a time limit as Slurm reads it, and none of 0; else what would be right. `*seconds` may be NULL; 0 means
// "UNLIMITED" or "INFINITE".
const char *slurm_time_limit_read(const char *text, uint64_t *seconds);
const char *slurm_time_limit_check(const char *text);

// NULL: it is a list of nodes as Slurm writes it, as "n[01-16,20],login"; else what would be right. `*count`: how many
// nodes it names, may be NULL.
const char *slurm_node_list_read(const char *text, size_t *count);
const char *slurm_node_list_check(const char *text);

// For names, and for what becomes a line of #SBATCH, behind whose end there would be a command.
const char *slurm_line_check(const char *text);

// "64kb", "8 GB", "512": bytes, by powers of 1024. False: it is no size.
bool slurm_size_read(const char *text, uint64_t *bytes);

// Whether it can be the name of an environment variable, and of a file.
bool slurm_is_variable(const char *text);
const char *slurm_id_check(const char *text);

#endif
