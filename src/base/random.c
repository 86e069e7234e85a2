// Random bytes from the kernel.
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *out, size_t size) {
  unsigned char *next = out;
  while (size > 0) {
    ssize_t got = getrandom(next, size, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      abort();
    next += got;
    size -= (size_t)got;
  }
}

uint64_t random_id(void) {
  uint64_t id = 0;
  while (id == 0)
    random_bytes(&id, sizeof id);
  return id;
}

void random_uuid(char out[37]) {
  unsigned char b[16];
  random_bytes(b, sizeof b);
  b[6] = (unsigned char)((b[6] & 0x0F) | 0x40);
  b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
  char *next = out;
  for (int i = 0; i < 16; i++)
    next += snprintf(next, (size_t)(out + 37 - next), "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}
