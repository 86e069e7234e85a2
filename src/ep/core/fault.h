// A hook for fault tests: the plan runner uses it to die in the middle of a dispatch, if a plan asks for that.
#ifndef EP_CORE_FAULT_H
#define EP_CORE_FAULT_H

#include <stdint.h>

#include <weft/ep.h>

// Called by dispatch_send on the owner's thread after each row that it has written to a peer's window: `rows_written`:
// rows so far in this dispatch, to all peers. `peers_done`: peers to which everything was sent, including the flag.
typedef void (*ep_fault_fn)(void *arg, uint32_t rows_written, uint32_t peers_done);

// Sets the hook for the dispatches that follow; NULL: none. [owner]
void ep_fault_set(weft_ep_t *ep, ep_fault_fn hook, void *arg);

#endif
