// A growing string. Initialise it with zeros; free it with text_free().
#ifndef BASE_TEXT_TEXT_H
#define BASE_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
  char *data; // `size` bytes and a NUL; NULL while nothing was added
  size_t size;
  size_t capacity;
  bool failed; // memory ran out: later additions are missing
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(struct text *text, const void *bytes, size_t size);
// Adds a rank to a list of ranks that are separated by ", ".
void text_add_rank(struct text *list, int32_t rank);

// The plural ending of a noun after a number: "1 rank", "2 ranks".
static inline const char *text_s(uint64_t count) {
  return count == 1 ? "" : "s";
}

// Whether a byte continues a character of UTF-8: the bytes after its first one do, and take no column of their own.
static inline bool text_continues(char byte) {
  return ((unsigned char)byte & 0xC0) == 0x80;
}

// Copies as much text as fits into `size` bytes, which are 8 or more. A text that is cut ends with " ..." behind a
// whole word, or with "..." behind a whole character if it is one long word.
void text_fit(char *to, size_t size, const char *text);

// Returns the string, which the caller frees, and empties `text`. NULL: memory ran out, now or for an earlier addition.
char *text_take(struct text *text);
void text_free(struct text *text);
// The same for a text with a secret, which is overwritten before. A text that has grown has left parts of it behind.
void text_wipe(struct text *text);

#endif
