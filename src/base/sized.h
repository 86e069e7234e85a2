// Public structs that begin with `size`, for programs that were built with older or newer headers than this library.
//
// Versions add fields only at the end. If a struct is shorter than this library's, its missing fields count as 0. A
// longer struct is accepted if the bytes that this library does not know are 0.
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stddef.h>

// The size of the first version of a struct, whose last field was `member`.
#define SIZED_END(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

// Reads a caller's struct; `name` is used in the error text. Returns `given` itself if both sizes agree, which is the
// usual case; otherwise `copy`, of `known` bytes, filled. NULL after fail(): INVALID: `given` is NULL or smaller than
// `first`; VERSION: an unknown byte is not 0.
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

// Whether a caller's struct can be written to: 0, or INVALID: it is smaller than `first`. A struct for outputs may be
// longer than this library's; its unknown bytes stay unchanged.
int sized_check_output(const void *given, size_t first, const char *name);

// Writes `filled`, of `known` bytes, to `given` behind its size field, as far as `given` has room.
void sized_write(void *given, const void *filled, size_t known);

// The code of the failure after SIZED_READ() gave NULL: INVALID or VERSION.
int sized_refusal(const void *given, size_t known);

// Writes `entry`, of `known` bytes, to index `i` of a caller's array whose entries have `each` bytes; the bytes beyond
// become 0.
void sized_put(void *array, size_t each, size_t i, const void *entry, size_t known);

// Writes the initial value, of `known` bytes, into `size` bytes of a program's struct; the bytes beyond become 0.
void sized_init(void *out, size_t size, const void *initial, size_t known);

// Defines the exported weft_NAME_init() of struct weft_NAME, whose initial value is that of its *_INIT.
#define SIZED_DEFINE_INIT(name, INIT)                                                                                  \
  void weft_##name##_init(struct weft_##name *out, size_t size) {                                                      \
    const struct weft_##name initial = INIT;                                                                           \
    sized_init(out, size, &initial, sizeof initial);                                                                   \
  }

#endif
