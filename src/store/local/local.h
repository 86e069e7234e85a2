// The inside of a store that lives in this process, shared by the files of this folder.
#ifndef STORE_LOCAL_LOCAL_H
#define STORE_LOCAL_LOCAL_H

#include "store/core/core.h"
#include "store/vtable.h"
#include <pthread.h>
#include <sys/queue.h>

struct local_watch {
  struct weft_store_watch base;
  struct core_watch core;
  weft_store_watch_fn fn;
  void *arg;
  char *bounds;        // memory of the range
  bool started;        // RESUMED or RESET was delivered
  bool ahead;          // it was opened for a revision that the store has not reached: it begins with RESET
  bool queued;         // in `ready`
  atomic_bool closing; // deliver nothing more
  LIST_ENTRY(local_watch) all;
  TAILQ_ENTRY(local_watch) ready;
};

struct local {
  struct weft_store base;
  pthread_mutex_t lock; // guards everything below; never held while a callback runs
  pthread_cond_t work;  // for the thread: a watch is ready, an earlier expiry, the end
  pthread_cond_t idle;  // for local_watch_close(): a delivery has ended
  struct core *core;
  LIST_HEAD(, local_watch) watches;
  TAILQ_HEAD(local_ready, local_watch) ready;
  struct local_watch *delivering;
  struct core_events events; // used by the thread: the events that it delivers
  bool stopping;
  pthread_t thread;
};

// The range of a key or a prefix. The range uses the memory `bounds`, at least strlen(key) + 1 bytes, and the key: both
// must stay valid.
struct core_range local_range(const char *key, bool prefix, char *bounds);

struct weft_store_kv local_kv(const struct core_record *record);

// Fails with the status's error and text, which names `key` ("": none).
int local_fail(enum core_status status, const char *key);

// txn.c

// Runs a put or a deletion. After a put, only the response's revision is valid.
int local_change(weft_store_t *store, const struct weft_store_op *op, struct core_response *out);
int local_txn(weft_store_t *store, const struct weft_store_txn *txn, struct weft_store_txn_result **out);

// watch.c
int local_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                     weft_store_watch_t **watch);
void local_watch_close(weft_store_watch_t *watch);
void local_watch_free(weft_store_watch_t *watch);

// Ends a watch because the store is being closed; the owner keeps the handle.
void local_watch_end(struct local_watch *watch);

// Called before leases are used: core_lease_note_pause(). With the lock.
void local_note_pause(struct local *local);

// The store's thread: expires leases and delivers events, until `stopping`.
void *local_thread(void *arg);

#endif
