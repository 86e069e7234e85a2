// Transfers: how they are made (create.c, coalesce.c, choose_transport.c), and what becomes of them (post.c, wait.c).
#ifndef AGENT_TRANSFER_TRANSFER_H
#define AGENT_TRANSFER_TRANSFER_H

#include "agent/agent.h"

// What a caller chose of two lists, checked.
struct agent_pairs {
  const weft_list_t *local, *remote;
  const struct weft_transfer_options *options;
  uint32_t count;
};

// Pairs of descriptors become pieces: neighbours on both sides, within the same two regions, are one.
int agent_pairs_check(const weft_list_t *local, const weft_list_t *remote, const struct weft_transfer_options *options,
                      struct agent_pairs *pairs);
// Fills in the transfer's num_pairs, num_pieces, pieces (addresses and lengths), piece_of, bytes; `first[p]` is the
// first pair of piece p, as spans. [allocates]
int agent_pairs_merge(const struct agent_pairs *pairs, weft_transfer_t *transfer, struct agent_region ***local,
                      struct agent_region ***remote);

// Chooses the link, and writes down why. `*swapped`: by loopback, with local and remote side exchanged. [lock; takes
// worker locks]
int agent_select(weft_transfer_t *transfer, const char *name, bool *swapped);

// Lets go of what the transport keeps of it. It is not in flight. [all worker locks, or the worker's and the
// messenger's]
void agent_transfer_unprepare(weft_transfer_t *transfer);

// Has all transfers with a peer that has ended end with PEER_LOST. [lock]
void agent_transfers_stop(struct agent_peer *peer);
// agent_transfer_unprepare() of all transfers with a peer. [lock, all worker locks]
void agent_transfers_unprepare(struct agent_peer *peer);

// A part of it has ended: for agent_post_prepare().
void agent_part_ended(struct agent_post *post, int err);
void agent_transfer_letter_ended(struct agent_post *post, int err);

// Takes it out of all lists and frees it. It is not in flight. [lock; takes worker locks]
void agent_transfer_free(weft_transfer_t *transfer);

// Looks for transfers whose time is over. Returns when the next one is, CLOCK_NEVER when none is in flight. [takes
// lock]
uint64_t agent_transfers_tend(weft_agent_t *agent, uint64_t now_ns);

#endif
