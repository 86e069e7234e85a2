// The inside of a meeting: the known content of the store, and the functions that its files share.
//   meet.c  open, close, ranks          join.c   taking a rank          claim.c its transactions
//   founder.c whether the founder of the meeting in the store is alive
//   state.c changes by events of the store        step.c   barriers and exchanges
//   wait.c  waits, and reasons why they end
//   keep.c  the thread that renews the lease, and removes the keys of dead workers
//   link.c  the thread that holds the connections     probe.c  whether a worker is alive
//   name.c  keys, and names of workers
#ifndef MEET_STATE_H
#define MEET_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/boot_id.h"
#include "base/text/text.h"
#include "meet/meet.h"

enum {
  MEET_ID_SIZE = 17, // 16 hexadecimal digits and a NUL
  MEET_ADDRESS_SIZE = 64,
  MEET_PLACE_SIZE = BOOT_ID_SIZE + 24,
  MEET_KEY_SIZE = 512,
  MEET_TTL_S = 5,         // longer than any pause of a thread on a host where all processors are busy measuring
  MEET_RENEW_MS = 1000,   // between two renewals of the lease
  MEET_SILENCE_MS = 3000, // a wait ends when the store has not answered for so long
  MEET_GRACE_MS = 1000,   // workers with different settings stay so long, so that others that start then see them
};

enum meet_end { MEET_GOING, MEET_LEFT, MEET_LOST, MEET_FAILED };

struct meet_worker {
  bool there; // its claim is in the store
  char meeting[MEET_ID_SIZE], id[MEET_ID_SIZE];
  int64_t lease;
  char *host; // from the claim; stays when the claim goes
  int64_t pid;
  char address[MEET_ADDRESS_SIZE]; // "HOST:PORT", numeric
  char place[MEET_PLACE_SIZE]; // equal if host and network namespace are the same, where a refused connection means a
                               // death
  json_t *settings;
  enum meet_end end;
  bool in_store;   // `end` is in the store, too
  bool suspect;    // it seems dead; set until the keeper has checked whether it left in good order, which the watch may
                   // report later
  bool clear;      // this worker still has to end its lease
  int err;         // FAILED
  char *why;       // LOST, FAILED
  json_t *step[2]; // its values for the steps n, by n % 2
  uint32_t step_number[2]; // from 1; 0: none
  bool connect_begun;      // a connection to it was begun, or cannot be
};

struct meet_linker;

struct meet {
  weft_store_t *store;
  char *prefix, *host;
  uint32_t size;
  json_t *settings;
  bool follows; // this worker does not found a meeting
  bool (*interrupted)(void *arg);
  void (*waiting)(void *arg, uint32_t come, uint32_t size);
  void *arg;
  char id[MEET_ID_SIZE], place[MEET_PLACE_SIZE], address[MEET_ADDRESS_SIZE];
  int64_t lease;
  weft_store_watch_t *watch;
  pthread_t keeper;
  bool keeps;
  struct meet_linker *linker;
  int waker; // eventfd: the connection thread checks whether there is a worker to call

  pthread_mutex_t lock;   // guards everything below
  pthread_cond_t changed; // waiting calls check again. CLOCK_MONOTONIC
  pthread_cond_t work;    // the keeper has something to do: see meet_wake_keeper(). CLOCK_MONOTONIC
  uint64_t wakes;         // how often it was woken: it gives the lock away to call the store, and does not sleep then
                          // if this has changed
  uint64_t changes;       // number of events of the store so far
  bool stop;
  bool leaving;
  int64_t revision;           // of the store's last event
  bool reread;                // the store was restarted or does not have all events any more: read everything
  bool lease_ended;           // this worker's lease has ended
  uint64_t away_ns;           // the time since which the store does not answer; 0: it answers
  char open_id[MEET_ID_SIZE]; // value of the key `meeting`; "": there is none
  int64_t open_revision;      // its create_revision
  int64_t open_change;        // its mod_revision: a claim checks by it that nobody has marked the meeting as full
  uint32_t open_size;
  bool open_full;             // it has had all its workers, or is over: it accepts no others
  bool joined;                // this worker's claim is in the store
  char meeting[MEET_ID_SIZE]; // the meeting of this worker
  uint32_t rank;
  bool claimed;     // a claim of `rank` in `meeting` was sent: it may be in the store, even if it was not seen there
  bool all_joined;  // all workers have joined once
  uint32_t other;   // a rank with other settings; MEET_MAX_WORKERS: none
  char *difference; // its first other setting, in words: it may leave before this worker reports that
  uint32_t steps;   // number of steps that this worker has begun
  uint32_t num_reported;     // how many had come at the last call of `waiting`
  _Atomic uint64_t limit_ns; // when calls to the store give up; CLOCK_NEVER: only at their own limit
  atomic_bool lost;          // `first` is dead or has failed
  uint32_t first;
  struct meet_worker workers[MEET_MAX_WORKERS];
};

