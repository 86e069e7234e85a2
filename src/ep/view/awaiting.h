// How ranks that await their first operation agree on who begins, where nobody is left who could tell them one.
//
// Each writes a word to all of its peers: which view it is ready for, and its stage. An engine carries the words, on
// its memory; what they say is decided here, alike on all memory (docs/design/membership.md).
#ifndef EP_VIEW_AWAITING_H
#define EP_VIEW_AWAITING_H

#include "ep/core/engine.h"

// Of one wait; all zero at its begin.
struct ep_awaiting {
  uint64_t accepted; // in that view this rank takes a start of `rank` alone; 0: of any
  uint64_t incarnation;
  int32_t rank;
  uint64_t asked; // in that view this rank would call since `asked_ns`
  uint64_t asked_ns;
};

// Whether a start that the peer has published is taken.
bool ep_awaiting_takes(const struct ep_awaiting *awaiting, const struct ep_link *link);

// The word of this rank for its peers; never 0. `ready`: the epoch that it was ready for before it looked for a start
// and found none. Each link's `awaits` is the newest word that is known of its peer. The links are held. `*begins`: a
// reference to the view in which this rank begins now, with operation 0; NULL: it awaits on. [owner]
uint64_t ep_awaiting_stand(weft_ep_t *ep, struct ep_awaiting *awaiting, uint64_t ready,
                           const struct group_view **begins);

#endif
