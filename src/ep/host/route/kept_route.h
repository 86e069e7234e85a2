// Operations that fill a route, or go by one that is kept (routing/kept.h).
#ifndef EP_HOST_ROUTE_KEPT_ROUTE_H
#define EP_HOST_ROUTE_KEPT_ROUTE_H

#include "ep/host/host.h"

int ep_kept_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route);
void ep_kept_destroy(weft_ep_route_t *route);
int ep_kept_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);
int ep_kept_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);
int ep_kept_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);
// Whether operations can go by the route. INVALID, ROOM.
int ep_kept_check_filled(const struct ep_kept *kept, const char *call);
// How many selections a token has in the top-k that a dispatch gives, with a route or without.
uint32_t ep_kept_topk(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
// Whether the next operation, in the view of ep->view, can fill args->route (*fills) or go by it: INVALID, ROOM, BUSY,
// CONFLICT.
int ep_kept_check(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, uint32_t num_tokens,
                  bool *fills);
// The operation has begun with that route: takes from it what is sent, if it goes by it.
void ep_kept_begin(struct ep_op *op, weft_ep_route_t *route, bool fills);
// All was sent: puts it into the route that the operation fills.
void ep_kept_note_sent(struct ep_op *op);
// Rows of that member which the route that the operation goes by has brought; 0: it goes by none.
uint64_t ep_kept_rows_of(const struct ep_op *op, const struct ep_member *member);
// A member announces `count` rows: whether they are taken.
void ep_kept_announced(const weft_ep_t *ep, const struct ep_op *op, struct ep_member *member, uint32_t count);
// Before any row comes: gives the rows of the route that the operation goes by their places.
void ep_kept_place(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// Lays out rows of a member, if there is room for all that the route brings.
void ep_kept_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                 const struct weft_ep_recv_args *recv);
// No more of the member's rows will come than the first `laid`.
void ep_kept_lay_lost(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv);
// All headers have come that will: rows of 0 in the places of sources that bring none.
void ep_kept_lay_absent(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// The operation was received, and its layout is known: ends the filling of its route, or takes from it what the combine
// needs; and lets go of it.
void ep_kept_received(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);

#endif
