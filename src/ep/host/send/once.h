// Rows that cross to another host once (THROUGHPUT): of the ranks there that get a token one, its carrier, gets the
// row, and the others read it out of the carrier's window (remote/neighbours.h). docs/design/ep-remote.md describes it.
#ifndef EP_HOST_SEND_ONCE_H
#define EP_HOST_SEND_ONCE_H

#include "ep/host/host.h"

// The operation is routed, and its rows are to flow: groups its members by host. Members that read each other's areas
// make a group; one that is alone gets its rows as ever (group 0).
void ep_once_group(struct ep_op *op);
// Writes the next piece of the rows for a group, and begins to send it. The slots of all are free.
void ep_once_write(weft_ep_t *ep, struct ep_op *op, uint32_t group);
// Moves all groups on: publishes pieces that have arrived, writes the next ones. True: did some.
bool ep_once_send(weft_ep_t *ep, struct ep_op *op);
// Whether the member keeps this rank from sending more, to it or to those that share rows with it.
bool ep_once_awaits(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member);
// Whether all that goes to groups has been published.
bool ep_once_is_over(const struct ep_op *op);
// Whether all ranks that share rows in the slot of that piece of the link's, of those that are still there, have taken
// what they were sent with it: it may be overwritten. Its own reader has.
bool ep_once_is_read(const weft_ep_t *ep, const struct ep_op *op, const struct ep_link *link, uint64_t number);

// Whether there are pieces left for a member that is in no group, which it can still take. The first one has been sent
// before.
bool ep_send_has_more(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member);

#endif
