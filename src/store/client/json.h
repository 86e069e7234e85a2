// Reads a server's answers. Each value is checked, an absent value is zero (etcd omits zeros), and errors name the
// field.
#ifndef STORE_CLIENT_JSON_H
#define STORE_CLIENT_JSON_H

#include "base/text/text.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// Parses a JSON object. PROTOCOL: it is malformed; the text says where. The caller frees `*object`.
int client_json_parse(const char *data, size_t size, json_t **object);

// A 64-bit integer, written as a number or as a decimal string. Absent: 0.
int client_json_int(const json_t *object, const char *name, int64_t *out);

// The same for the full unsigned range.
int client_json_uint(const json_t *object, const char *name, uint64_t *out);

int client_json_bool(const json_t *object, const char *name, bool *out);

// A member that is an object or an array; NULL when absent.
int client_json_object(const json_t *object, const char *name, const json_t **out);
int client_json_array(const json_t *object, const char *name, const json_t **out);

// Decodes a base64 member and appends it to `out`. Absent: nothing is added.
int client_json_bytes(const json_t *object, const char *name, struct text *out);

// Adds `size` bytes in base64.
void client_base64_add(struct text *out, const void *bytes, size_t size);

#endif
