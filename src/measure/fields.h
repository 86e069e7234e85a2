// Converts structs to JSON objects and back, with tables: one row per member, for both directions.
#ifndef MEASURE_FIELDS_H
#define MEASURE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum field_type {
  FIELD_TEXT,     // char[size], NUL-terminated: string
  FIELD_INDEX,    // int32_t: integer from 0 on; null for a negative one
  FIELD_U32,      // integer
  FIELD_U64,      // integer below 2^63
  FIELD_I32,      // int: integer
  FIELD_ID,       // uint64_t: string of 16 hexadecimal digits, since JSON's readers round large integers
  FIELD_REAL,     // double: number; null for one that is not finite
  FIELD_DURATION, // double: number from 0 on; null for a negative one
  FIELD_BOOL,
  FIELD_NAME,   // enum: string out of `names`
  FIELD_STRUCT, // object out of `fields`
  FIELD_COUNTS, // pointer to uint64_t, their uint32_t count at `count`: list of integers below 2^63
  FIELD_LIST,   // pointer to structs of `size` bytes, their uint32_t count at `count`: list of objects out of `fields`
  FIELD_OBJECT, // json_t *: kept as it is; null for NULL
  FIELD_ARRAY,  // json_t *: the same for an array
};

// A row; a table ends with a row without a name.
struct field {
  const char *name;
  enum field_type type;
  size_t offset;
  size_t size;
  size_t count;
  const struct field *fields;
  const char *const *names; // by value, then NULL
  // the member may be missing, as in results of older versions. Then INDEX and DURATION are -1, other types zero
  bool optional;
};

// Members of a row: the name, offset and size of a member; for a list or counts also `number`, the member with their
// count.
#define FIELD_OF(owner, member) .name = #member, .offset = offsetof(owner, member), .size = sizeof(((owner *)0)->member)
#define FIELD_LIST_OF(owner, member, element, number)                                                                  \
  .name = #member, .type = FIELD_LIST, .offset = offsetof(owner, member), .size = sizeof(element),                     \
  .count = offsetof(owner, number)
#define FIELD_COUNTS_OF(owner, member, number)                                                                         \
  .name = #member, .type = FIELD_COUNTS, .offset = offsetof(owner, member), .count = offsetof(owner, number)
#define FIELD_END                                                                                                      \
  { 0 }

// Rounds each number of an object to the digits that its JSON has (base/text/digits.h).
void fields_round(const struct field *fields, void *object);

// NULL: memory ran out, or an integer has no JSON form; the last error names it. Else the last error stays as it was:
// a caller that writes its results after a failure still has the reason.
json_t *fields_to_json(const struct field *fields, const void *object);

// Fills a zeroed object. PROTOCOL names the member that is wrong or missing, by its path. After an error, what was
// filled stays in the object, for the caller to free.
int fields_from_json(const struct field *fields, void *object, const json_t *json);

// Makes a whole document: the member `format` with the format's version first, where a reader looks, then the object's
// members. NULL: as fields_to_json().
json_t *fields_to_document(const struct field *fields, const void *object, const char *format, int version);

// Checks that a document has that format and version. PROTOCOL: it contains no `what` of weft, e.g. "results"; VERSION
// names both versions.
int fields_check_document(const json_t *json, const char *format, int version, const char *what);

#endif
