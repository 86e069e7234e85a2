// The thread of an agent that works with the store. It is made when publish or fetch first needs it. It keeps the lease
// alive, puts the agent's key again when regions change or the store has lost the key, and loads the metadata that the
// watch reports.
//
// store_thread.c has the thread, store_publish.c the metadata that the agent publishes, store_key.c the agent's own
// keys in the store, store_fetch.c the keys of other agents.
#ifndef AGENT_EXCHANGE_STORE_THREAD_H
#define AGENT_EXCHANGE_STORE_THREAD_H

#include <pthread.h>
#include <sys/queue.h>

#include "agent/services.h"

enum {
  STORE_THREAD_MAX_KEY = 512,
  STORE_THREAD_NAMES = 1024,     // hash chains
  STORE_THREAD_RETRY_MS = 200,   // after the store failed
  STORE_THREAD_SEPARATOR = 0x1f, // between an agent's name, which has no such byte, and a label, in a key
  STORE_THREAD_MAX_NAME = WEFT_AGENT_MAX_NAME + WEFT_AGENT_MAX_LABEL,
};

// What this agent keeps in the store: its own metadata, or a selection under a label.
struct store_publication {
  char name[STORE_THREAD_MAX_NAME]; // part of the key
  uint32_t flags;                   // of weft_metadata_options
  uint32_t num_regions;
  weft_region_t *regions;
  SLIST_ENTRY(store_publication) next;
};

// A name that this agent fetched, with a label or without. The name stays watched after its key has gone.
struct store_name {
  char name[STORE_THREAD_MAX_NAME];
  weft_peer_t peer;      // the peer that was loaded last; 0: none
  uint64_t incarnation;  // its incarnation
  int64_t revision;      // revision of the last known state of its key; older events are ignored
  bool absent;           // it has no key
  uint64_t absent_until; // absent: it may come back until then, since the store did not answer; 0: it has gone
  void *blob;            // the newest value, to be loaded; NULL: none
  size_t size;
  bool asked;        // a caller asked for it: it is then loaded even if its incarnation has ended here
  uint32_t waiting;  // number of threads that wait for an answer
  uint64_t answered; // counts the answers; each caller waits for the next one
  int err;           // of the last answer: why the metadata could not be loaded
  char why[AGENT_MAX_DETAIL];
  bool todo; // in store_thread->todo
  SLIST_ENTRY(store_name) chain;
  STAILQ_ENTRY(store_name) next;
};

struct agent_store_thread {
  struct agent_services *services;
  weft_agent_t *agent;
  weft_store_t *store;
  char prefix[STORE_THREAD_MAX_KEY]; // of all agents' keys
  pthread_t thread;
  bool has_thread;
  _Atomic uint64_t limit_ns; // time limit of the thread's calls to the store

  pthread_mutex_t lock; // guards what follows; not held while the store or the agent is called
  pthread_cond_t changed;
  bool stop, news;
  bool must_put;       // the regions have changed
  bool must_renew;     // the store may have lost the lease
  bool must_read;      // the keys have to be read again: the watch may have missed changes
  bool away;           // the watch is interrupted
  uint64_t away_until; // a key that goes until then may have gone because its lease could not be renewed
  SLIST_HEAD(, store_name) names[STORE_THREAD_NAMES];
  STAILQ_HEAD(store_todo, store_name) todo;

  bool publishing;                              // guarded by `lock`; true: a thread uses the fields that follow
  SLIST_HEAD(, store_publication) publications; // that should be in the store
  int64_t lease;                                // 0: none
  uint64_t renew_ns;                            // when the lease is to be renewed
  weft_store_watch_t *watch;
};

// The agent's store thread; starts it if there is none. INVALID: the agent has no store.
int store_thread_get(weft_agent_t *agent, struct agent_store_thread **store_thread);
// Wakes the thread, which has something to do. [lock]
void store_thread_wake(struct agent_store_thread *store_thread);
void store_thread_key(const struct agent_store_thread *store_thread, const char *name, char out[STORE_THREAD_MAX_KEY]);
// The name of a key: an agent's, with a label that is not NULL. INVALID: the label cannot be one.
int store_thread_name(const char *agent, const char *label, char out[STORE_THREAD_MAX_NAME]);
// Sleeps for a moment, or until the deadline.
void store_thread_pause(struct agent_store_thread *store_thread, uint64_t deadline_ns);

// Sets `publishing`, which gives the caller the fields below it [publishing]. Other threads hold it while they ask the
// store. TIMEOUT: the store did not answer them until the deadline; UINT64_MAX: no deadline.
int store_thread_lock(struct agent_store_thread *store_thread, uint64_t deadline_ns);
void store_thread_unlock(struct agent_store_thread *store_thread);

// store_key.c: the agent's keys, and the lease that they are on; all [publishing]. Puts the publication under the key.
// EXISTS: another living agent has the key, on `*other_lease` (0: on no lease). CONFLICT: others change the key all the
// time. NOT_FOUND: the lease ran out meanwhile.
int store_key_put(struct agent_store_thread *store_thread, const char *key, const struct store_publication *publication,
                  int64_t *other_lease);
// Deletes the key, unless another agent has put it since this agent's lease ran out. CONFLICT: as above.
int store_key_delete(struct agent_store_thread *store_thread, const char *key);
// Renews the lease, if there is one. Sets `*put` if the keys have to be put again: there is no lease, or it ran out.
int store_key_renew_lease(struct agent_store_thread *store_thread, uint64_t now_ns, bool *put);

// store_publish.c: renews the lease and puts the keys again, if that is due. Returns when it has to be called next.
// [publishing]
uint64_t publish_progress(struct agent_store_thread *store_thread, uint64_t now_ns);
void publish_leave(struct agent_store_thread *store_thread);
void publish_free(struct agent_store_thread *store_thread);

// store_fetch.c: loads the metadata that has arrived, and ends the peers whose keys have gone. Returns when it has to
// be called next.
uint64_t fetch_progress(struct agent_store_thread *store_thread, uint64_t now_ns);
void fetch_free(struct agent_store_thread *store_thread);

#endif
