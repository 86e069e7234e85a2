// Helpers for the store: JSON values, creation of keys that do not exist yet, and a watch for a poll() loop.
#ifndef RUN_COMMON_STORE_JSON_H
#define RUN_COMMON_STORE_JSON_H

#include <stdbool.h>

#include <jansson.h>

#include <weft/store.h>

// Puts `json` under the key, bound to the lease, and takes over `json`; NULL is NOMEM. [any]
int run_storage_put(weft_store_t *store, const char *key, json_t *json, int64_t lease);

// Puts `json` only if the key does not exist; `*created` says whether it did. A key that already has the same value
// counts as created, since the response to an earlier request may have been lost. Takes over `json`. [any]
int run_storage_create(weft_store_t *store, const char *key, json_t *json, int64_t lease, bool *created);

// Reads a key. `*json` is NULL if there is no such key. PROTOCOL: the value is not JSON. [any]
int run_storage_get(weft_store_t *store, const char *key, json_t **json);

// Whether a request that failed with `err` may succeed when it is repeated: the store did not answer. [any]
bool run_storage_may_pass(int err);

struct run_inbox;

struct run_change {
  enum weft_store_event_kind kind;
  char *key;    // of a PUT or DELETE
  json_t *json; // of a PUT; NULL if the value is not JSON
};

// Opens an inbox with all changes below `prefix`, in order. The keys that exist already come first, as PUT.
int run_inbox_open(struct run_inbox **inbox, weft_store_t *store, const char *prefix);
void run_inbox_close(struct run_inbox *inbox); // before its store; NULL is legal

// Reads all keys again after a RESET. Each existing key comes as PUT once more, in its place among the changes. There
// is no change for keys that no longer exist. [owner]
int run_inbox_read(struct run_inbox *inbox);

// A descriptor that is readable (poll) while there are changes to take.
int run_inbox_fd(const struct run_inbox *inbox);

// Takes the oldest change; false when there is none. Free it with run_change_free(). [owner]
bool run_inbox_take(struct run_inbox *inbox, struct run_change *change);
void run_change_free(struct run_change *change);

#endif
