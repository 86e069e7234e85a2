// Inside a meeting: what the store is known to hold, and the parts that its files give each other.
//   meet.c  open, close, ranks          join.c   taking a rank          claim.c its transactions
//   founder.c whether the meeting that it finds lives
//   state.c what events of the store change       step.c   barriers and exchanges
//   wait.c  waits, and what ends them
//   keep.c  the thread that renews the lease, and clears up after the dead
//   link.c  the thread that holds the connections     probe.c  whether somebody still lives
//   name.c  keys, and how workers are called
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
  MEET_TTL_S = 5,         // beyond any pause of a thread on a host whose processors all measure
  MEET_RENEW_MS = 1000,   //
  MEET_SILENCE_MS = 3000, // a store that is away for so long ends a wait
  MEET_GRACE_MS = 1000,   // workers with other settings stay so long, so that those who start with them see them
};

enum meet_end { MEET_GOING, MEET_LEFT, MEET_LOST, MEET_FAILED };

struct meet_worker {
  bool there; // its claim is in the store
  char meeting[MEET_ID_SIZE], id[MEET_ID_SIZE];
  int64_t lease;
  char *host; // of `known`: stays when the claim goes
  int64_t pid;
  char address[MEET_ADDRESS_SIZE]; // "HOST:PORT", numeric
  char place[MEET_PLACE_SIZE];     // equal: the same host and network namespace, where a refused call is a death
  json_t *settings;
  enum meet_end end;
  bool in_store;   // the store tells of `end`, too
  bool suspect;    // it seems dead: until the keeper has looked whether it left in good order, which the watch may tell
                   // later
  bool clear;      // its lease is still to be ended by this worker
  int err;         // FAILED
  char *why;       // LOST, FAILED
  json_t *step[2]; // what it brought to the steps n, by n % 2
  uint32_t step_number[2]; // from 1; 0: none
  bool dialled;
};

struct meet_linker;

struct meet {
  weft_store_t *store;
  char *prefix, *host;
  uint32_t size;
  json_t *settings;
  bool follows; // does not found a meeting
  bool (*interrupted)(void *arg);
  void (*waiting)(void *arg, uint32_t come, uint32_t size);
  void *arg;
  char id[MEET_ID_SIZE], place[MEET_PLACE_SIZE], address[MEET_ADDRESS_SIZE];
  int64_t lease;
  weft_store_watch_t *watch;
  pthread_t keeper;
  bool keeps;
  struct meet_linker *linker;
  int waker; // eventfd: the thread of the connections looks whether there is somebody to call

  pthread_mutex_t lock;   // of all below
  pthread_cond_t changed; // whoever waits looks again. CLOCK_MONOTONIC
  pthread_cond_t work;    // the keeper has something to do. CLOCK_MONOTONIC
  uint64_t changes;       // events of the store so far
  bool stop;
  bool leaving;
  bool reread;                // the store was restarted or has forgotten events: read everything
  bool lease_ended;           // this worker's
  uint64_t away_ns;           // since when the store does not answer; 0: it does
  char open_id[MEET_ID_SIZE]; // of the key `meeting`; "": there is none
  int64_t open_revision;      // its create_revision
  int64_t open_change;        // its mod_revision: a claim compares that nobody has marked it as full meanwhile
  uint32_t open_size;
  bool open_full;             // it has had all its workers, or is over: it takes no others
  bool joined;                // this worker's claim is in the store
  char meeting[MEET_ID_SIZE]; // in which it is
  uint32_t rank;
  bool claimed;   // a claim of `rank` in `meeting` was sent: it may be in the store, whether that was seen or not
  bool met;       // all have been there
  uint32_t other; // a rank with other settings; MEET_MAX_WORKERS: none
  uint32_t steps; // that this worker has begun
  uint32_t said;  // how many had come when `waiting` was told last
  _Atomic uint64_t limit_ns; // when calls to the store give up; CLOCK_NEVER: not before their own limit
  atomic_bool lost;          // `first` is dead or has failed
  uint32_t first;
  struct meet_worker workers[MEET_MAX_WORKERS];
};

