// Replaces control characters in text from other processes.
#include "base/printable.h"

#include <stdbool.h>
#include <stddef.h>

// Whether this second byte of UTF-8 may follow this first byte (RFC 3629, section 4).
static bool fits(unsigned char first, unsigned char second) {
  switch (first) {
  case 0xC2:
    return second >= 0xA0; // lower values are the control characters C1
  case 0xE0:
    return second >= 0xA0;
  case 0xED:
    return second < 0xA0;
  case 0xF0:
    return second >= 0x90;
  case 0xF4:
    return second < 0x90;
  default:
    return true;
  }
}

// The bytes of the character that begins here; 0: it is a control character, or no UTF-8.
static size_t size_of(const unsigned char *at) {
  if (*at < 0x80)
    return *at >= ' ' && *at != 0x7F;
  if (*at < 0xC2 || *at > 0xF4)
    return 0;
  size_t size = *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < size; i++)
    if ((at[i] & 0xC0) != 0x80) // a NUL too
      return 0;
  return fits(at[0], at[1]) ? size : 0;
}

static void clean(char *text, bool keeps_newlines) {
  while (*text) {
    size_t size = size_of((const unsigned char *)text);
    if (size == 0 && !(keeps_newlines && *text == '\n'))
      *text = '?';
    text += size ? size : 1;
  }
}

void printable_text(char *text) {
  clean(text, true);
}

void printable_line(char *text) {
  clean(text, false);
}
