// A string that grows.
#include "base/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Makes room for `more` bytes and a NUL.
static bool reserve(struct text *text, size_t more) {
  if (text->failed)
    return false;
  size_t need = text->size + more + 1;
  if (need <= text->capacity)
    return true;
  size_t capacity = text->capacity ? text->capacity : 64;
  while (capacity < need)
    capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void text_add_bytes(struct text *text, const void *bytes, size_t size) {
  if (!reserve(text, size))
    return;
  if (size > 0)
    memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void text_add(struct text *text, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int need = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (need >= 0 && reserve(text, (size_t)need)) {
    vsnprintf(text->data + text->size, (size_t)need + 1, format, again);
    text->size += (size_t)need;
  }
  va_end(again);
}

void text_add_rank(struct text *list, int32_t rank) {
  text_add(list, "%s%" PRId32, list->size ? ", " : "", rank);
}

void text_fit(char *to, size_t size, const char *text) {
  size_t length = strlen(text);
  if (length < size) {
    memcpy(to, text, length + 1);
    return;
  }
  size_t most = size - sizeof " ...", end = most;
  while (end > 0 && text[end] != ' ')
    end--;
  bool words = end > 0;
  for (end = words ? end : most; end > 0 && text_continues(text[end]); end--)
    ;
  snprintf(to, size, "%.*s%s", (int)end, text, words ? " ..." : "...");
}

char *text_take(struct text *text) {
  if (!text->data)
    text_add_bytes(text, "", 0);
  if (text->failed) // a part of the text could be taken for all of it
    text_free(text);
  char *data = text->data;
  *text = (struct text){0};
  return data;
}

void text_free(struct text *text) {
  free(text->data);
  *text = (struct text){0};
}

void text_wipe(struct text *text) {
  if (text->data)
    explicit_bzero(text->data, text->capacity);
  text_free(text);
}
