// Parses time limits and lists of nodes in Slurm's form, and sizes.
#ifndef SLURM_SCHEMA_WORDS_H
#define SLURM_SCHEMA_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NULL: it is a time limit in Slurm's form, and not 0; else a text that says what would be right. `*seconds` may be
// NULL; 0 means "UNLIMITED" or "INFINITE".
const char *slurm_time_limit_read(const char *text, uint64_t *seconds);
const char *slurm_time_limit_check(const char *text);

// NULL: it is a list of nodes in Slurm's form, for instance "n[01-16,20],login"; else a text that says what would be
// right. `*count`, which may be NULL, gets the number of nodes.
const char *slurm_node_list_read(const char *text, size_t *count);
const char *slurm_node_list_check(const char *text);

// Checks names, and texts that become part of a #SBATCH line: a line break in them would begin a command.
const char *slurm_line_check(const char *text);

// Reads a size as bytes, with powers of 1024: "64kb", "8 GB", "512". False: it is not a size.
bool slurm_size_read(const char *text, uint64_t *bytes);

// Whether the text can be the name of an environment variable and of a file.
bool slurm_is_variable(const char *text);
const char *slurm_id_check(const char *text);

#endif
