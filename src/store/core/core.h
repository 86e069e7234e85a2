// etcd's data model in memory: keys with revisions, transactions, leases, history, watches.
//
// The core does no input or output, takes no lock and reads no clock: its owner serialises the calls and passes the
// time in (nanoseconds of any monotonic clock), so that a simulation can drive it. Records are immutable and
// reference-counted: the holder of a reference may read a record without the owner's lock.
#ifndef STORE_CORE_CORE_H
#define STORE_CORE_CORE_H

#include "store/core/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  CORE_MAX_TXN_OPS = 128,       // per list of a transaction, as in etcd
  CORE_MAX_TXN_BYTES = 3 << 19, // bytes of keys and values in a transaction; etcd limits a whole request to this
  CORE_MAX_ANSWER = 64 << 20,   // bytes of keys and values in one answer
  CORE_BATCH_BYTES = 1 << 20,   // bytes of keys and values after which a watch's batch takes no further revision
  CORE_KEY_COST = 160,          // approximate bytes of a key in addition to its name and value
  CORE_MIN_TTL_S = 2,           // etcd's minimum, with its default election time: a shorter request gets this
};
#define CORE_MAX_TTL_S INT64_C(9000000000) // etcd's maximum

struct core;

struct core_bytes {
  const char *data;
  size_t size;
};

// A range of keys, as in etcd. `end` empty: the key alone; one NUL byte: all keys from `key` on; else [key, end).
struct core_range {
  struct core_bytes key;
  struct core_bytes end;
};

// Compares byte strings: less than 0, 0, greater than 0.
int core_bytes_order(const char *a, size_t a_size, const char *b, size_t b_size);

bool core_range_holds(const struct core_range *range, const char *key, size_t size);

// One state of one key; it never changes.
struct core_record {
  atomic_uint refs;
  int64_t create_revision;
  int64_t mod_revision;
  int64_t version;
  int64_t lease;
  size_t key_size;
  size_t value_size;
  size_t room; // bytes of data
  char data[]; // the key, a NUL, the value, a NUL
};

static inline const char *core_record_value(const struct core_record *record) {
  return record->data + record->key_size + 1;
}

struct core_record *core_record_ref(struct core_record *record);
void core_record_unref(struct core_record *record); // NULL is legal

struct core_limits {
  // Limits of the history for watches that start in the past. Both limits apply; whole revisions are dropped, oldest
  // first.
  size_t events;
  size_t bytes; // bytes of keys and values

  // Limit of the live data, so that clients cannot use more memory than this; 0: no limit.
  size_t live; // bytes of the existing keys and values, plus CORE_KEY_COST for each key
  size_t leases;
};
#define CORE_LIMITS_DEFAULT                                                                                            \
  ((struct core_limits){.events = 1 << 16, .bytes = 64 << 20, .live = 256 << 20, .leases = 1 << 16})

// NULL: no memory.
struct core *core_create(struct core_limits limits);
void core_free(struct core *core);           // no watch may exist any more
void core_forget_watches(struct core *core); // without access to them: their driver no longer exists

int64_t core_revision(const struct core *core);
size_t core_count(const struct core *core); // number of keys

// The oldest revision that a watch may start from.
int64_t core_oldest_revision(const struct core *core);

// Transactions -----------------------------------------------------------------------------------------------------

enum core_op_kind { CORE_PUT, CORE_DELETE, CORE_RANGE };

struct core_op {
  enum core_op_kind kind;
  struct core_range range; // PUT: its key
  struct core_bytes value; // PUT
  int64_t lease;           // PUT: 0 for none
  bool ignore_value;       // PUT: keep the value that the key has
  bool ignore_lease;       // PUT: keep the lease that the key has
  bool prev_kv;            // PUT, DELETE: the answer has the previous state
  int64_t limit;           // RANGE: 0 or less: all
  int64_t revision;        // RANGE: 0 or less: now
  bool keys_only;          // RANGE: only for the code that writes the answer; the core returns whole records
  bool count_only;         // RANGE
};

enum core_target { CORE_VERSION, CORE_CREATE, CORE_MOD, CORE_VALUE, CORE_LEASE }; // the numbers of etcd's JSON
enum core_relation { CORE_EQUAL, CORE_GREATER, CORE_LESS, CORE_NOT_EQUAL };       // the same

struct core_compare {
  struct core_range range; // every key in it has to satisfy the comparison; an absent key compares as zeros, and its
                           // value never compares true
  enum core_target target;
  enum core_relation relation;
  int64_t number;
  struct core_bytes value;
};

struct core_txn {
  const struct core_compare *compares;
  const struct core_op *success;
  const struct core_op *failure;
  size_t num_compares;
  size_t num_success;
  size_t num_failure;
};

