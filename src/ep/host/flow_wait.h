// Rows that flow in pieces (THROUGHPUT): flow_wait.c, flow_dispatch.c, flow_combine.c.
#ifndef EP_HOST_FLOW_WAIT_H
#define EP_HOST_FLOW_WAIT_H

#include "ep/host/host.h"

// Whether this rank waits for a piece from that member, or until that member has taken one.
typedef bool (*ep_flow_awaits)(weft_ep_t *ep, const struct ep_op *op, uint32_t index);
// A call begins to wait for members of this operation.
void ep_flow_begin(struct ep_op *op);
// A piece arrived from the member, or was sent to it.
static inline void ep_flow_progress(struct ep_member *member) {
  member->progress_ns = clock_ns();
  member->extensions = 0;
}
// Nothing has changed: waits for a moment. If this rank has waited too long for a member, the member's link is taken
// down; `what` says why. False: interrupted.
bool ep_flow_wait(weft_ep_t *ep, struct ep_op *op, struct ep_pause *pause, ep_flow_awaits awaits, const char *what);
// Something has changed, or the call ends.
void ep_flow_wait_end(weft_ep_t *ep, struct ep_op *op, struct ep_pause *pause);

// Whether more pieces of the member's rows will arrive. Its header has arrived.
static inline bool ep_flow_comes(const struct ep_layout *layout, const struct ep_member *member) {
  if (member->once_in)
    return member->pieces_in == 0 || member->rows_laid < member->rows_in;
  return member->pieces_in < ep_pieces_of(layout, member->rows_in, member->whole_in);
}
// Sends the next piece to each member that has room for one. True: it sent some.
bool ep_flow_send(weft_ep_t *ep, struct ep_op *op);
// All headers have arrived, and members were added to the places: lays out all rows, and sends the remaining ones.
// False: interrupted; it continues when it is called again.
bool ep_flow_dispatch(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// The operation ends without its rows, as all ranks find out from its headers: sends those that are not yet on their
// way. False: as above.
bool ep_flow_headers(weft_ep_t *ep, struct ep_op *op);
// LIMIT: a window cannot hold all rows of its member at once.
int ep_flow_check_in_place(const weft_ep_t *ep, const struct ep_op *op);

// The combine: answers rows, and adds up the answers that arrive. False: interrupted; it continues when it is called
// again.
bool ep_flow_combine(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args);

#endif
