// Finds out by msync(MS_ASYNC) whether a range is mapped: since Linux 2.6.19 this call writes nothing, but it still
// fails with ENOMEM if the range has a hole (msync(2)). The kernel walks mappings for it, not pages, so 1 TiB costs as
// little as 4 KiB.
#include "agent/memory/mapped.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

// `address`: the first byte of a page.
static bool is_mapped(uint64_t address, uint64_t length) {
  return msync((void *)(uintptr_t)address, length, MS_ASYNC) == 0 || errno != ENOMEM;
}

// Finds the first page that is not mapped, by bisection.
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
