// The memory of a batch: strings and lists that live as long as the batch, and go together. A caller that has taken
// all that it wants asks once whether there was enough.
#ifndef SLURM_CORE_MEMORY_H
#define SLURM_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct slurm_memory {
  struct slurm_block *blocks;
  bool failed; // there was too little: some string is "", some list shorter than it should be
};

// Zeroed; NULL when there is no memory.
void *slurm_memory_take(struct slurm_memory *memory, size_t size);

// A copy of the text, or what the format makes; "" when there is no memory. NULL stays NULL.
const char *slurm_memory_keep(struct slurm_memory *memory, const char *text);
const char *slurm_memory_print(struct slurm_memory *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A list of `count` items of `size` with room for one more: `list` itself, or a larger copy. NULL: no memory.
void *slurm_memory_room(struct slurm_memory *memory, void *list, size_t count, size_t size);

void slurm_memory_free(struct slurm_memory *memory);

#endif
