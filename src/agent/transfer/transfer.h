// Transfers: making them (create.c, coalesce.c, choose_transport.c), posting them and waiting for them (post.c,
// wait.c).
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

// A value that forked_now() never reaches.
#define AGENT_CLOSED UINT32_MAX

struct weft_dlist {
  weft_agent_t *agent;
  struct agent_peer *peer; // &agent->self: regions of this agent
  enum weft_memory_kind kind;
  uint32_t count, num_regions;
  struct agent_span *spans;
  struct agent_region **regions; // the regions of the spans, each once
  uint32_t transfers;            // number of transfers that use it; lock
  _Atomic uint64_t broken;       // id of one of its regions that has gone; 0: none
  struct weft_dlist *next, **back;
  uint32_t life; // like a transfer's
};

// Bits of a transfer's state, while the state is neither 0 nor a code.
enum {
  AGENT_IN_FLIGHT = 1,
  AGENT_SLEEPER = 2,    // a thread sleeps on the state
  AGENT_EVENT = 4,      // the event descriptor has to be signalled
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
  int begin_state;          // the value to which a post sets `state`
  bool special;             // the last post had settings that only it has: post_with.c
  struct agent_post *parts; // of the last post
  weft_agent_t *agent;
  struct agent_peer *peer;
  struct weft_dlist *local, *remote; // the caller's lists
  struct agent_link *link;
  _Atomic uint64_t number; // counts posts
  _Atomic uint64_t ending; // number << 8 | -code, once post `number` was requested to end early
  uint64_t posted_ticks, took_ticks, timeout_ns;
  _Atomic uint64_t timeout_ticks;
  uint64_t range; // the profiler's range from post to end
  _Atomic uint64_t deadline_ticks;
  uint64_t bytes; // of all pieces
  uint32_t polls;
  enum weft_transfer_op op; // from the caller's point of view
  uint64_t sequence;        // of its notification in the last post
  uint8_t *message;         // header and notification of the last post; NULL: none
  uint32_t message_size;
  struct agent_post *outgoing; // sends the message after the last part's success; NULL: the only part carries it
  struct agent_completion completion;
  int event_fd;
  _Atomic uint32_t leaving; // number of threads that still use it though its state is final

  struct agent_post *all_parts; // [num_all] the parts; behind a single part its copy that carries a notification
  uint32_t num_all;
  struct agent_post *sender; // sends notifications separately; NULL: a part carries them, or there are none
  uint32_t note_size;
  uint8_t *note; // room for a header and a notification; NULL: not requested
  struct agent_made {
    uint32_t timeout_ms;
    uint32_t room; // bytes for a notification that a single post sets; 0: none
    uint32_t size; // size of the notification that all other posts carry
    bool notifies; // all other posts carry one
    uint8_t *copy; // copy of its bytes, if another notification may overwrite them
  } made;
  struct transport_piece *pieces;
  int32_t *status;    // [num_pieces]
  uint32_t *piece_of; // [num_pairs]; NULL: pair i is piece i
  uint32_t num_pieces, num_pairs;
  uint64_t estimate_ns;
  char *explanation;
  char why[AGENT_MAX_DETAIL + WEFT_AGENT_MAX_NAME + 64];
  struct weft_transfer *next, **back; // list of the agent's transfers
  struct weft_transfer *next_of_peer, **back_of_peer;
};

_Static_assert(offsetof(struct weft_transfer, outgoing) + sizeof(void *) <= 256,
               "what post and poll touch comes first");

// Fails with CLOSED and a text.
int agent_life_fail(uint32_t life, const char *what);

// Makes post `number` of the transfer end with `code`, unless it ends earlier. [any]
void agent_transfer_stop(weft_transfer_t *transfer, uint64_t number, int code);
// Whether the transfer is in flight. [any]
static inline bool agent_transfer_flies(weft_transfer_t *transfer) {
  int state = atomic_load(&transfer->state);
  return state > 0 && (state & AGENT_IN_FLIGHT);
}

// The time that the transfer has left; 0: its time is over. [any]
uint64_t agent_transfer_left_ns(const weft_transfer_t *transfer);

// The descriptors that a caller chose from two lists, checked.
struct agent_pairs {
  const weft_dlist_t *local, *remote;
  const struct weft_transfer_options *options;
  uint32_t count;
};

// Checks the options and the two lists, and fills in `pairs`.
int agent_pairs_check(const weft_dlist_t *local, const weft_dlist_t *remote,
                      const struct weft_transfer_options *options, struct agent_pairs *pairs);
// Merges pairs that are adjacent on both sides, within the same two regions, into one piece. Fills in the transfer's
// num_pairs, num_pieces, pieces (addresses and lengths), piece_of and bytes. (*local)[p] and (*remote)[p] are the
// regions of piece p; the caller frees both arrays. [allocates]
int agent_pairs_merge(const struct agent_pairs *pairs, weft_transfer_t *transfer, struct agent_region ***local,
                      struct agent_region ***remote);

// Chooses the link, and records the reason. `*swapped`: loopback is used, with local and remote side exchanged. [lock;
// takes worker locks]
int agent_select(weft_transfer_t *transfer, const char *name, bool *swapped);

// Makes all transfers with a peer that has ended end with PEER_LOST. [lock]
void agent_transfers_stop(struct agent_peer *peer);
// Frees what the transports keep of all transfers with a peer. [lock, all worker locks]
void agent_transfers_unprepare(struct agent_peer *peer);

// Called when a part of a transfer has ended; passed to agent_post_prepare().
void agent_part_ended(struct agent_post *post, int err);
void agent_transfer_notification_ended(struct agent_post *post, int err);

// 0, or the error with which a call with a transfer or a list of that life fails: CLOSED. [any]
static inline int agent_life_check(uint32_t life, const char *what) {
  return __builtin_expect(forked_since(life), 0) ? agent_life_fail(life, what) : 0;
}

// Unlinks the transfer from all lists. The transport and the agent keep nothing of it, and its owner frees it. It must
// not be in flight. [lock; takes worker locks]
void agent_transfer_close(weft_transfer_t *transfer);

// Finds and stops transfers whose time is over. Returns when the time of the next one is over; CLOCK_NEVER: none is in
// flight. [takes lock]
uint64_t agent_transfers_housekeep(weft_agent_t *agent, uint64_t now_ns);

#endif
