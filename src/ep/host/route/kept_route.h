// Operations that fill a route, or use one that is kept (routing/kept.h).
#ifndef EP_HOST_ROUTE_KEPT_ROUTE_H
#define EP_HOST_ROUTE_KEPT_ROUTE_H

#include "ep/host/host.h"

int ep_kept_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route);
void ep_kept_destroy(weft_ep_route_t *route);
int ep_kept_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);
int ep_kept_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);
int ep_kept_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);
// Checks that operations can use the route. INVALID, ROOM.
int ep_kept_check_filled(const struct ep_kept *kept, const char *call);
// How many selections each token of a dispatch has, with a route or without one.
uint32_t ep_kept_topk(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
// Checks that the next operation, in the view ep->view, can fill args->route (*fills is true) or use it. INVALID, ROOM,
// BUSY, CONFLICT.
int ep_kept_check(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, uint32_t num_tokens,
                  bool *fills);
// The operation has begun with that route: reads from the route what to send, if the operation uses it.
void ep_kept_begin(struct ep_op *op, weft_ep_route_t *route, bool fills);
// All rows were sent: stores what was sent in the route that the operation fills.
void ep_kept_note_sent(struct ep_op *op);
// How many rows of that member the operation's route has brought; 0: the operation uses none.
uint64_t ep_kept_rows_of(const struct ep_op *op, const struct ep_member *member);
// A member announces `count` rows: decides whether they are accepted.
void ep_kept_announced(const weft_ep_t *ep, const struct ep_op *op, struct ep_member *member, uint32_t count);
// Called before any row arrives: assigns places to the rows of the route that the operation uses.
void ep_kept_place(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// Lays out rows of a member, if there is room for all rows of the route. PROTOCOL, PEER_LOST: none of them, as
// ep_rows_lay_kept().
int ep_kept_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv);
// Only the first `laid` of the member's rows have arrived, and no more will: fills the places of the others.
void ep_kept_lay_lost(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv);
// No more headers will arrive: writes zeros in the places of sources that bring no rows.
void ep_kept_lay_absent(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// The operation was received, and its layout is known: completes the route that it fills, or reads from the route that
// it uses what the combine needs. Then releases the route.
void ep_kept_received(weft_ep_t *ep, struct ep_op *op);

#endif
