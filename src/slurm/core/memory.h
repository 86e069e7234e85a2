// The memory of a batch: strings and lists that live as long as the batch, and are freed together. A caller checks
// `failed` once, after all its allocations.
#ifndef SLURM_CORE_MEMORY_H
#define SLURM_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct slurm_memory {
  struct slurm_block *blocks;
  bool failed; // memory ran out: some string is "", or some list is too short
};

// Zeroed memory; NULL: memory ran out.
void *slurm_memory_take(struct slurm_memory *memory, size_t size);

// A copy of the text, or the formatted text; "" if memory ran out. NULL stays NULL.
const char *slurm_memory_keep(struct slurm_memory *memory, const char *text);
const char *slurm_memory_print(struct slurm_memory *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A list of `count` items of `size` with room for one more: `list` itself, or a larger copy. NULL: no memory.
void *slurm_memory_room(struct slurm_memory *memory, void *list, size_t count, size_t size);

void slurm_memory_free(struct slurm_memory *memory);

#endif
