// The inside of the core, shared by the files of this folder.
#ifndef STORE_CORE_PARTS_H
#define STORE_CORE_PARTS_H

#include "store/core/core.h"
#include "store/core/keys.h"

struct core_lease {
  int64_t id;
  int64_t ttl_s;
  uint64_t deadline_ns;
  struct core_node *keys; // the keys on this lease
};

enum { CORE_SPARES = 8 };

// A ring of events. Each event has a number; its index is the number modulo the capacity, which is a power of two.
struct core_history {
  struct core_event *ring;
  size_t capacity;
  uint64_t first; // number of the oldest event
  uint64_t end;   // number of the next one
  size_t bytes;
  struct core_record *spares[CORE_SPARES]; // dropped records without other references, reused by the next puts
  size_t num_spares;
};

struct core {
  struct core_limits limits;
  int64_t revision;
  int64_t oldest; // the oldest revision from which on the history is complete
  struct core_keys keys;
  size_t live; // like `live` in struct core_limits
  struct core_history history;
  struct core_lease **leases; // sorted by id
  size_t num_leases;
  size_t max_leases;
  uint64_t check_ns;          // when the owner has to check the leases; 0: there were none
  struct core_watch *watches; // newest first
};

// change.c: each change adds an event to the revision that core_commit() makes. Room for the events is reserved before,
// so that no change can fail.

struct core_record *core_record_create(struct core *core, struct core_bytes key, struct core_bytes value);

// The bytes that the record counts in `live`.
static inline size_t core_record_cost(const struct core_record *record) {
  return record->key_size + record->value_size + CORE_KEY_COST;
}

// Makes `record` (whose reference it takes over) the key's state in revision `core->revision + 1`, on `lease` (NULL:
// none). `spare` becomes the node of a new key; returned when not needed.
struct core_node *core_change_put(struct core *core, struct core_record *record, struct core_lease *lease,
                                  struct core_node *spare);
void core_change_delete(struct core *core, struct core_node *node);

// Ends the revision, if events were added since `begin`: wakes watches, and drops history beyond the limits.
void core_commit(struct core *core, uint64_t begin);

// history.c

bool core_history_reserve(struct core_history *history, size_t more); // false: no memory
void core_history_add(struct core_history *history, struct core_event event);
struct core_event *core_history_at(const struct core_history *history, uint64_t number);

// Drops the oldest revision's events and returns that revision.
int64_t core_history_drop(struct core_history *history);
void core_history_free(struct core_history *history);

// The number of the first event at or after `revision`.
uint64_t core_history_seek(const struct core_history *history, int64_t revision);

// watch.c: looks at the events from `begin` on, for each watch.
void core_watch_notify(struct core *core, uint64_t begin);

// lease.c

struct core_lease *core_lease_find(const struct core *core, int64_t id);
void core_lease_attach(struct core_lease *lease, struct core_node *node); // NULL lease: none
void core_lease_detach(struct core_node *node);

#endif
