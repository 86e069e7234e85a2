// An actor: one agent after the other whose calls have next to no time. It meets others, publishes and fetches, writes,
// reads back, cancels, invalidates its peers, and closes while all of this is going on. Whatever was given up before,
// every call has to end, with an error that its text names, and what a read finds in a slot has to be what the last
// write put there.
#ifndef TESTS_AGENT_ACTOR_H
#define TESTS_AGENT_ACTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

enum {
  ACTORS = 4,
  ACTOR_TRIPS = 3,          // of an actor at a time
  ACTOR_LONGEST_MS = 30000, // of a call, also on a loaded machine
};

// A write to a slot of a peer, then a read of it. Each round trip of each actor has its own slot in every peer.
struct round_trip {
  enum { TRIP_NONE, TRIP_WRITES, TRIP_READS } state;
  weft_peer_t peer;
  weft_dlist_t *written, *read, *remote;
  weft_transfer_t *transfer;
  uint64_t stamp; // that the slot is filled with
  uint64_t tag;   // of the completion that is to come; 0: none
};

struct actor {
  uint32_t index;
  uint64_t random;
  _Atomic uint16_t port; // of its agent; 0: there is none
  weft_agent_t *agent;
  weft_region_t lent, own, file; // lent: a slot for each round trip of each actor
  int fd;                        // of the file
  uint8_t *own_bytes;            // [ACTOR_TRIPS][2] slots that are written to others, and read from them
  struct round_trip trips[ACTOR_TRIPS];
  uint64_t last_sent; // number of its last notification
  uint64_t last_tag;  // of its last post with a completion
  struct {
    weft_peer_t peer;
    uint64_t number;
  } received[ACTORS];                             // the last notification of each actor
  uint32_t met, fetched, verified, failed, ended; // how many
  uint64_t began_ns, longest_ns;                  // of a call, of the longest one
  char longest[32];
  char error[400];
};

// What all actors of a test share: threads of one process, or processes.
struct actors {
  const char *transport; // the actors lend memory of a GPU over cuda, and host memory over others
  enum weft_memory_kind lent;
  weft_store_t *store;  // NULL: they only meet by socket
  atomic_uint verified; // writes to peers, by all
  struct actor list[ACTORS];
};

// Makes actors that have not lived yet.
void actors_init(struct actors *actors, const char *transport, uint64_t seed);

// Lives once: opens an agent, does something at random for `life_ms`, and longer until `least` writes are verified by
// all, up to ACTOR_LONGEST_MS, and closes it. False: something was wrong (`error`).
bool actor_live(struct actors *actors, struct actor *actor, uint32_t life_ms, uint32_t least);

uint32_t actor_draw(struct actor *actor, uint32_t below);

// Prints what all have done, and each error. False: there was one.
bool actors_report(struct actors *actors);

#endif
