// Small helpers on the store: JSON values, creation by whoever is first, a watch that feeds a poll() loop.
#ifndef RUN_COMMON_STORE_JSON_H
#define RUN_COMMON_STORE_JSON_H

#include <stdbool.h>

#include <jansson.h>

#include <weft/store.h>

// Puts `json` on the lease and takes it over; NULL is NOMEM. [any]
int run_storage_put(weft_store_t *store, const char *key, json_t *json, int64_t lease);

// Puts it only if there is no such key: `*created` says. A key that already has this very value counts as created (the
// request before was lost on its way back). Takes over `json`. [any]
int run_storage_create(weft_store_t *store, const char *key, json_t *json, int64_t lease, bool *created);

// Reads a key. `*json` is NULL when there is none. PROTOCOL: not JSON. [any]
int run_storage_get(weft_store_t *store, const char *key, json_t **json);

// Whether what failed with `err` may go well when it is tried again: the store did not answer. [any]
bool run_storage_may_pass(int err);

struct run_inbox;

struct run_change {
  enum weft_store_event_kind kind;
  char *key;    // of a PUT or DELETE
  json_t *json; // of a PUT; NULL when its value is no JSON
};

// Everything that is and will be under `prefix`, in order: first what is there, as PUT.
int run_inbox_open(struct run_inbox **inbox, weft_store_t *store, const char *prefix);
void run_inbox_close(struct run_inbox *inbox); // before its store; NULL is legal

// Reads everything again, after RESET: what is there comes as PUT once more, in its place among the changes. What is
// not there any more does not come at all. [owner]
int run_inbox_read(struct run_inbox *inbox);

// Readable (poll) while there is something to take.
int run_inbox_fd(const struct run_inbox *inbox);

// Takes the oldest; false when there is none. Give it back with run_change_free(). [owner]
bool run_inbox_take(struct run_inbox *inbox, struct run_change *change);
void run_change_free(struct run_change *change);

#endif
