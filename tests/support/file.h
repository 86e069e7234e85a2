// Open files for tests, and their contents.
#ifndef SUPPORT_FILE_H
#define SUPPORT_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "cmocka_all.h"
#include "support/temporary.h"

// Fills `bytes` by a function of position and seed.
static inline void support_fill(uint8_t *bytes, uint64_t length, uint64_t seed) {
  for (uint64_t i = 0; i < length; i++)
    bytes[i] = (uint8_t)random_mix(seed + i);
}

// Returns a file of such bytes, without a name. Fails the test if it cannot be made.
static inline int support_file(uint64_t length, uint64_t seed) {
  char path[256];
  support_temporary(path, sizeof path, "weft-file");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  unlink(path);
  uint8_t *bytes = malloc(length + 1);
  assert_non_null(bytes);
  support_fill(bytes, length, seed);
  assert_int_equal(pwrite(fd, bytes, length, 0), (ssize_t)length);
  free(bytes);
  return fd;
}

#endif
