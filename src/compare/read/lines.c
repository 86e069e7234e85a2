// Lines, words and numbers of foreign text.
#include "compare/read/lines.h"

#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/printable.h"

struct lines lines_of(const struct compare_text *text) {
  return (struct lines){.at = text->data, .end = text->data + text->size};
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Skips a launcher's prefix of the line.
static const char *behind_prefix(const char *line) {
  const char *at = line;
  if (*at == '[') {
    at += strspn(at, "[],0123456789");
    if (strncmp(at, "<stdout>:", 9) == 0 || strncmp(at, "<stderr>:", 9) == 0)
      return at + 9;
    return line;
  }
  while (is_digit(*at))
    at++;
  return at > line && at[0] == ':' && at[1] == ' ' ? at + 2 : line;
}

bool lines_next(struct lines *lines) {
  if (lines->at >= lines->end)
    return false;
  const char *stop = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
  size_t size = (size_t)((stop ? stop : lines->end) - lines->at), used = size < LINES_MAX - 1 ? size : LINES_MAX - 1;
  for (size_t i = 0; i < used; i++) {
    unsigned char c = (unsigned char)lines->at[i];
    lines->line[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
  }
  lines->line[used] = '\0';
  printable_line(lines->line); // text that is not UTF-8 cannot become a key
  const char *rest = behind_prefix(lines->line);
  memmove(lines->line, rest, strlen(rest) + 1);
  lines->at = stop ? stop + 1 : lines->end;
  lines->number++;
  return true;
}

bool lines_have(const struct compare_text *text, const char *what) {
  return memmem(text->data, text->size, what, strlen(what)) != NULL;
}

size_t lines_words(char *line, char *words[LINES_WORDS]) {
  size_t count = 0;
  char *rest = line, *word;
  while (count < LINES_WORDS && (word = strsep(&rest, " ")))
    if (*word)
      words[count++] = word;
  return count;
}

// The length of a decimal number at the start of the text; 0: there is none.
static size_t number_length(const char *text) {
  size_t at = 0, digits = 0;
  for (; is_digit(text[at]); at++)
    digits++;
  if (text[at] == '.')
    for (at++; is_digit(text[at]); at++)
      digits++;
  if (digits == 0)
    return 0;
  if (text[at] == 'e' || text[at] == 'E') {
    size_t exponent = at + 1 + (text[at + 1] == '+' || text[at + 1] == '-');
    if (is_digit(text[exponent])) {
      while (is_digit(text[exponent]))
        exponent++;
      at = exponent;
    }
  }
  return at;
}

// Uses the C locale of numbers, which the tool does not change.
static bool convert(const char *text, size_t length, double *value) {
  char copy[64];
  if (length == 0 || length >= sizeof copy)
    return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  double number = strtod(copy, NULL);
  if (number >= COMPARE_MOST)
    return false;
  *value = number;
  return true;
}

bool lines_number(const char *word, double *value) {
  size_t length = number_length(word);
  return word[length] == '\0' && convert(word, length, value);
}

int lines_want_number(const struct lines *lines, const char *what, const char *word, double *value) {
  if (lines_number(word, value))
    return 0;
  return fail(WEFT_ERR_PROTOCOL, "line %u: %s is \"%.40s\": want a number from 0 on", lines->number, what, word);
}

bool lines_number_after(const char *line, const char *before, double *value) {
  const char *found = strstr(line, before);
  if (!found)
    return false;
  found += strlen(before);
  found += strspn(found, " ");
  return convert(found, number_length(found), value);
}

bool lines_number_before(const char *line, const char *after, double *value) {
  const char *found = strstr(line, after);
  if (!found)
    return false;
  while (found > line && found[-1] == ' ')
    found--;
  const char *start = found;
  while (start > line && (is_digit(start[-1]) || start[-1] == '.'))
    start--;
  return start < found && convert(start, number_length(start), value);
}
