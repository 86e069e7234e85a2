// An actor: one client after the other whose calls have next to no time. It reads, puts, deletes, runs transactions,
// renews leases, opens and closes watches, and closes while all of this is going on. Whatever the server and the
// network do meanwhile, every call has to end in time with an error that its text names, and what is read has to be
// what some order of the calls could have left.
#ifndef STORE_IMPATIENT_ACTOR_H
#define STORE_IMPATIENT_ACTOR_H

#include "store/impatient/truth.h"
#include "store/impatient/watched.h"
#include <pthread.h>

enum {
  ACTORS = 6,
  ACTOR_WATCHES = 3,
  ACTOR_LONGEST_MS = 30000, // more than the limit of a call, also on a loaded machine
};

#define ACTOR_PREFIX "/i/"

// What all actors share.
struct world {
  _Atomic uint64_t generation; // of the server's content: odd while the server ends and begins again without its keys
  atomic_bool calm;            // nothing is disturbed any more
  struct truth counters[TRUTH_COUNTERS];
  weft_store_t *shared; // a client that several actors use
  char direct[64];      // URLs: of the server, and of the relay to it
  char relayed[64];
  char dead[64];     // nobody listens there
  const char *token; // NULL: none
};

// A lease with the actor's one key on it.
struct actor_lease {
  int64_t id;          // 0: none
  uint64_t generation; // in which it was granted
  uint64_t since_ns;   // when the last request was sent that set its full time, and was answered
  uint64_t ttl_ns;
  bool has_key; // a put on it was answered
  bool revoked; // perhaps
};

struct actor {
  uint32_t index;
  uint64_t random;
  struct world *world;
  weft_store_t *store; // its own, or the shared one
  bool owns;
  _Atomic uint64_t limit_ns; // of the present call
  uint64_t generation;       // when the present call began
  uint64_t serial;           // number of its last put
  struct own own;
  struct actor_lease lease;
  struct watched watches[ACTOR_WATCHES];
  uint32_t calls, good, counted, expired, opened, events, losses, resets; // how many
  uint64_t began_ns, longest_ns;                                          // of a call, of the longest one
  char longest[32];
  char error[640];
  atomic_bool failed; // `error` is set
};

void actors_init(struct actor actors[ACTORS], struct world *world, uint64_t seed);

// Opens a client, uses it at random for `life_ms`, and closes it. False: something was wrong (`error`).
bool actor_live(struct actor *actor, uint32_t life_ms);

// When the world is calm: whether a client with enough time works, and its watch reports a put.
bool actor_conclude(struct actor *actor);

// Prints what all have done, and each error. False: there was one.
bool actors_report(struct actor actors[ACTORS]);

#endif
