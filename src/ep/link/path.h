// How what a rank writes into a link's window gets to the peer, chosen once per link: the window is the peer's memory
// itself (mapped.c), or a shadow of it, which a transport carries to another host (remote/path.c).
#ifndef EP_LINK_PATH_H
#define EP_LINK_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/link/link_state.h"

struct ep_link;

// The parts of a slot that are published one by one.
enum ep_part { EP_PART_DISPATCH, EP_PART_WEIGHTS, EP_PART_COMBINE, EP_PARTS };

// What a rank sends to a peer outside of all operations.
enum ep_notice {
  EP_NOTICE_LEFT = 1,  // what follows is no death
  EP_NOTICE_LOST = 2,  // it takes the peer for lost
  EP_NOTICE_READS = 3, // it reads the area of a neighbour (remote/neighbours.h), whose number comes with it
};

struct ep_path_ops {
  bool shadow; // `out` and `bell` are memory of this rank's: not the peer's

  // The name of the transport, for people; "" where there is none.
  const char *(*name)(const struct ep_link *link);

  // --- writing; all [owner] ---
  // Waits until what was published in that place before has left the window. False: the link is down.
  bool (*settle)(struct ep_link *link, uint64_t op, enum ep_part part, uint64_t deadline_ns);
  // `rows` rows of a part are written: sends those that fill a chunk. NULL: they are there already.
  void (*rows_written)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
  // All `rows` rows are, and the flag: the peer is to see them.
  void (*publish)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
  // A `taken` word in the area that this rank reads has changed.
  void (*acknowledge)(struct ep_link *link);
  // The start, in the head of `out`, has.
  void (*publish_start)(struct ep_link *link, uint64_t op, uint64_t epoch);
  // Zero copy: how many rows from `first` on, of `rows` in all, may go from where the caller has them, if they stand
  // there one after another, as they travel. 0: none. NULL: never.
  uint32_t (*zero_copy_rows)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, uint32_t rows);
  // They go from `from`, and are not written to the window. They stay as they are until ep_zero_copy_wait().
  void (*zero_copy)(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, const void *from);

  // --- the control socket ---
  // Tells the peer. [any]
  void (*notify)(struct ep_link *link, enum ep_notice notice);
  // Reads what the peer has sent there. 0: it has not hung up; else an errno: EPIPE and ECONNRESET when it has, EPROTO
  // when it sent what no rank sends, others when its host does not answer. [any]
  int (*listen)(struct ep_link *link);
  // Takes what is on its way from a peer that has hung up, for a moment at most. [service]
  void (*receive_last)(struct ep_link *link);
  // What is to be thought of a peer that does not answer. [any]
  enum ep_link_state (*verdict)(weft_ep_t *ep, struct ep_link *link);
  // 0, or why the transport does not reach the peer any more; `*why` says it in words. [any]
  int (*failure)(const struct ep_link *link, const char **why);

  // --- ending ---
  // Carries what kernels that have ended have left, for a moment at most. [any]
  void (*flush)(struct ep_link *link);
  // Frees what the path has of the link; the windows stay. [service]
  void (*free)(struct ep_link *link);
};

extern const struct ep_path_ops ep_path_mapped;

#endif
