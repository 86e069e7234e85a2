// How much of the host's memory is free.
#include <stdint.h>
#include <stdio.h>

#include "limits/limits.h"

uint64_t limits_memory_available(void) {
  char line[128];
  unsigned long long kib;
  uint64_t bytes = UINT64_MAX;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && bytes == UINT64_MAX && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
      bytes = kib * 1024;
  if (file)
    fclose(file);
  return bytes;
}
