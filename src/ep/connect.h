// What the calls that connect have in common.
#ifndef EP_CONNECT_H
#define EP_CONNECT_H

#include "ep/core/engine.h"

// INVALID names the rank, and `call`.
int ep_check_ranks(const weft_ep_t *ep, const int32_t *ranks, size_t count, const char *call, bool self_too);
// Connects to whatever incarnation holds the rank of a founder, as weft_ep_connect() does to any rank. It may have been
// put out since the first view: then there is no link to make. [owner]
int ep_connect_founder(weft_ep_t *ep, int32_t rank, uint64_t deadline_ns);
// Waits for a new link or a moment, whichever comes first. CANCELED. [owner]
int ep_wait_a_little(weft_ep_t *ep, uint64_t deadline_ns);
// The same before a rank is called again that could not be reached: `*moment_ms`, 0 at first, grows from call to call.
// The called one may have made its end of a link each time, which stays until it looks. [owner]
int ep_wait_for_way(weft_ep_t *ep, uint64_t deadline_ns, uint32_t *moment_ms);

#endif
