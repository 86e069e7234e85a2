// Public structs that begin with `size`: programs that were built with older or newer headers than this library.
//
// Versions add fields at the end only. A shorter struct than this library's has no such fields: they count as 0. A
// longer one is taken where what this library does not know is 0.
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stddef.h>

// The size of the first version of a struct, whose last field was `member`.
#define SIZED_END(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

// Reads a caller's struct, whose name is for the sentence. Returns `given` itself where both sizes agree, as they
// nearly always do; else `copy`, of `known` bytes, filled. NULL after fail(): INVALID where `given` is NULL or smaller
// than `first`, VERSION where an unknown byte is set.
const void *sized_read_other(const void *given, void *copy, size_t known, size_t first, const char *name);

static inline const void *sized_read(const void *given, void *copy, size_t known, size_t first, const char *name) {
  if (given && *(const size_t *)given == known)
    return given;
  return sized_read_other(given, copy, known, first, name);
}

// SIZED_READ(given, &copy, last field of the first version, "weft_x"): `given` or `&copy`, of the same type; NULL after
// fail().
#define SIZED_READ(given, copy, last, name)                                                                            \
  ((const __typeof__(*(copy)) *)sized_read(given, copy, sizeof *(copy), SIZED_END(__typeof__(*(copy)), last), name))

// Whether a caller's struct can be written to: 0, or INVALID where it is smaller than `first`. A struct for outputs may
// be longer than this library's: what it does not know stays as it is.
int sized_check_output(const void *given, size_t first, const char *name);

// Writes `filled`, of `known` bytes, behind the size of `given`, as far as that goes.
void sized_write(void *given, const void *filled, size_t known);

// The code of the failure that left NULL: INVALID or VERSION.
int sized_refusal(const void *given, size_t known);

// Writes `entry`, of `known` bytes, to place `i` of a caller's array whose entries have `each` bytes; what is beyond
// becomes 0.
void sized_put(void *array, size_t each, size_t i, const void *entry, size_t known);

// Writes the initial value, of `known` bytes, into `size` bytes of a program's struct; what is beyond becomes 0.
void sized_init(void *out, size_t size, const void *initial, size_t known);

// Defines the exported weft_NAME_init() of struct weft_NAME, whose initial value is that of its *_INIT.
#define SIZED_DEFINE_INIT(name, INIT)                                                                                  \
  void weft_##name##_init(struct weft_##name *out, size_t size) {                                                      \
    const struct weft_##name initial = INIT;                                                                           \
    sized_init(out, size, &initial, sizeof initial);                                                                   \
  }

#endif
