// How ranks that await their first operation agree on who begins, if no running rank is left that could fix it.
//
// Each such rank writes a word to all of its peers: the view that it is ready for, and its stage. The engines carry the
// words; this code decides what they say, and is the same for all memory (docs/design/membership.md).
#ifndef EP_VIEW_AWAITING_H
#define EP_VIEW_AWAITING_H

#include "ep/core/engine.h"

// Whether this rank accepts a start that the peer has published. [owner]
bool ep_awaiting_takes(const weft_ep_t *ep, const struct ep_link *link);

// Returns the word of this rank for its peers, which is never 0. The caller has updated ep->awaiting.looked, has set
// each link's `awaits` to the newest word of its peer, and holds the links. `*begins`: a reference to the view in which
// this rank begins now, with operation 0; NULL: it continues to wait. [owner]
uint64_t ep_awaiting_stand(weft_ep_t *ep, const struct group_view **begins);

// Fails with TIMEOUT and the reason. `epoch`: epoch of a start that was found, in whose view this rank cannot run yet;
// 0: no start was found, and the text names the ranks that could have published one. [owner]
int ep_awaiting_timed_out(weft_ep_t *ep, uint64_t epoch);

#endif
