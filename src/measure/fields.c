// Converts structs to JSON objects and back, by tables.
#include "measure/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/digits.h"

// The place in the document, for messages.
struct path {
  const struct path *up;
  const char *name;
  int64_t index; // index in a list; -1 for the member itself
};

static size_t print_path(char *out, size_t size, const struct path *path) {
  size_t used = path->up ? print_path(out, size, path->up) : 0;
  if (used >= size)
    return used;
  if (path->index >= 0)
    return used + (size_t)snprintf(out + used, size - used, "[%" PRId64 "]", path->index);
  return used + (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "." : "", path->name);
}

static int refuse(const struct path *path, const char *what) {
  char name[256] = "";
  print_path(name, sizeof name, path);
  return fail(WEFT_ERR_PROTOCOL, "%s: %s", name, what);
}

static json_t *write_object(const struct field *fields, const void *object, const struct path *up);

// Text that was cut at its maximum size may end within a character of several bytes, which JSON does not allow. Such
// text is written with ? for each byte that is not ASCII.
static json_t *write_text(const char *text) {
  json_t *json = json_string(text);
  char *plain = json ? NULL : strdup(text);
  if (!plain)
    return json;
  for (char *at = plain; *at; at++)
    *at = (unsigned char)*at < 0x80 ? *at : '?';
  json = json_string(plain);
  free(plain);
  return json;
}

static json_t *write_real(double value) {
  return isfinite(value) ? json_real(digits_rounded(value)) : json_null();
}

static json_t *write_u64(uint64_t value, const struct path *path) {
  if (value <= INT64_MAX)
    return json_integer((json_int_t)value);
  refuse(path, "too large for JSON");
  return NULL;
}

static json_t *write_id(uint64_t value) {
  char text[17];
  snprintf(text, sizeof text, "%016" PRIx64, value);
  return json_string(text);
}

