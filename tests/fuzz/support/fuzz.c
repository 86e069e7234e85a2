// What the fuzz targets share: how an input is taken apart, and how a broken property is reported.
#include "fuzz/support/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

void fuzz_broken(const char *file, int line, const char *condition) {
  fprintf(stderr, "%s:%d: it does not hold that %s\nthe last error is: %s\n", file, line, condition, weft_last_error());
  abort();
}

char *fuzz_line(struct fuzz_input *input, size_t *size) {
  if (input->size == 0)
    return NULL;
  const char *end = memchr(input->data, '\n', input->size);
  size_t length = end ? (size_t)(end - input->data) : input->size;
  char *line = malloc(length + 1);
  FUZZ_CHECK(line);
  memcpy(line, input->data, length);
  line[length] = '\0';
  size_t taken = length + (end != NULL);
  input->data += taken;
  input->size -= taken;
  if (size)
    *size = length;
  return line;
}

void fuzz_bytes(struct fuzz_input *input, void *out, size_t size) {
  size_t taken = size < input->size ? size : input->size;
  memset(out, 0, size);
  memcpy(out, input->data, taken);
  input->data += taken;
  input->size -= taken;
}

char *fuzz_dump(json_t *json) {
  FUZZ_CHECK(json);
  char *text = json_dumps(json, JSON_COMPACT);
  FUZZ_CHECK(text);
  json_decref(json);
  return text;
}

bool fuzz_untouched(const void *object, int byte, size_t size) {
  const unsigned char *bytes = object;
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != (unsigned char)byte)
      return false;
  return true;
}
