// How data that a rank writes into a link's window reaches the peer. It is chosen once per link: the window is the
// peer's memory itself (mapped.c), or a shadow of it, whose contents a transport carries to another host
// (remote/path.c).
#ifndef EP_LINK_PATH_H
#define EP_LINK_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/link/link_state.h"

struct ep_link;

// The parts of a slot; each is published on its own.
enum ep_part { EP_PART_DISPATCH, EP_PART_WEIGHTS, EP_PART_COMBINE, EP_PARTS };

// What a rank sends to a peer outside of all operations.
enum ep_notice {
  EP_NOTICE_LEFT = 1,      // the hang-up that follows is no death
  EP_NOTICE_LOST = 2,      // the sender considers the peer lost
  EP_NOTICE_READS = 3,     // it reads a neighbour's area (remote/neighbours.h); the notice carries its number
  EP_NOTICE_CONFIRMED = 4, // it has the answer to its call, and everything for the link
};

struct ep_path_ops {
  bool shadow; // `out` and `bell` are memory of this rank, not of the peer

  // Writes the name of the transport, and what its library has chosen, for people to read: "ofi tcp eth0"; "": none.
  void (*name)(const struct ep_link *link, char *text, size_t cap);

  // --- writing; all [owner] ---
  // Waits until earlier data of the same place has left the window. False: the link is down.
  bool (*settle)(struct ep_link *link, uint64_t op, enum ep_part part, uint64_t deadline_ns);
  // `rows` rows of a part are written: sends those that fill a chunk. NULL: the peer has them already.
  void (*rows_written)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
  // All `rows` rows and the flag are written: makes them visible to the peer.
  void (*publish)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
  // A `taken` word in the area that this rank reads has changed.
  void (*acknowledge)(struct ep_link *link);
  // The start in the head of `out` has changed.
  void (*publish_start)(struct ep_link *link, uint64_t op, uint64_t epoch);
  // Zero copy: how many rows from `first` on, of `rows` in all, may be sent from the caller's memory, if they lie there
  // contiguously and in the form in which they travel. 0: none. NULL: never.
  uint32_t (*zero_copy_rows)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, uint32_t rows);
  // Sends those rows from `from`; they are not written to the window. They must not change until ep_zero_copy_wait().
  void (*zero_copy)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, const void *from);

  // --- the control socket ---
  // Sends the notice to the peer. [any]
  void (*notify)(struct ep_link *link, enum ep_notice notice);
  // Reads what the peer has sent on the control socket. 0: the peer has not hung up. Else an errno: EPIPE or ECONNRESET
  // if it has hung up, EPROTO if it sent invalid data, others if its host does not answer. [any]
  int (*listen)(struct ep_link *link);
  // Receives data in flight from a peer that has hung up, for a moment at most. [service]
  void (*receive_last)(struct ep_link *link);
  // The state for the link of a peer that does not answer. [any]
  enum ep_link_state (*verdict)(weft_ep_t *ep, struct ep_link *link);
  // 0, or the error if the transport does not reach the peer any more; `*why` is its text. [any]
  int (*failure)(const struct ep_link *link, const char **why);

  // --- ending ---
  // Carries the data that finished kernels have left, for a moment at most. [any]
  void (*flush)(struct ep_link *link);
  // Frees the path's state of the link; the windows stay. [service]
  void (*free)(struct ep_link *link);
};

extern const struct ep_path_ops ep_path_mapped;

#endif