// name.c. A key into key[MEET_KEY_SIZE].
void meet_key(const struct meet *meet, char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
// "rank 1 on HOST (process 12)". With the lock.
void meet_add_name(const struct meet *meet, uint32_t rank, struct text *out);
// INVALID: the settings here and at `meet->other` differ in the first that it names. With the lock.
int meet_settings_differ(const struct meet *meet);
bool meet_same_settings(const struct meet *meet, const struct meet_worker *worker);

// state.c. Each with the lock.
void meet_state_put(struct meet *meet, const struct weft_store_kv *kv);
void meet_state_delete(struct meet *meet, const char *key);
// Everything under the prefix was read: what is not there has gone.
void meet_state_read(struct meet *meet, const struct weft_store_list *list);
// This worker has seen a sign of death itself; the keeper looks into it.
void meet_state_suspect(struct meet *meet, uint32_t rank, const char *why);
// It is dead; the keeper tells the others.
void meet_state_lost(struct meet *meet, uint32_t rank);
// Wakes all that wait. `news`: also the threads.
void meet_state_changed(struct meet *meet);
uint32_t meet_state_come(const struct meet *meet); // claims of this meeting
void meet_worker_free(struct meet_worker *worker);

// join.c. Takes a rank and waits until all have come. With the lock, which it gives away meanwhile.
int meet_join(struct meet *meet, uint64_t deadline_ns);
// founder.c. The founder of the open meeting that a new worker calls.
struct meet_founder {
  char id[MEET_ID_SIZE];
  bool answered;
  uint64_t since_ns, next_ns; // first called; the next call
};
// The open meeting has a founder, who is known here. With the lock.
bool meet_founder_known(const struct meet *meet);
// It has answered. With the lock.
bool meet_founder_lives(const struct meet *meet, const struct meet_founder *founder);
// One call, or a wait for the time of the next one: look again at everything afterwards. Ends the lease of a founder
// that is dead, and its meeting with it. With the lock, which it gives away meanwhile.
void meet_founder_call(struct meet *meet, struct meet_founder *founder, uint64_t deadline_ns);
// claim.c. One transaction: to found a meeting as rank 0, or to take `rank` of the open one. `*taken`: it was carried
// out. With the lock, which it gives away meanwhile.
int meet_claim(struct meet *meet, uint32_t rank, bool found, bool *taken);
// Nobody else takes part in the open meeting, which is this worker's. Likewise.
int meet_close_to_others(struct meet *meet);
// To be no longer of a meeting that is over before all had come. Likewise.
int meet_give_back(struct meet *meet);

// wait.c. With the lock. 0 when `done` says so; else what ends the wait: first what ends every wait, then `hopeless`,
// an error where it will never be done. `missing` adds what was waited for.
int meet_wait(struct meet *meet, uint64_t deadline_ns, bool (*done)(struct meet *meet, void *arg),
              int (*hopeless)(struct meet *meet, void *arg),
              void (*missing)(struct meet *meet, void *arg, struct text *out), void *arg);
// What ends every wait: somebody is dead, this worker is taken for dead, the store is away, an interrupt. 0: nothing.
int meet_obstacle(struct meet *meet);
// Sleeps until something changes, the time has come, or it is time to ask whether it is interrupted. With the lock.
void meet_sleep(struct meet *meet, uint64_t until_ns);

// keep.c
int meet_keeper_start(struct meet *meet);
void meet_keeper_stop(struct meet *meet);
// Says in the store how a rank ended; of one that left, also who is dead, where this worker knows of a death. Without
// the lock.
int meet_put_end(struct meet *meet, uint32_t rank, const char *id, const char *kind, int err, const char *why);

// link.c. Listens (address "" in meet->address: chosen by `host`), and sets meet->address.
int meet_linker_start(struct meet *meet, const char *host);
void meet_linker_stop(struct meet *meet); // says good-bye to all

// probe.c
enum meet_life { MEET_ALIVE, MEET_DEAD, MEET_UNKNOWN };
// Calls a worker's port. Without the lock: give it a copy.
enum meet_life meet_probe(const char *address, const char *id, bool same_place, uint32_t timeout_ms);
// Begins to connect to a numeric HOST:PORT. `*fd` -1: it was refused at once, with errno.
int meet_connect(const char *address);

#endif
