// How ranks that await their first operation agree on who begins, where nobody is left who could tell them one.
//
// Each writes a word to all of its peers: which view it is ready for, and its stage. An engine carries the words, on
// its memory; what they say is decided here, alike on all memory (docs/design/membership.md).
#ifndef EP_VIEW_AWAITING_H
#define EP_VIEW_AWAITING_H

#include "ep/core/engine.h"

// Whether a start that the peer has published is taken. [owner]
bool ep_awaiting_takes(const weft_ep_t *ep, const struct ep_link *link);

// The word of this rank for its peers; never 0. ep->awaiting.looked is up to date, and each link's `awaits` is the
// newest word that is known of its peer. The links are held. `*begins`: a reference to the view in which this rank
// begins now, with operation 0; NULL: it awaits on. [owner]
uint64_t ep_awaiting_stand(weft_ep_t *ep, const struct group_view **begins);

// TIMEOUT, with the reason. `epoch`: of the view of a start that was found and cannot be run in yet; 0: none was found.
int ep_awaiting_timed_out(const weft_ep_t *ep, uint64_t epoch);

#endif
