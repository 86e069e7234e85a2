// Stores of each kind side by side, to which the same things are done; each says what it answered, in one form for all:
// revisions are counted from the one at which it began, leases by their places.
#ifndef CONFORMANCE_SUBJECT_H
#define CONFORMANCE_SUBJECT_H

#include "base/text/text.h"
#include "support/events.h"
#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

enum { SUBJECTS = 3, SUBJECT_LEASES = 4, SUBJECT_WATCHES = 4 };

struct subject_watch {
  weft_store_watch_t *watch; // NULL: none
  const char *prefix;
  int64_t from;
  size_t said; // events that were compared already
  struct support_events events;
};

struct subject {
  const char *name;
  weft_store_t *store;
  int64_t base; // its revision at the beginning
  int64_t leases[SUBJECT_LEASES];
  struct subject_watch watches[SUBJECT_WATCHES];
  bool planted; // says one thing that is wrong: so that a difference is found
  struct text said;
};

// Opens a local store, an embedded server and a real etcd. False: etcd does not start.
bool subjects_open(struct subject subjects[SUBJECTS]);
void subjects_close(struct subject subjects[SUBJECTS]);

// Empties the store and counts from here.
void subject_begin(struct subject *subject);

// Ends its watches and leases.
void subject_end(struct subject *subject);

int64_t subject_number_of_lease(const struct subject *subject, int64_t lease); // from 1; 0 for none, -1 for a stranger
int64_t subject_from_base(const struct subject *subject, int64_t revision);    // 0 stays 0
void subject_say_list(struct subject *subject, const struct weft_store_list *list);

// Does what the random number says, a synchronisation if `sync`: every event until now has to come, and is said.
void subject_operate(struct subject *subject, uint64_t random, bool sync);

// sequence_watch.c
void subject_run_watch(struct subject *subject, uint64_t *random); // opens or closes one
void subject_sync(struct subject *subject);
void subject_end_watches(struct subject *subject);

// Of the keys that there are, and some that never are; longest first, as a marker of each has to come last.
extern const char *const subject_prefixes[];
enum { SUBJECT_PREFIXES = 7 };

#endif
