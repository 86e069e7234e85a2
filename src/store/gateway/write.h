// Converts the core's answers to the gateway's JSON. Zero, false and empty members are left out; 64-bit numbers are
// strings. Each function adds a whole member with a comma behind it; gateway_write_end() removes the last comma.
#ifndef STORE_GATEWAY_WRITE_H
#define STORE_GATEWAY_WRITE_H

#include "store/gateway/gateway.h"

void gateway_write_end(struct text *out, char bracket);

void gateway_write_int(struct text *out, const char *name, int64_t value);
void gateway_write_base64(struct text *out, const void *bytes, size_t size); // the string alone

// `revision` 0: the header has none.
void gateway_write_header(struct text *out, const struct gateway *gateway, int64_t revision);

void gateway_write_event(struct text *out, const struct core_event *event, bool prev_kv);

// The members of an operation's answer, but not its header.
void gateway_write_response(struct text *out, const struct core_op *op, const struct core_response *response);

// "responses":[...]
void gateway_write_responses(struct text *out, const struct core_result *result);

#endif
