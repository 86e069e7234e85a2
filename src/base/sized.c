// Reads and writes public structs of older and newer programs.
#include "base/sized.h"

#include <stdint.h>
#include <string.h>

#include "base/fail.h"

enum { MOST = 1 << 14 }; // bytes that a struct of any version can have: a larger size was never set

// Whether a size is one that an *_INIT writes.
static int check(const void *given, size_t first, const char *name) {
  if (!given)
    return fail(WEFT_ERR_INVALID, "%s is NULL", name);
  size_t size = *(const size_t *)given;
  if (size >= first && size <= MOST)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "%s: its size is %zu, but every version has %zu bytes or more: initialise it with its *_INIT", name, size,
              first);
}

const void *sized_read_other(const void *given, void *copy, size_t known, size_t first, const char *name) {
  if (check(given, first, name) != 0)
    return NULL;
  size_t size = *(const size_t *)given;
  const uint8_t *bytes = given;
  for (size_t i = known; i < size; i++)
    if (bytes[i] != 0) {
      fail(WEFT_ERR_VERSION,
           "%s: byte %zu of %zu is not 0, but this library knows only the first %zu: the program was built for a newer "
           "library, and sets a field of that",
           name, i, size, known);
      return NULL;
    }
  size_t both = size < known ? size : known;
  memcpy(copy, given, both);
  memset((uint8_t *)copy + both, 0, known - both);
  memcpy(copy, &known, sizeof known);
  return copy;
}

int sized_check_output(const void *given, size_t first, const char *name) {
  return check(given, first, name);
}

void sized_write(void *given, const void *filled, size_t known) {
  size_t size = *(const size_t *)given, both = size < known ? size : known;
  memcpy((uint8_t *)given + sizeof size, (const uint8_t *)filled + sizeof size, both - sizeof size);
}

int sized_refusal(const void *given, size_t known) {
  size_t size = given ? *(const size_t *)given : 0;
  return size > known && size <= MOST ? WEFT_ERR_VERSION : WEFT_ERR_INVALID;
}

void sized_put(void *array, size_t each, size_t i, const void *entry, size_t known) {
  uint8_t *place = (uint8_t *)array + i * each;
  size_t both = each < known ? each : known;
  memcpy(place, entry, both);
  memset(place + both, 0, each - both);
}

void sized_init(void *out, size_t size, const void *initial, size_t known) {
  size_t both = size < known ? size : known;
  memset(out, 0, size);
  memcpy(out, initial, both);
  if (size >= sizeof size)
    memcpy(out, &size, sizeof size);
}
