// Reads from /proc/self/pagemap which pages of a mapping are present.
#include "ep/support/touched_pages.h"

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

enum { PAGE = 4096, AT_ONCE = 512 };

static int count(int file, uint64_t first, size_t pages) {
  uint64_t entries[AT_ONCE];
  int present = 0;
  for (size_t done = 0; done < pages;) {
    size_t some = pages - done < AT_ONCE ? pages - done : AT_ONCE, bytes = some * sizeof *entries;
    if (pread(file, entries, bytes, (off_t)((first + done) * sizeof *entries)) != (ssize_t)bytes)
      return -1;
    for (size_t i = 0; i < some; i++)
      present += (entries[i] >> 62) != 0; // present, or swapped
    done += some;
  }
  return present;
}

int pages_present(const void *memory, size_t size) {
  int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  int present = file < 0 ? -1 : count(file, (uintptr_t)memory / PAGE, (size + PAGE - 1) / PAGE);
  if (file >= 0)
    close(file);
  return present;
}
