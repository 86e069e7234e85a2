// Reading the gateway's requests. A member that is absent or null is zero, as everywhere in protobuf's JSON; names are
// known both as range_end and as rangeEnd.
#ifndef STORE_GATEWAY_JSON_H
#define STORE_GATEWAY_JSON_H

#include "store/core/core.h"
#include <jansson.h>

// Owns the parsed JSON and the decoded bytes. Initialise it with zeros; gateway_reader_free() frees both.
struct gateway_reader {
  json_t *root;
  struct gateway_block *blocks;
  char error[256]; // the first error
};

// Parses the JSON value at data[*place] and moves `*place` behind it. It ignores the bytes that follow.
bool gateway_parse(struct gateway_reader *reader, const char *data, size_t size, size_t *place);
void gateway_reader_free(struct gateway_reader *reader);

// Allocates memory that lives as long as the reader. NULL: no memory; the error says so.
void *gateway_allocate(struct gateway_reader *reader, size_t count, size_t size);

// Whether there is such a member that is not null.
bool gateway_has(const json_t *object, const char *name);

// Each returns false if the member has another type; the error names it.
bool gateway_int(struct gateway_reader *reader, const json_t *object, const char *name, int64_t *out);
bool gateway_bool(struct gateway_reader *reader, const json_t *object, const char *name, bool *out);
bool gateway_bytes(struct gateway_reader *reader, const json_t *object, const char *name, struct core_bytes *out);
bool gateway_object(struct gateway_reader *reader, const json_t *object, const char *name, const json_t **out);
bool gateway_array(struct gateway_reader *reader, const json_t *object, const char *name, const json_t **out);

// Reads a member that is one of `names`, as its index, or a number.
bool gateway_enum(struct gateway_reader *reader, const json_t *object, const char *name, const char *const *names,
                  size_t num_names, size_t *out);

#endif
