// The shapes of etcd's requests and answers in JSON.
#include "store/gateway/json.h"

#include "store/base64.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gateway_block {
  struct gateway_block *next;
  max_align_t data[];
};

static bool wrong(struct gateway_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct gateway_reader *reader, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reader->error, sizeof reader->error, format, args);
  va_end(args);
  return false;
}

bool gateway_parse(struct gateway_reader *reader, const char *data, size_t size, size_t *place) {
  const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
  json_error_t error;
  json_decref(reader->root);
  reader->root = json_loadb(data + *place, size - *place, flags, &error);
  if (!reader->root)
    return wrong(reader, "json: %s at byte %zu", error.text, *place + (size_t)error.position);
  *place += (size_t)error.position;
  if (json_is_null(reader->root)) {
    json_decref(reader->root);
    reader->root = json_object();
  }
  if (!json_is_object(reader->root))
    return wrong(reader, "json: a request must be an object");
  return true;
}

void gateway_reader_free(struct gateway_reader *reader) {
  json_decref(reader->root);
  while (reader->blocks) {
    struct gateway_block *block = reader->blocks;
    reader->blocks = block->next;
    free(block);
  }
  *reader = (struct gateway_reader){0};
}

void *gateway_allocate(struct gateway_reader *reader, size_t count, size_t size) {
  struct gateway_block *block = calloc(1, sizeof *block + count * size);
  if (!block) {
    wrong(reader, "weft: no memory for %zu bytes of a request", count * size);
    return NULL;
  }
  block->next = reader->blocks;
  reader->blocks = block;
  return block->data;
}

// range_end -> rangeEnd
static void camel_case(char *out, size_t cap, const char *name) {
  size_t used = 0;
  for (; *name && used + 1 < cap; name++) {
    bool joint = name[0] == '_' && name[1] >= 'a' && name[1] <= 'z';
    out[used++] = joint ? (char)(*++name - 'a' + 'A') : *name;
  }
  out[used] = '\0';
}

// NULL: absent or null.
static json_t *member(const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  if (!value && strchr(name, '_')) {
    char camel[64];
    camel_case(camel, sizeof camel, name);
    value = json_object_get(object, camel);
  }
  return json_is_null(value) ? NULL : value;
}

bool gateway_has(const json_t *object, const char *name) {
  return member(object, name) != NULL;
}

static const char *kind_of(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "an array";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
  case JSON_REAL:
    return "a number";
  default:
    return "a bool";
  }
}

static bool not_a(struct gateway_reader *reader, const char *name, const json_t *value, const char *wanted) {
  return wrong(reader, "json: \"%s\" is %s; it must be %s", name, kind_of(value), wanted);
}

static bool decimal(const char *text, int64_t *out) {
  const char *digits = *text == '-' ? text + 1 : text;
  if (!*digits || digits[strspn(digits, "0123456789")])
    return false;
  errno = 0;
  *out = strtoll(text, NULL, 10);
  return errno == 0;
}

bool gateway_int(struct gateway_reader *reader, const json_t *object, const char *name, int64_t *out) {
  const json_t *value = member(object, name);
  *out = value ? json_integer_value(value) : 0;
  if (!value || json_is_integer(value) || (json_is_string(value) && decimal(json_string_value(value), out)))
    return true;
  if (json_is_string(value) || json_is_real(value))
    return wrong(reader, "json: \"%s\" is not a whole number of 64 bits", name);
  return not_a(reader, name, value, "a whole number");
}

bool gateway_bool(struct gateway_reader *reader, const json_t *object, const char *name, bool *out) {
  const json_t *value = member(object, name);
  *out = json_is_true(value);
  return !value || json_is_boolean(value) || not_a(reader, name, value, "true or false");
}

// Converts the digits for base64.h: grpc-gateway 2 also accepts digits without padding, and those of the URL alphabet
// (RFC 4648, section 5), but no mixture. Has room for 3 more of `size`. Returns their number.
static size_t usual_digits(char *out, const char *digits, size_t size) {
  bool for_urls = strpbrk(digits, "-_") != NULL;
  for (size_t i = 0; i < size; i++) {
    out[i] = digits[i];
    if (for_urls && strchr("-_+/", digits[i]))
      out[i] = digits[i] == '-' ? '+' : digits[i] == '_' ? '/' : '-'; // the last is no digit: it will be reported
  }
  if (size > 0 && digits[size - 1] != '=')
    while (size % 4 != 0)
      out[size++] = '=';
  return size;
}

bool gateway_bytes(struct gateway_reader *reader, const json_t *object, const char *name, struct core_bytes *out) {
  const json_t *value = member(object, name);
  *out = (struct core_bytes){"", 0};
  if (!value)
    return true;
  if (!json_is_string(value))
    return not_a(reader, name, value, "a string in base64");
  size_t size = json_string_length(value);
  char *digits = gateway_allocate(reader, 1, size + 3);
  char *bytes = gateway_allocate(reader, 1, size / 4 * 3 + 3);
  if (!digits || !bytes)
    return false;
  if (!base64_decode(bytes, &out->size, digits, usual_digits(digits, json_string_value(value), size)))
    return wrong(reader, "illegal base64 data at input byte %zu of \"%s\"", out->size, name);
  out->data = bytes;
  return true;
}

bool gateway_object(struct gateway_reader *reader, const json_t *object, const char *name, const json_t **out) {
  *out = member(object, name);
  return !*out || json_is_object(*out) || not_a(reader, name, *out, "an object");
}

bool gateway_array(struct gateway_reader *reader, const json_t *object, const char *name, const json_t **out) {
  *out = member(object, name);
  return !*out || json_is_array(*out) || not_a(reader, name, *out, "an array");
}

bool gateway_enum(struct gateway_reader *reader, const json_t *object, const char *name, const char *const *names,
                  size_t num_names, size_t *out) {
  const json_t *value = member(object, name);
  *out = 0;
  if (!value)
    return true;
  if (json_is_string(value)) {
    for (*out = 0; *out < num_names; ++*out)
      if (strcmp(json_string_value(value), names[*out]) == 0)
        return true;
    return wrong(reader, "unknown value \"%.64s\" of \"%s\"", json_string_value(value), name);
  }
  if (!json_is_integer(value))
    return not_a(reader, name, value, "a name or a number");
  json_int_t number = json_integer_value(value);
  if (number < 0 || (uint64_t)number >= num_names)
    return wrong(reader, "unknown value %lld of \"%s\"", (long long)number, name);
  *out = (size_t)number;
  return true;
}
