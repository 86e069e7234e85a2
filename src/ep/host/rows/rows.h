// Rows into a window and out of it: how they are copied, and where they are to stand.
#ifndef EP_HOST_ROWS_ROWS_H
#define EP_HOST_ROWS_ROWS_H

#include "ep/host/host.h"

// Rows of so many bytes may be found in the caches when they are read next, by the experts or by the caller. What an
// operation writes beyond goes past the caches: an ordinary store would first fetch the line that it overwrites.
enum { EP_CACHED_BYTES = 16 << 20 };

// --- rows/row_copy.c: rows into a peer's window ---

struct ep_writing {
  struct ep_way *way;
  bool trial;
  uint32_t row;
  uint64_t spent_ns[2]; // of the trial: by ordinary stores, and past the caches
};

// Begins to write `rows` rows through the link.
struct ep_writing ep_write_begin(struct ep_link *link, uint32_t rows);
// Whether a row may be made in its place as well as copied there.
static inline bool ep_write_in_place(const struct ep_writing *writing) {
  return !writing->trial && !writing->way->stream;
}
// Copies one row. ep_kernels_fence() comes before the flag.
void ep_write_row(weft_ep_t *ep, struct ep_writing *writing, void *to, const void *from, size_t size);
// Copies a row of the caller's to its place in op->cast: its values, and behind them the token's scales among `scales`,
// if there are any. Returns that place.
const uint8_t *ep_op_keep_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, const uint8_t *values,
                              const struct ep_scales *scales);
// Copies the `bytes` of a row's scales, one word each `from_block` and `to_block` words.
void ep_copy_scales(uint32_t *to, uint64_t to_block, const uint32_t *from, uint64_t from_block, uint32_t bytes);

// --- rows/recv_places.c: where rows are to stand, from how many each member brings ---

int ep_places_open(weft_ep_t *ep, struct ep_places *places);
void ep_places_close(struct ep_places *places);
static inline uint32_t *ep_places_left(const weft_ep_t *ep, uint32_t index) {
  return ep->host->places.left + (size_t)index * ep->experts_per_rank;
}
static inline uint32_t *ep_places_next(const weft_ep_t *ep, uint32_t index) {
  return ep->host->places.next + (size_t)index * ep->experts_per_rank;
}
// No member has been added. `recv` may be NULL: no rows are expected.
void ep_places_begin(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// Adds the member's rows behind those that were added before: members are added in their order. `counts`: [E] how many
// of its selections each local expert has; rows_in is known.
void ep_places_add(weft_ep_t *ep, const struct ep_op *op, uint32_t index, const uint32_t *counts,
                   const struct weft_ep_recv_args *recv);
// The same of one that is no member; `index`: its own among the places.
void ep_places_add_source(weft_ep_t *ep, uint32_t index, int32_t rank, uint32_t rows, const uint32_t *counts,
                          const struct weft_ep_recv_args *recv);
// Keeps where the next rows of a member are to stand, of one that was added; and makes that so again.
void ep_places_save(weft_ep_t *ep, uint32_t index);
void ep_places_restore(weft_ep_t *ep, uint32_t index);
// PACKED: all members were added, so it is known where the parts of the experts begin.
void ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
// All members were added: if the rows of the operation will not stay in the caches, none of them is to go through them.
void ep_places_expect(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// Rows that are needed in recv->rows for all that were added; what is beyond is not written.
uint32_t ep_places_needed(const weft_ep_t *ep, const struct weft_ep_recv_args *recv);
// Writes the counts; returns the rows in all.
uint32_t ep_places_end(const weft_ep_t *ep, const struct weft_ep_recv_args *recv);

// --- rows/recv_layout.c: rows from a window to the receive buffer ---

// Takes the headers of some rows of a member, and counts their selections into places.tally. PROTOCOL: one is wrong.
int ep_rows_check(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch);
// Whether the rows that were checked last are no more for each expert than the member's counts, less what was laid out,
// say. PROTOCOL.
int ep_rows_fit(weft_ep_t *ep, const struct ep_op *op, uint32_t index);
// PROTOCOL: all rows of the member were laid out, and there are fewer than its counts say.
int ep_rows_complete(weft_ep_t *ep, const struct ep_op *op, uint32_t index);
// Fills the places of the rows that will not come, of a member of which `laid` rows were laid out: with zeros, source
// token -1.
void ep_rows_lay_lost(weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv);
// Lays out the rows that were checked last, of a member that was added. PEER_LOST: they may have been overwritten,
// since it takes this rank for lost; nothing of them is laid out.
int ep_rows_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv);

// By a route: lays out rows of a member, which are of source `from` of the route, whose places were added by that
// index.
void ep_rows_lay_kept(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t from, const struct ep_batch *batch,
                      const struct weft_ep_recv_args *recv);
// As ep_rows_lay_lost: of `rows` rows of a rank, whose places were added by that index.
void ep_rows_lay_none(weft_ep_t *ep, const struct ep_op *op, uint32_t index, int32_t rank, uint32_t laid, uint32_t rows,
                      const struct weft_ep_recv_args *recv);

// --- rows/packed.c: the layout PACKED ---

// Lays out the rows of all members that were added, if there is room for them. One that has changed its headers
// since is lost.
void ep_packed_lay(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// With ZERO_PADDING: makes the rows between the parts zeros.
void ep_packed_pad(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);

#endif
