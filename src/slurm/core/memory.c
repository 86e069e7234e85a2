// A list of blocks. When a list of items grows, its smaller copies stay allocated until the end.
#include "slurm/core/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slurm_block {
  struct slurm_block *next;
  _Alignas(max_align_t) char data[];
};

void *slurm_memory_take(struct slurm_memory *memory, size_t size) {
  struct slurm_block *block = size < SIZE_MAX / 2 ? calloc(1, sizeof *block + size) : NULL;
  if (!block) {
    memory->failed = true;
    return NULL;
  }
  block->next = memory->blocks;
  memory->blocks = block;
  return block->data;
}

const char *slurm_memory_keep(struct slurm_memory *memory, const char *text) {
  if (!text)
    return NULL;
  char *copy = slurm_memory_take(memory, strlen(text) + 1);
  return copy ? strcpy(copy, text) : "";
}

const char *slurm_memory_print(struct slurm_memory *memory, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = slurm_memory_take(memory, (size_t)size + 1);
  if (!text)
    return "";
  va_start(args, format);
  vsnprintf(text, (size_t)size + 1, format, args);
  va_end(args);
  return text;
}

// Lists have room for a power of two of items.
void *slurm_memory_room(struct slurm_memory *memory, void *list, size_t count, size_t size) {
  if (count & (count - 1) || (list && count == 0))
    return list;
  char *larger = slurm_memory_take(memory, (count ? 2 * count : 1) * size);
  if (larger && count)
    memcpy(larger, list, count * size);
  return larger;
}

void slurm_memory_free(struct slurm_memory *memory) {
  while (memory->blocks) {
    struct slurm_block *next = memory->blocks->next;
    free(memory->blocks);
    memory->blocks = next;
  }
}