static json_t *write_list(const struct field *field, const char *object, const struct path *path) {
  const char *elements = *(const char *const *)(object + field->offset);
  uint32_t count = *(const uint32_t *)(object + field->count);
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++) {
    struct path here = {path, NULL, i};
    if (json_array_append_new(list, write_object(field->fields, elements + i * field->size, &here))) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *write_counts(const struct field *field, const char *object, const struct path *path) {
  const uint64_t *counts = *(const uint64_t *const *)(object + field->offset);
  uint32_t number = *(const uint32_t *)(object + field->count);
  json_t *list = json_array();
  for (uint32_t i = 0; i < number; i++) {
    struct path here = {path, NULL, i};
    if (json_array_append_new(list, write_u64(counts[i], &here))) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *write_kept(json_t *json) {
  return json ? json_incref(json) : json_null();
}

static json_t *write_field(const struct field *field, const char *object, const struct path *path) {
  const void *at = object + field->offset;
  switch (field->type) {
  case FIELD_TEXT:
    return write_text(at);
  case FIELD_INDEX:
    return *(const int32_t *)at < 0 ? json_null() : json_integer(*(const int32_t *)at);
  case FIELD_U32:
    return json_integer(*(const uint32_t *)at);
  case FIELD_U64:
    return write_u64(*(const uint64_t *)at, path);
  case FIELD_I32:
    return json_integer(*(const int *)at);
  case FIELD_ID:
    return write_id(*(const uint64_t *)at);
  case FIELD_REAL:
    return write_real(*(const double *)at);
  case FIELD_DURATION:
    return *(const double *)at < 0 ? json_null() : write_real(*(const double *)at);
  case FIELD_BOOL:
    return json_boolean(*(const bool *)at);
  case FIELD_NAME:
    return json_string(field->names[*(const unsigned *)at]);
  case FIELD_STRUCT:
    return write_object(field->fields, at, path);
  case FIELD_COUNTS:
    return write_counts(field, object, path);
  case FIELD_LIST:
    return write_list(field, object, path);
  case FIELD_OBJECT:
  case FIELD_ARRAY:
    return write_kept(*(json_t *const *)at);
  }
  return NULL;
}

static json_t *write_object(const struct field *fields, const void *object, const struct path *up) {
  json_t *json = json_object();
  for (const struct field *field = fields; field->name; field++) {
    struct path path = {up, field->name, -1};
    if (json_object_set_new(json, field->name, write_field(field, object, &path))) {
      json_decref(json);
      return NULL;
    }
  }
  return json;
}

json_t *fields_to_json(const struct field *fields, const void *object) {
  char before[FAIL_DETAIL_SIZE];
  snprintf(before, sizeof before, "%s", weft_last_error());
  fail(WEFT_ERR_NOMEM, "no memory for JSON"); // a member that fails for another reason replaces this error
  json_t *json = write_object(fields, object, NULL);
  if (json)
    fail(0, "%s", before);
  return json;
}

void fields_round(const struct field *fields, void *object) {
  for (const struct field *field = fields; field->name; field++) {
    char *at = (char *)object + field->offset;
    if (field->type == FIELD_REAL || field->type == FIELD_DURATION)
      *(double *)(void *)at = digits_rounded(*(double *)(void *)at);
    else if (field->type == FIELD_STRUCT)
      fields_round(field->fields, at);
    else if (field->type == FIELD_LIST)
      for (uint32_t i = 0; i < *(uint32_t *)(void *)((char *)object + field->count); i++)
        fields_round(field->fields, *(char **)(void *)at + i * field->size);
  }
}

static int read_object(const struct field *fields, char *object, const json_t *json, const struct path *path);

static int read_text(const struct field *field, char *out, const json_t *json, const struct path *path) {
  if (!json_is_string(json))
    return refuse(path, "is to be a string");
  size_t length = json_string_length(json);
  if (length >= field->size || strlen(json_string_value(json)) != length)
    return refuse(path, "is too long, or has a NUL character in it");
  memcpy(out, json_string_value(json), length + 1);
  printable_text(out); // the text may come from others, and is printed on terminals
  return 0;
}

static int read_integer(json_int_t *out, json_int_t low, json_int_t high, const json_t *json, const struct path *path) {
  char what[80];
  snprintf(what, sizeof what, "is to be an integer from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, low, high);
  if (!json_is_integer(json) || json_integer_value(json) < low || json_integer_value(json) > high)
    return refuse(path, what);
  *out = json_integer_value(json);
  return 0;
}

static int read_id(uint64_t *out, const json_t *json, const struct path *path) {
  const char *text = json_string_value(json);
  if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
    return refuse(path, "is to be a string of 16 hexadecimal digits");
  *out = strtoull(text, NULL, 16);
  return 0;
}

static int read_real(double *out, const json_t *json, const struct path *path) {
  if (!json_is_null(json) && !json_is_number(json))
    return refuse(path, "is to be a number, or null");
  *out = json_is_null(json) ? NAN : json_number_value(json);
  return 0;
}

static int read_duration(double *out, const json_t *json, const struct path *path) {
  if (!json_is_null(json) && (!json_is_number(json) || json_number_value(json) < 0))
    return refuse(path, "is to be a number from 0 on, or null");
  *out = json_is_null(json) ? -1 : json_number_value(json);
  return 0;
}

static int read_name(const struct field *field, unsigned *out, const json_t *json, const struct path *path) {
  char what[256] = "is to be one of";
  size_t used = strlen(what);
  const char *text = json_string_value(json);
  for (unsigned i = 0; field->names[i]; i++) {
    if (text && strcmp(text, field->names[i]) == 0) {
      *out = i;
      return 0;
    }
    used += (size_t)snprintf(what + used, used < sizeof what ? sizeof what - used : 0, " \"%s\"", field->names[i]);
  }
  return refuse(path, what);
}

static int read_list(const struct field *field, char *object, const json_t *json, const struct path *path) {
  if (!json_is_array(json))
    return refuse(path, "is to be a list");
  size_t count = json_array_size(json);
  char *elements = calloc(count > 0 ? count : 1, field->size);
  if (!elements)
    return fail(WEFT_ERR_NOMEM, "no memory for what was read");
  *(char **)(object + field->offset) = elements;
  *(uint32_t *)(object + field->count) = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    struct path here = {path, NULL, (int64_t)i};
    int err = read_object(field->fields, elements + i * field->size, json_array_get(json, i), &here);
    if (err)
      return err;
  }
  return 0;
}

static int read_counts(const struct field *field, char *object, const json_t *json, const struct path *path) {
  if (!json_is_array(json))
    return refuse(path, "is to be a list");
  size_t number = json_array_size(json);
  uint64_t *counts = number > 0 ? calloc(number, sizeof *counts) : NULL;
  if (number > 0 && !counts)
    return fail(WEFT_ERR_NOMEM, "no memory for what was read");
  *(uint64_t **)(object + field->offset) = counts;
  *(uint32_t *)(object + field->count) = (uint32_t)number;
  for (size_t i = 0; i < number; i++) {
    struct path here = {path, NULL, (int64_t)i};
    json_int_t value = 0;
    int err = read_integer(&value, 0, INT64_MAX, json_array_get(json, i), &here);
    if (err)
      return err;
    counts[i] = (uint64_t)value;
  }
  return 0;
}

static int read_kept(json_t **out, json_t *json, bool right, const char *what, const struct path *path) {
  if (!right && !json_is_null(json))
    return refuse(path, what);
  *out = right ? json_incref(json) : NULL;
  return 0;
}

static int read_number(const struct field *field, void *at, const json_t *json, const struct path *path) {
  json_int_t number = -1;
  int err = 0;
  if (field->type == FIELD_U64)
    err = read_integer(&number, 0, INT64_MAX, json, path);
  else if (field->type == FIELD_U32)
    err = read_integer(&number, 0, UINT32_MAX, json, path);
  else if (field->type == FIELD_I32)
    err = read_integer(&number, INT32_MIN, INT32_MAX, json, path);
  else if (!json_is_null(json))
    err = read_integer(&number, 0, INT32_MAX, json, path);
  if (err)
    return err;
  if (field->type == FIELD_U64)
    *(uint64_t *)at = (uint64_t)number;
  else if (field->type == FIELD_U32)
    *(uint32_t *)at = (uint32_t)number;
  else
    *(int32_t *)at = (int32_t)number;
  return 0;
}

static int read_field(const struct field *field, char *object, json_t *json, const struct path *path) {
  void *at = object + field->offset;
  switch (field->type) {
  case FIELD_TEXT:
    return read_text(field, at, json, path);
  case FIELD_INDEX:
  case FIELD_U32:
  case FIELD_U64:
  case FIELD_I32:
    return read_number(field, at, json, path);
  case FIELD_ID:
    return read_id(at, json, path);
  case FIELD_REAL:
    return read_real(at, json, path);
  case FIELD_DURATION:
    return read_duration(at, json, path);
  case FIELD_BOOL:
    *(bool *)at = json_is_true(json);
    return json_is_boolean(json) ? 0 : refuse(path, "is to be true or false");
  case FIELD_NAME:
    return read_name(field, at, json, path);
  case FIELD_STRUCT:
    return read_object(field->fields, at, json, path);
  case FIELD_COUNTS:
    return read_counts(field, object, json, path);
  case FIELD_LIST:
    return read_list(field, object, json, path);
  case FIELD_OBJECT:
    return read_kept(at, json, json_is_object(json), "is to be an object, or null", path);
  case FIELD_ARRAY:
    return read_kept(at, json, json_is_array(json), "is to be a list, or null", path);
  }
  return 0;
}

static int read_object(const struct field *fields, char *object, const json_t *json, const struct path *path) {
  if (!json_is_object(json))
    return path ? refuse(path, "is to be an object") : fail(WEFT_ERR_PROTOCOL, "the document is to be an object");
  for (const struct field *field = fields; field->name; field++) {
    struct path here = {path, field->name, -1};
    json_t *value = json_object_get(json, field->name);
    int err = 0;
    if (value)
      err = read_field(field, object, value, &here);
    else if (!field->optional)
      err = refuse(&here, "is missing");
    else if (field->type == FIELD_INDEX)
      *(int32_t *)(void *)(object + field->offset) = -1;
    else if (field->type == FIELD_DURATION)
      *(double *)(void *)(object + field->offset) = -1;
    if (err)
      return err;
  }
  return 0;
}

int fields_from_json(const struct field *fields, void *object, const json_t *json) {
  return read_object(fields, object, json, NULL);
}

json_t *fields_to_document(const struct field *fields, const void *object, const char *format, int version) {
  json_t *members = fields_to_json(fields, object);
  if (!members)
    return NULL;
  json_t *json = json_pack("{s:i}", format, version);
  if (!json || json_object_update(json, members)) {
    fail(WEFT_ERR_NOMEM, "no memory for JSON");
    json_decref(json);
    json = NULL;
  }
  json_decref(members);
  return json;
}

int fields_check_document(const json_t *json, const char *format, int version, const char *what) {
  json_t *found = json_object_get(json, format);
  if (!json_is_integer(found))
    return fail(WEFT_ERR_PROTOCOL, "%s: is missing or not an integer: this file holds no %s of weft", format, what);
  if (json_integer_value(found) != version)
    return fail(WEFT_ERR_VERSION, "%s: format %" JSON_INTEGER_FORMAT ", but this version reads format %d", format,
                json_integer_value(found), version);
  return 0;
}
