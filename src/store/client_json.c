#include "store/client_json.h"

#include "base/fail.h"
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

// Whether `text` is digits, behind at most one minus sign: what strtoll takes beyond that is not a number here.
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

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Value of a base64 digit, -1 for anything else.
static int digit_value(unsigned char c) {
  if (c >= 'A' && c <= 'Z')
    return c - 'A';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 26;
  if (c >= '0' && c <= '9')
    return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Decodes four digits, the last `padding` (0 to 2) of which are '='. False when they are no base64.
static bool decode_group(const unsigned char *in, size_t padding, unsigned char out[3]) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 4; i++) {
    int value = i < 4 - padding ? digit_value(in[i]) : 0;
    if (value < 0)
      return false;
    bits = bits << 6 | (uint32_t)value;
  }
  out[0] = (unsigned char)(bits >> 16);
  out[1] = (unsigned char)(bits >> 8);
  out[2] = (unsigned char)bits;
  return true;
}

static int add_decoded(struct text *out, const char *digits, size_t size, const char *name) {
  size_t padding = size && digits[size - 1] == '=' ? (digits[size - 2] == '=' ? 2 : 1) : 0;
  for (size_t i = 0; i < size; i += 4) {
    size_t pad = i + 4 == size ? padding : 0;
    unsigned char bytes[3];
    if (!decode_group((const unsigned char *)digits + i, pad, bytes))
      return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not base64", name);
    text_add_bytes(out, bytes, 3 - pad);
  }
  return out->failed ? fail(WEFT_ERR_NOMEM, "no memory for an answer of the store") : 0;
}

int client_json_bytes(const json_t *object, const char *name, struct text *out) {
  const json_t *value = json_object_get(object, name);
  if (!value)
    return 0;
  if (!json_is_string(value) || json_string_length(value) % 4)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: \"%s\" is not base64", name);
  return add_decoded(out, json_string_value(value), json_string_length(value), name);
}

void client_base64_add(struct text *out, const void *bytes, size_t size) {
  const unsigned char *in = bytes;
  for (size_t i = 0; i < size; i += 3) {
    size_t left = size - i;
    uint32_t bits = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (left > 2 ? in[i + 2] : 0);
    char group[4] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63], left > 1 ? alphabet[bits >> 6 & 63] : '=',
                     left > 2 ? alphabet[bits & 63] : '='};
    text_add_bytes(out, group, 4);
  }
}
