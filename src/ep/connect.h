// Helpers that all calls that connect share.
#ifndef EP_CONNECT_H
#define EP_CONNECT_H

#include "ep/core/engine.h"

// INVALID: a rank is out of range, or this rank itself without `self_too`; the error names the rank and `call`.
int ep_check_ranks(const weft_ep_t *ep, const int32_t *ranks, size_t count, const char *call, bool self_too);
// Connects to the incarnation that holds the rank of a founder, as weft_ep_connect() does to any rank. If the founder
// was removed since the first view, no link is made. [owner]
int ep_connect_founder(weft_ep_t *ep, int32_t rank, uint64_t deadline_ns);
// Waits until there is a new link, but only a moment. CANCELED. [owner]
int ep_wait_a_little(weft_ep_t *ep, uint64_t deadline_ns);
// The same before another call to a rank that could not be reached: `*moment_ms`, 0 at first, grows from call to call,
// since the called rank may have made its end of a link each time, which stays until that rank checks it. [owner]
int ep_wait_for_way(weft_ep_t *ep, uint64_t deadline_ns, uint32_t *moment_ms);

#endif
