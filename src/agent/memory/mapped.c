// Asks the kernel by msync(MS_ASYNC), which has nothing to write since Linux 2.6.19 and still answers ENOMEM for a
// range with a hole (msync(2)). It walks mappings, not pages, so 1 TiB costs what 4 KiB cost.
#include "agent/memory/mapped.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

// From a page's first byte on.
static bool is_mapped(uint64_t address, uint64_t length) {
  return msync((void *)(uintptr_t)address, length, MS_ASYNC) == 0 || errno != ENOMEM;
}

// The first page that is not mapped is found by halves.
uint64_t mapped_bytes(uint64_t address, uint64_t length) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = address / page * page;
  uint64_t good = 0, bad = (address - first + length - 1) / page + 1; // pages: so many are mapped, so many are not
  if (bad * page >= length && is_mapped(first, bad * page)) // all pages together are no range that the kernel accepts
    return length;
  while (bad - good > 1) {
    uint64_t half = good + (bad - good) / 2;
    if (is_mapped(first + good * page, (half - good) * page))
      good = half;
    else
      bad = half;
  }
  return good == 0 ? 0 : first + good * page - address;
}
