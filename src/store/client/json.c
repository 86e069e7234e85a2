// Reads a server's answers: each value is checked, and errors name the field.
#include "store/client/json.h"

#include "base/fail.h"
#include "store/base64.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int client_json_parse(const char *data, size_t size, json_t **object) {
  json_error_t error;
  json_t *value = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
  if (!value)
    return fail(WEFT_ERR_PROTOCOL, "malformed JSON at byte %d: %s", error.position, error.text);
  if (!json_is_object(value)) {
    json_decref(value);
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: a JSON object was expected");
  }
  *object = value;
  return 0;
}

// Whether `text` is digits, after at most one minus sign; strtoll accepts more, which is no number here.
static bool is_decimal(const char *text, bool sign) {
  if (sign && *text == '-')
    text++;
  return *text && strspn(text, "0123456789") == strlen(text);
}

int client_json_int(const json_t *object, const char *name, int64_t *out) {
  const json_t *value = json_object_get(object, name);
  if (!value || json_is_integer(value)) {
    *out = value ? json_integer_value(value) : 0;
    return 0;
  }
  const char *text = json_string_value(value);
  errno = 0;
  long long number = text && is_decimal(text, true) ? strtoll(text, NULL, 10) : (errno = EINVAL, 0);
  if (errno)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not a 64-bit integer", name);
  *out = number;
  return 0;
}

int client_json_uint(const json_t *object, const char *name, uint64_t *out) {
  const json_t *value = json_object_get(object, name);
  if (!value || json_is_integer(value)) {
    *out = value ? (uint64_t)json_integer_value(value) : 0;
    return 0;
  }
  const char *text = json_string_value(value);
  errno = 0;
  unsigned long long number = text && is_decimal(text, false) ? strtoull(text, NULL, 10) : (errno = EINVAL, 0);
  if (errno)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not an unsigned 64-bit integer", name);
  *out = number;
  return 0;
}

int client_json_bool(const json_t *object, const char *name, bool *out) {
  const json_t *value = json_object_get(object, name);
  if (value && !json_is_boolean(value))
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not true or false", name);
  *out = json_is_true(value);
  return 0;
}

int client_json_object(const json_t *object, const char *name, const json_t **out) {
  const json_t *value = json_object_get(object, name);
  if (value && !json_is_object(value))
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not an object", name);
  *out = value;
  return 0;
}

int client_json_array(const json_t *object, const char *name, const json_t **out) {
  const json_t *value = json_object_get(object, name);
  if (value && !json_is_array(value))
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not an array", name);
  *out = value;
  return 0;
}

// Decodes and appends to `out`.
static int add_decoded(struct text *out, const char *digits, size_t size, const char *name) {
  size_t count;
  char *bytes = malloc(size / 4 * 3 + 1);
  if (!bytes)
    return fail(WEFT_ERR_NOMEM, "no memory for an answer of the store");
  bool good = base64_decode(bytes, &count, digits, size);
  if (good)
    text_add_bytes(out, bytes, count);
  free(bytes);
  if (!good)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not base64 at digit %zu", name, count);
  return out->failed ? fail(WEFT_ERR_NOMEM, "no memory for an answer of the store") : 0;
}

int client_json_bytes(const json_t *object, const char *name, struct text *out) {
  const json_t *value = json_object_get(object, name);
  if (!value)
    return 0;
  if (!json_is_string(value))
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not a string of base64", name);
  return add_decoded(out, json_string_value(value), json_string_length(value), name);
}

void client_base64_add(struct text *out, const void *bytes, size_t size) {
  enum { PART = 768 }; // whole groups of three: only the last part is padded
  const char *from = bytes;
  char digits[BASE64_SIZE(PART)];
  for (size_t part; size > 0; from += part, size -= part) {
    part = size < PART ? size : PART;
    base64_encode(digits, from, part);
    text_add_bytes(out, digits, BASE64_SIZE(part));
  }
}
