// An open watch, and the check of what it reports: every change of every key, in order, once.
#ifndef STORE_IMPATIENT_WATCHED_H
#define STORE_IMPATIENT_WATCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

enum { WATCHED_KEYS = 32, WATCHED_KEY = 24 };

// What is known of a key after the last event.
struct watched_key {
  char key[WATCHED_KEY];              // "": a free entry
  int64_t created, modified, version; // version 0: it was deleted
};

struct watched {
  weft_store_watch_t *watch; // NULL: none is open
  weft_store_t *store;
  bool begun, lost;                   // RESUMED or RESET was reported; LOST was the last of these
  bool knows_all;                     // a key without an entry does not exist
  const _Atomic uint64_t *generation; // of the server
  uint64_t expected;                  // the generation to which the entries belong
  int64_t revision;                   // of the last event
  _Atomic int64_t seen;               // how far a caller knows the keys now; for other threads
  struct watched_key keys[WATCHED_KEYS];
  _Atomic uint32_t events, losses, resets;
  atomic_bool closed;
  _Atomic(const char *) wrong; // what was wrong; NULL: nothing
  char detail[160];
};

// Forgets everything: for a watch of changes from now on.
void watched_begin(struct watched *watched, const _Atomic uint64_t *generation);

// What a list says: for a watch that begins behind it. `generation` is that of the server when it was read.
void watched_begin_at(struct watched *watched, const struct weft_store_list *list, const _Atomic uint64_t *generation,
                      uint64_t read_at);

// The watch function; `arg` is the struct.
void watched_take(void *arg, const struct weft_store_event *event);

#endif