struct core_response {
  struct core_record **records; // RANGE: the current states; with prev_kv: the previous states
  size_t num_records;
  size_t count;     // RANGE: keys in the range; DELETE: keys removed
  bool more;        // RANGE: some keys were left out because of the limit
  int64_t revision; // the store's, after this operation
};

struct core_result {
  bool succeeded;
  int64_t revision;
  const struct core_op *ops; // the branch that ran, in the caller's memory
  struct core_response *responses;
  size_t num_responses; // the number of `ops`
};

// Runs a transaction completely or, if the status is not OK, not at all. Its changes share one new revision; without a
// change the revision stays the same. On OK the caller frees `out` with core_result_free().
enum core_status core_txn(struct core *core, const struct core_txn *txn, struct core_result *out);
void core_result_free(struct core_result *result);

// The same for one operation, without a comparison.
enum core_status core_run(struct core *core, const struct core_op *op, struct core_result *out);

// The same for a put or a deletion without records in the answer: nothing has to be freed, and a put of an existing key
// allocates nothing once the history is full.
enum core_status core_apply(struct core *core, const struct core_op *op, struct core_response *out);

// Leases -----------------------------------------------------------------------------------------------------------

// Grants a lease with the id `*id`; if that is 0, with a random id, which is written to `*id`. `*ttl_s` is the
// requested time to live and becomes the granted one.
enum core_status core_lease_grant(struct core *core, uint64_t now_ns, int64_t *id, int64_t *ttl_s);

// Restarts the lease's time to live; `*ttl_s` becomes the granted time to live. LEASE_NOT_FOUND: if its time had
// passed, its keys are deleted by now, as after core_lease_expire().
enum core_status core_lease_keepalive(struct core *core, uint64_t now_ns, int64_t id, int64_t *ttl_s);

struct core_lease_state {
  int64_t left_s; // whole seconds
  int64_t granted_s;
  struct core_record **keys; // sorted; freed with core_records_free()
  size_t num_keys;
};

// The state of a lease. `with_keys`: also its keys. LEASE_NOT_FOUND: as above.
enum core_status core_lease_state(struct core *core, uint64_t now_ns, int64_t id, bool with_keys,
                                  struct core_lease_state *out);

// Ends a lease; its keys are deleted in one revision.
enum core_status core_lease_revoke(struct core *core, int64_t id);

// If the owner is more than a second late for the check that core_lease_next_check() announced, or for one a second
// after the first grant, its process was stopped, so that no client could renew a lease: extends each lease by this
// time, and returns it. Otherwise 0. The owner calls this before it does anything else with leases.
uint64_t core_lease_note_pause(struct core *core, uint64_t now_ns);

// The time of the owner's next check: that of the next expiry, but a second from now at the latest; UINT64_MAX: there
// are no leases.
uint64_t core_lease_next_check(struct core *core, uint64_t now_ns);

// Revokes each lease whose time has passed.
enum core_status core_lease_expire(struct core *core, uint64_t now_ns);

// The time at which core_lease_expire() next has something to do; UINT64_MAX: never.
uint64_t core_lease_next_expiry(const struct core *core);

size_t core_lease_count(const struct core *core);

// The id of the lease at `index`, in the order of ids.
int64_t core_lease_id(const struct core *core, size_t index);

void core_records_free(struct core_record **records, size_t count);

// Watches ----------------------------------------------------------------------------------------------------------

struct core_event {
  int64_t revision;
  struct core_record *now;  // NULL: deleted
  struct core_record *prev; // previous state, NULL: none; never NULL for a deletion
};

// A list of events that holds references. Initialise it with zeros; core_events_clear() drops the references and the
// memory.
struct core_events {
  struct core_event *items;
  size_t count;
  size_t capacity;
};
void core_events_clear(struct core_events *events);
void core_events_drop(struct core_events *events); // the references only

// The position of a reader in the history. Each reader reads at its own speed and holds no memory. Set `range` (whose
// bytes must stay valid) and `wake`; the core uses the rest.
struct core_watch {
  struct core_range range;
  void (*wake)(struct core_watch *watch); // called inside the call that made the events: there are events to take now
  int64_t from;
  uint64_t next;
  bool pending; // there are events to take, or they were dropped
  struct core_watch *older, *newer;
};

// Starts at revision `from`; 0 or less: after the current one. If an old revision was dropped, core_watch_take()
// reports that.
void core_watch_add(struct core *core, struct core_watch *watch, int64_t from);
void core_watch_remove(struct core *core, struct core_watch *watch);

// Adds the watch's next events to `out`: whole revisions, until there are `enough` events, CORE_BATCH_BYTES of present
// and previous states, or no more events. Clears `pending` when all were taken. COMPACTED: the history does not have
// the next events any more; the watch can only be removed.
enum core_status core_watch_take(struct core *core, struct core_watch *watch, size_t enough, struct core_events *out);

#endif
