// Faults on purpose: a transport around another one, with the name "fault:SEED:SCRIPT:INNER". It does the same as
// INNER, except for the faults of the script. For tests: the same seed and the same order of posts give the same
// faults.
//
// The script is a list of rules with '+' between them, or "none". P is a percentage of requests, N counts this worker's
// posts from 1.
//   delay=P/T   ends late: up to T progress() calls later, half of the requests without a message begin so
//               late, all others complete so late
//   lose=P      the message is not sent, and the request succeeds
//   fail=P      post() fails with UNREACHABLE
//   short=P     only some pieces move: the others fail with DATA, and no message is sent
//   spoil=P     a byte in the middle of the first piece of host memory arrives wrong, and nothing reports it
//   stick=P     never ends, until it is cancelled
//   die@N       the peer of post N dies: post N and all requests under way to that peer end with PEER_LOST
//   mute@N      from post N on all stick: the link is down
//   big@N       requests of more than N bytes stick: the link loses large packets
//   reg@N       memory of N bytes and more is not registered
//   cling@N     cancel() does not end requests that stick (no real transport may do this): 1: disconnect() does, 2:
//               close() does
// Posts come from one thread at a time.
#ifndef TRANSPORT_FAULT_FAULT_H
#define TRANSPORT_FAULT_FAULT_H

#include <stdlib.h>

#include "base/fail.h"
#include "transport/link.h"
#include "transport/transport.h"

// Finds a transport by its name. The registry passes transport_find(), since this folder must not call a layer above
// it.
typedef int (*fault_find_fn)(const char *name, const struct transport **transport);

// The transport of that name, around the transport that `find` returns; equal names give the same transport. INVALID: a
// malformed name; LIMIT: too many.
int transport_fault_find(const char *name, fault_find_fn find, const struct transport **transport);

// --- within fault/ ---

struct fault_script {
  uint32_t delay, delay_ticks, lose, fail, short_, spoil, stick; // percentages, except the ticks
  uint64_t die, mute, big, reg;                                  // 0: never
  uint64_t cling;                                                // 0 to 2
};
int fault_script_read(struct fault_script *script, const char *text, size_t size);

struct fault_setup {
  struct transport table;
  const struct transport *inner;
  struct fault_script script;
  uint64_t seed;
};

struct fault_worker {
  struct transport_worker base;
  const struct transport *inner_table;
  struct transport_worker *inner;
  const struct fault_script *script;
  uint64_t random, posts, ticks;
  struct link regions, peers, held; // held: operations that this transport delays
};

struct fault_region {
  struct transport_region base;
  struct link link;
  struct transport_region *inner;
};

struct fault_peer {
  struct transport_peer base;
  struct link link, remotes;
  struct transport_peer *inner;
  uint32_t flights;
  bool closing, died, reported;
};

struct fault_remote {
  struct transport_remote base;
  struct link link;
  struct transport_remote *inner;
};

enum fault_hold { HOLD_NOT, HOLD_BEGIN, HOLD_END, HOLD_STUCK };

struct fault_op {
  struct link link;              // in held
  const struct transport *table; // table of the inner transport
  struct transport_request *outer;
  struct transport_request inner;
  struct transport_piece *pieces;
  uint32_t num_pieces; // number of pieces that move
  bool cut;            // fewer pieces move than requested
  enum fault_hold hold;
  bool late;             // its completion is delayed
  unsigned char *spoilt; // the byte that is made wrong after it has moved; NULL
  uint64_t until;
  int state; // its result
};

// Allocates zeroed memory; NULL: out of memory.
static inline void *fault_make(size_t size) {
  void *made = calloc(1, size);
  if (!made)
    fail(WEFT_ERR_NOMEM, "no memory for a transport with faults");
  return made;
}

// memory.c
int fault_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void fault_unreg(struct transport_region *region);
int fault_pack(struct transport_region *region, void *bytes, size_t *size);
int fault_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void fault_release(struct transport_remote *remote);
void *fault_map(struct transport_remote *remote);

// peer.c
int fault_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                  struct transport_peer **peer);
void fault_disconnect(struct transport_peer *peer);
void fault_fence(struct transport_peer *peer);
void fault_peer_free(struct fault_peer *peer);

// request.c
int fault_prepare(struct transport_request *request);
void fault_unprepare(struct transport_request *request);
int fault_post(struct transport_request *request);
void fault_cancel(struct transport_request *request);
// Releases the operations that were delayed long enough; returns their number.
uint32_t fault_release_due(struct fault_worker *worker);
// Ends the delayed operations of that peer, or with NULL of all peers because the worker closes.
void fault_end_held(struct fault_worker *worker, const struct fault_peer *peer, int err, const char *why);
// Reports deaths that the script caused; returns their number.
uint32_t fault_report_deaths(struct fault_worker *worker);

#endif
