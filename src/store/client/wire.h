// Converts Weft's types to and from the gateway's JSON.
#ifndef STORE_CLIENT_WIRE_H
#define STORE_CLIENT_WIRE_H

#include "base/text/text.h"
#include <jansson.h>
#include <weft/store.h>

// "key":"...", and "range_end":"..." for a prefix.
void client_wire_add_key(struct text *body, const char *key, bool prefix);

// Bodies of requests, without the braces around them.
void client_wire_add_range(struct text *body, const char *key, bool prefix, uint32_t limit);
void client_wire_add_put(struct text *body, const char *key, const void *value, size_t value_len, int64_t lease);

// A whole transaction.
void client_wire_add_txn(struct text *body, const struct weft_store_txn *txn);

// The revision of the answer's header. PROTOCOL: it has none.
int client_wire_revision(const json_t *answer, int64_t *revision);

// One key and its state, appended to `list`.
int client_wire_kv(const json_t *object, struct weft_store_list *list);

// The answer to a range of `key`, or of all keys that start with it. A server may lie: PROTOCOL if the answer has
// another key. After a failure nothing is left to free.
int client_wire_list(const json_t *answer, const char *key, bool prefix, int64_t revision,
                     struct weft_store_list **out);

// The answer to `txn`.
int client_wire_txn_result(const json_t *answer, const struct weft_store_txn *txn, struct weft_store_txn_result **out);

#endif
