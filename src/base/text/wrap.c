// Breaks text into lines.
#include "base/text/wrap.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/text.h"

size_t wrap_length(const char *text, size_t width) {
  size_t columns = 0, end = 0, blank = 0;
  while (text[end] && text[end] != '\n' && (columns < width || text_continues(text[end]))) {
    if (text[end] == ' ')
      blank = end;
    columns += !text_continues(text[end]);
    end++;
  }
  bool whole = !text[end] || text[end] == '\n' || text[end] == ' ';
  return whole || blank == 0 ? end : blank;
}

const char *wrap_after(const char *text, size_t length) {
  const char *next = text + length;
  if (*next == '\n')
    return next + 1;
  while (*next == ' ')
    next++;
  return next;
}

// Writes one word; returns its columns.
static size_t write_word(FILE *out, const char *word, size_t size) {
  size_t columns = 0;
  for (size_t i = 0; i < size; i++) {
    fputc((unsigned char)word[i] < ' ' || word[i] == 0x7F ? '?' : word[i], out);
    columns += !text_continues(word[i]);
  }
  return columns;
}

static size_t width_of(const char *word, size_t size) {
  size_t columns = 0;
  for (size_t i = 0; i < size; i++)
    columns += !text_continues(word[i]);
  return columns;
}

void wrap_write(FILE *out, const char *text, size_t at, size_t indent, size_t width) {
  bool first = true; // word of its line: no blank before it
  while (*text) {
    size_t size = strcspn(text, " \n");
    if (size > 0 && at > indent && at + !first + width_of(text, size) > width) {
      fprintf(out, "\n%*s", (int)indent, "");
      at = indent;
    } else if (!first) {
      fputc(' ', out);
      at++;
    }
    at += write_word(out, text, size);
    first = false;
    text += size;
    if (*text == '\n') {
      fprintf(out, "\n%*s", (int)indent, "");
      at = indent;
      first = true;
    }
    text += *text != '\0';
  }
  fputc('\n', out);
}
