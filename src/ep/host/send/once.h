// Rows that cross to another host once (THROUGHPUT). Of the ranks there that get a token, one, its carrier, receives
// the row. The others read it from the carrier's window (remote/neighbours.h). docs/design/ep-remote.md describes this.
#ifndef EP_HOST_SEND_ONCE_H
#define EP_HOST_SEND_ONCE_H

#include "ep/host/host.h"

// Groups the members of an operation that is routed and whose rows will flow. Members that read each other's areas form
// a group; a member without others gets its rows directly (group 0).
void ep_once_group(struct ep_op *op);
// Writes the next piece of the rows for a group, and begins to send it. The slots of all its members have to be free.
void ep_once_write(weft_ep_t *ep, struct ep_op *op, uint32_t group);
// Makes progress on all groups: publishes pieces that have arrived, and writes the next ones. True: there was some.
bool ep_once_send(weft_ep_t *ep, struct ep_op *op);
// Whether this rank has to wait for the member before it can send more, to it or to members that share rows with it.
bool ep_once_awaits(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member);
// Whether everything for groups has been published.
bool ep_once_is_over(const struct ep_op *op);
// For an operation that ends before its rows are sent: sends the first piece of each group, which brings the header,
// and ends what is under way. True: there was some progress.
bool ep_once_send_headers(weft_ep_t *ep, struct ep_op *op);
// Whether that is done.
bool ep_once_headers_are_over(const struct ep_op *op);
// Whether the slot of that piece of the link may be overwritten: all living ranks that share rows in the slot have
// taken what was sent to them with it. The link's own reader has taken it already.
bool ep_once_is_read(const weft_ep_t *ep, const struct ep_op *op, const struct ep_link *link, uint64_t number);

// Whether there are more pieces for a member that is in no group, and the member can still take them. The first piece
// was sent before.
bool ep_send_has_more(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member);

#endif
