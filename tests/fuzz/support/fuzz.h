// Shared parts of the fuzz targets: they divide an input, and report a broken property.
//
// Inputs are text where possible, so that the seeds in corpus/ can be read and written by hand: a line of words for the
// operation, then its data.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// libFuzzer's entry: one input, which the target may only read. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A property of the tested code that must hold for every input. If it does not, aborts, and libFuzzer keeps the input.
#define FUZZ_CHECK(condition)                                                                                          \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      fuzz_broken(__FILE__, __LINE__, #condition);                                                                     \
  } while (0)

void fuzz_broken(const char *file, int line, const char *condition) __attribute__((noreturn));

// The rest of an input.
struct fuzz_input {
  const char *data;
  size_t size;
};

// Takes the next line, without its end; the last line need not have one. NULL: nothing is left. The copy ends with a
// NUL, and the caller frees it. `*size` (may be NULL) becomes its length, since it may contain NULs.
char *fuzz_line(struct fuzz_input *input, size_t *size);

// Takes the next `size` bytes; missing bytes are zeros.
void fuzz_bytes(struct fuzz_input *input, void *out, size_t size);

// The text of a JSON value; takes ownership of `json`. A value that the tested code made can always be written.
char *fuzz_dump(json_t *json);

// Whether every byte of `object` is `byte`, as before a call that failed and must not write it.
bool fuzz_untouched(const void *object, int byte, size_t size);

#endif
