// What the fuzz targets share: how an input is taken apart, and how a broken property is told.
//
// Inputs are text where they can be, so that the seeds in corpus/ can be read and written by hand: a line of words that
// says what is to be done, then what it is done with.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// libFuzzer's entry: one input, which is the target's to read only. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A property of the tested code that must hold for every input: aborts when it does not, and libFuzzer keeps the input.
#define FUZZ_CHECK(condition)                                                                                          \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      fuzz_broken(__FILE__, __LINE__, #condition);                                                                     \
  } while (0)

void fuzz_broken(const char *file, int line, const char *condition) __attribute__((noreturn));

// What is left of an input.
struct fuzz_input {
  const char *data;
  size_t size;
};

// Takes the next line, without its end; the last one need not have one. NULL when nothing is left. The copy has a NUL
// behind it and is the caller's to free; `*size` (may be NULL) is its length, for it may hold NULs.
char *fuzz_line(struct fuzz_input *input, size_t *size);

// The next `size` bytes; zeros stand for those that are not there.
void fuzz_bytes(struct fuzz_input *input, void *out, size_t size);

// The text of a JSON value; `json` is given up. What was made by the tested code can always be written.
char *fuzz_dump(json_t *json);

// Whether every byte of `object` is `byte`: an output that was filled so before a call that failed.
bool fuzz_untouched(const void *object, int byte, size_t size);

#endif
