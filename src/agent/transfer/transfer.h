// Transfers: how they are made (create.c, coalesce.c, choose_transport.c), and what becomes of them (post.c, wait.c).
#ifndef AGENT_TRANSFER_TRANSFER_H
#define AGENT_TRANSFER_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/agent.h>

#include "agent/limits.h"
#include "agent/memory/region.h"
#include "agent/progress/worker.h"
#include "agent/transfer/completions.h"
#include "base/forked.h"

struct agent_peer;

struct agent_span {
  uint64_t address, length;
  struct agent_region *region;
};

// No process has forked so often.
#define AGENT_CLOSED UINT32_MAX

struct weft_dlist {
  weft_agent_t *agent;
  struct agent_peer *peer; // &agent->self: of this agent
  enum weft_memory_kind kind;
  uint32_t count, num_regions;
  struct agent_span *spans;
  struct agent_region **regions; // those that the spans lie in, each once
  uint32_t transfers;            // that use it; lock
  _Atomic uint64_t broken;       // id of a region of it that has gone; 0: none
  struct weft_dlist *next, **back;
  uint32_t life; // as a transfer's
};

// Of a transfer's state, while it is not 0 or a code.
enum {
  AGENT_IN_FLIGHT = 1,
  AGENT_SLEEPER = 2,    // a thread sleeps on the state
  AGENT_EVENT = 4,      // the event descriptor wants to know
  AGENT_NEVER = 8,      // not posted yet
  AGENT_COMPLETES = 16, // the end is pushed to the agent's completions
};

struct weft_transfer {
  // What post and poll touch comes first.
  _Atomic int state;
  _Atomic uint32_t left; // parts in flight
  _Atomic int err;       // the first failure
  uint32_t num_parts;
  uint32_t life;            // forked_now() when it was made; AGENT_CLOSED: its agent has closed
  int begin_state;          // what `state` is set to by a post
  bool special;             // the last post had something of its own: post_with.c
  struct agent_post *parts; // of the last post
  weft_agent_t *agent;
  struct agent_peer *peer;
  struct weft_dlist *local, *remote; // the caller's
  struct agent_link *link;
  _Atomic uint32_t number; // counts posts
  _Atomic uint64_t ending; // of post `number`: number << 8 | -code, when it was asked to end early
  uint64_t posted_ticks, took_ticks, timeout_ns;
  _Atomic uint64_t timeout_ticks;
  uint64_t range; // a profiler's, from post to end
  _Atomic uint64_t deadline_ticks;
  uint64_t bytes; // of all pieces
  uint32_t polls;
  enum weft_transfer_op op; // as the caller sees it
  uint64_t sequence;        // of its notification in the last post
  uint8_t *message;         // header and notification of the last post; NULL: none
  uint32_t message_size;
  struct agent_post *outgoing; // sends it when the last part has ended well; NULL: the only part carries it
  struct agent_completion completion;
  int event_fd;
  _Atomic uint32_t leaving; // threads that still touch it though its state is final

  struct agent_post *all_parts; // [num_all] the parts, and behind the only one its twin that carries a notification
  uint32_t num_all;
  struct agent_post *sender; // sends notifications by itself; NULL: a part carries them, or there are none
  uint32_t note_size;
  uint8_t *note; // room for a header and a notification; NULL: none was asked for
  struct agent_made {
    uint32_t timeout_ms;
    uint32_t room; // for a notification of a post's own; 0: none
    uint32_t size; // of the notification that all other posts bring,
    bool notifies; // if there is one
    uint8_t *copy; // its bytes, where another one may take their place
  } made;
  struct transport_piece *pieces;
  int32_t *status;    // [num_pieces]
  uint32_t *piece_of; // [num_pairs]; NULL: pair i is piece i
  uint32_t num_pieces, num_pairs;
  uint64_t estimate_ns;
  char *explanation;
  char why[AGENT_MAX_DETAIL + WEFT_AGENT_MAX_NAME + 64];
  struct weft_transfer *next, **back; // of the agent
  struct weft_transfer *next_of_peer, **back_of_peer;
};

_Static_assert(offsetof(struct weft_transfer, outgoing) + sizeof(void *) <= 256,
               "what post and poll touch comes first");

// CLOSED, in words.
int agent_life_fail(uint32_t life, const char *what);

// Has post `number` of it end with `code`, unless it ends before. [any]
void agent_transfer_stop(weft_transfer_t *transfer, uint32_t number, int code);
// Whether it is in flight. [any]
static inline bool agent_transfer_flies(weft_transfer_t *transfer) {
  int state = atomic_load(&transfer->state);
  return state > 0 && (state & AGENT_IN_FLIGHT);
}

// How long it still has; 0: its time is over. [any]
uint64_t agent_transfer_left_ns(const weft_transfer_t *transfer);

// What a caller chose of two lists, checked.
struct agent_pairs {
  const weft_dlist_t *local, *remote;
  const struct weft_transfer_options *options;
  uint32_t count;
};

// Pairs of descriptors become pieces: neighbours on both sides, within the same two regions, are one.
int agent_pairs_check(const weft_dlist_t *local, const weft_dlist_t *remote,
                      const struct weft_transfer_options *options, struct agent_pairs *pairs);
// Fills in the transfer's num_pairs, num_pieces, pieces (addresses and lengths), piece_of, bytes; `first[p]` is the
// first pair of piece p, as spans. [allocates]
int agent_pairs_merge(const struct agent_pairs *pairs, weft_transfer_t *transfer, struct agent_region ***local,
                      struct agent_region ***remote);

// Chooses the link, and writes down why. `*swapped`: by loopback, with local and remote side exchanged. [lock; takes
// worker locks]
int agent_select(weft_transfer_t *transfer, const char *name, bool *swapped);

// Has all transfers with a peer that has ended end with PEER_LOST. [lock]
void agent_transfers_stop(struct agent_peer *peer);
// Lets go of what the transports keep of all transfers with a peer. [lock, all worker locks]
void agent_transfers_unprepare(struct agent_peer *peer);

// A part of it has ended: for agent_post_prepare().
void agent_part_ended(struct agent_post *post, int err);
void agent_transfer_notification_ended(struct agent_post *post, int err);

// 0, or what a call with a transfer or a list of that life fails with: CLOSED. [any]
static inline int agent_life_check(uint32_t life, const char *what) {
  return __builtin_expect(forked_since(life), 0) ? agent_life_fail(life, what) : 0;
}

// Takes it out of all lists: the transport and the agent keep nothing of it, and its owner frees it. It is not in
// flight. [lock; takes worker locks]
void agent_transfer_close(weft_transfer_t *transfer);

// Looks for transfers whose time is over. Returns when the next one is, CLOCK_NEVER when none is in flight. [takes
// lock]
uint64_t agent_transfers_housekeep(weft_agent_t *agent, uint64_t now_ns);

#endif