// name.c. A key into key[MEET_KEY_SIZE].
void meet_key(const struct meet *meet, char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
// "rank 1 on HOST (process 12)". With the lock.
void meet_add_name(const struct meet *meet, uint32_t rank, struct text *out);
// Names the first setting that the worker of that rank has otherwise: there is one. The caller frees the text; NULL: no
// memory. With the lock.
char *meet_difference(const struct meet *meet, uint32_t rank);
// Fails with INVALID: the settings of this worker and of `meet->other` differ. With the lock.
int meet_settings_differ(const struct meet *meet);
bool meet_same_settings(const struct meet *meet, const struct meet_worker *worker);

// state.c. Each with the lock.
void meet_state_put(struct meet *meet, const struct weft_store_kv *kv);
void meet_state_delete(struct meet *meet, const char *key);
// Everything under the prefix was read: keys that are not in the list have gone.
void meet_state_read(struct meet *meet, const struct weft_store_list *list);
// This worker has itself seen a sign of death; the keeper investigates it.
void meet_state_suspect(struct meet *meet, uint32_t rank, const char *why);
// The rank is dead; the keeper informs the others.
void meet_state_lost(struct meet *meet, uint32_t rank);
// Wakes the thread of keep.c.
void meet_wake_keeper(struct meet *meet);
// Wakes all waiting calls and both threads.
void meet_state_changed(struct meet *meet);
uint32_t meet_state_come(const struct meet *meet); // number of claims of this meeting
void meet_worker_free(struct meet_worker *worker);

// join.c. Takes a rank and waits until all have come. With the lock, which is released meanwhile.
int meet_join(struct meet *meet, uint64_t deadline_ns);
// founder.c. The founder of the open meeting, to which a new worker connects to see whether it is alive.
struct meet_founder {
  char id[MEET_ID_SIZE];
  bool answered;
  uint64_t since_ns, next_ns; // time of the first attempt; of the next one
};
// Whether the founder of the open meeting is known here. With the lock.
bool meet_founder_known(const struct meet *meet);
// Whether the founder has answered. With the lock.
bool meet_founder_lives(const struct meet *meet, const struct meet_founder *founder);
// Makes one attempt to reach the founder, or waits for the time of the next one. The caller has to check everything
// again afterwards. If the founder is dead, ends its lease, and with it the meeting. With the lock, which is released
// meanwhile.
void meet_founder_call(struct meet *meet, struct meet_founder *founder, uint64_t deadline_ns);
// claim.c. Runs one transaction, which founds a meeting as rank 0, or takes `rank` of the open one. `*taken`: it was
// carried out. With the lock, which is released meanwhile.
int meet_claim(struct meet *meet, uint32_t rank, bool found, bool *taken);
// Marks the open meeting, which is this worker's, as full, so that nobody else can take part. With the lock, as above.
int meet_close_to_others(struct meet *meet);
// Gives up this worker's claim in a meeting that was over before all had come. With the lock, as above.
int meet_give_back(struct meet *meet);

// wait.c. With the lock. Returns 0 when `done` returns true. Otherwise the error that ends the wait: first an error
// that ends every wait, then that of `hopeless`, which it returns if the wait can never succeed. `missing` adds to the
// text what was waited for.
int meet_wait(struct meet *meet, uint64_t deadline_ns, bool (*done)(struct meet *meet, void *arg),
              int (*hopeless)(struct meet *meet, void *arg),
              void (*missing)(struct meet *meet, void *arg, struct text *out), void *arg);
// The error that ends every wait: a worker is dead, this worker is taken for dead, the store does not answer, an
// interrupt. 0: none.
int meet_obstacle(struct meet *meet);
// Sleeps until something changes, the time has come, or the next check for an interrupt is due. With the lock.
void meet_sleep(struct meet *meet, uint64_t until_ns);

// keep.c
int meet_keeper_start(struct meet *meet);
void meet_keeper_stop(struct meet *meet);
// Writes into the store how a rank ended. If a rank left and this worker knows of a death, it also writes which worker
// is dead. Without the lock.
int meet_put_end(struct meet *meet, uint32_t rank, const char *id, const char *kind, int err, const char *why);

// link.c. Listens (address "" in meet->address: chosen by `host`), and sets meet->address.
int meet_linker_start(struct meet *meet, const char *host);
void meet_linker_stop(struct meet *meet); // says good-bye to all

// probe.c
enum meet_life { MEET_ALIVE, MEET_DEAD, MEET_UNKNOWN };
// Connects to a worker's port. Called without the lock, so pass a copy of the address.
enum meet_life meet_probe(const char *address, const char *id, bool same_place, uint32_t timeout_ms);
// Begins to connect to a numeric HOST:PORT. -1: the connection was refused at once; errno has the reason.
int meet_connect(const char *address);

#endif
