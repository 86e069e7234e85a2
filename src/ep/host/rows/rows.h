// Rows into a window and out of it: how they are copied, and where they are placed.
#ifndef EP_HOST_ROWS_ROWS_H
#define EP_HOST_ROWS_ROWS_H

#include "ep/host/host.h"

// Rows of so many bytes may still be in the caches when the experts or the caller read them. What an operation writes
// beyond that goes past the caches, since an ordinary store would first fetch the line that it overwrites.
enum { EP_CACHED_BYTES = 16 << 20 };

// --- rows/row_copy.c: rows into a peer's window ---

struct ep_writing {
  struct ep_way *way;
  bool trial;
  uint32_t row;
  uint64_t spent_ns[2]; // times of the trial: by ordinary stores, and past the caches
};

// Begins to write `rows` rows through the link.
struct ep_writing ep_write_begin(struct ep_link *link, uint32_t rows);
// Whether a row may be computed directly in its place instead of copied there.
static inline bool ep_write_in_place(const struct ep_writing *writing) {
  return !writing->trial && !writing->way->stream;
}
// Copies one row. The caller has to call ep_kernels_fence() before it raises the flag.
void ep_write_row(weft_ep_t *ep, struct ep_writing *writing, void *to, const void *from, size_t size);
// Copies a row of the caller to its place in op->cast: its values, and behind them the token's scales in `scales`, if
// there are any. Returns that place.
const uint8_t *ep_op_keep_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, const uint8_t *values,
                              const struct ep_scales *scales);
// Copies `bytes` bytes of a row's scales word by word, with strides of `from_block` and `to_block` words.
void ep_copy_scales(uint32_t *to, uint64_t to_block, const uint32_t *from, uint64_t from_block, uint32_t bytes);

// --- rows/recv_places.c: where rows are placed, computed from how many each member brings ---

int ep_places_open(weft_ep_t *ep, struct ep_places *places);
void ep_places_close(struct ep_places *places);
static inline uint32_t *ep_places_left(const weft_ep_t *ep, uint32_t index) {
  return ep->host->places.left + (size_t)index * ep->experts_per_rank;
}
static inline uint32_t *ep_places_next(const weft_ep_t *ep, uint32_t index) {
  return ep->host->places.next + (size_t)index * ep->experts_per_rank;
}
// Begins without any member. `recv` may be NULL: no rows are expected.
void ep_places_begin(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// Adds the member's rows behind those that were added before; members are added in their order. `counts`: [E] how many
// of its selections each local expert has. The member's rows_in has to be known.
void ep_places_add(weft_ep_t *ep, const struct ep_op *op, uint32_t index, const uint32_t *counts,
                   const struct weft_ep_recv_args *recv);
// The same for a source that is no member; `index`: its index among the places.
void ep_places_add_source(weft_ep_t *ep, uint32_t index, int32_t rank, uint32_t rows, const uint32_t *counts,
                          const struct weft_ep_recv_args *recv);
// Saves the places of the next rows of a member that was added, and restores them.
void ep_places_save(weft_ep_t *ep, uint32_t index);
void ep_places_restore(weft_ep_t *ep, uint32_t index);
// PACKED: to be called when all members were added; computes where the parts of the experts begin.
void ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
// To be called when all members were added: if the rows of the operation will not stay in the caches, all of them go
// past the caches.
void ep_places_expect(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);
// How large recv->rows has to be for all rows that were added; rows beyond recv->rows are not written.
uint32_t ep_places_needed(const weft_ep_t *ep, const struct weft_ep_recv_args *recv);
// Writes the counts; returns the rows in all.
uint32_t ep_places_end(const weft_ep_t *ep, const struct weft_ep_recv_args *recv);

// --- rows/recv_layout.c: rows from a window to the receive buffer ---

// Reads and checks the headers of some rows of a member, and counts their selections in places.tally. PROTOCOL: a
// header is wrong.
int ep_rows_check(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch);
// Checks that the rows that were checked last have no more selections of any expert than the member's counts leave,
// after the rows already laid out. PROTOCOL.
int ep_rows_fit(weft_ep_t *ep, const struct ep_op *op, uint32_t index);
// The member's rows are wrong, as the last error says: the member is lost, and its link is broken.
void ep_rows_refuse(weft_ep_t *ep, struct ep_member *member);
// PROTOCOL: all rows of the member were laid out, and they have fewer selections than its counts say.
int ep_rows_complete(weft_ep_t *ep, const struct ep_op *op, uint32_t index);
// Fills the places of a member's rows that will not arrive with zeros and source token -1; `laid` of its rows were laid
// out.
void ep_rows_lay_lost(weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv);
// Lays out the rows that were checked last, of a member that was added. PEER_LOST, only if rows cross once
// (member->once_in): the member considers this rank lost, so it may have overwritten the rows; none of them is laid
// out.
int ep_rows_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv);

// With a route: lays out rows of a member, which is source `from` of the route; its places were added by that index.
// The member's rows of the batch are not more than those of the route. PROTOCOL: a row lies in no window that this rank
// reads; PEER_LOST: as ep_rows_lay(). None of the rows is laid out then.
int ep_rows_lay_kept(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t from, const struct ep_batch *batch,
                     const struct weft_ep_recv_args *recv);
// As ep_rows_lay_lost(), for `rows` rows of `rank`; its places were added by `index`.
void ep_rows_lay_none(weft_ep_t *ep, const struct ep_op *op, uint32_t index, int32_t rank, uint32_t laid, uint32_t rows,
                      const struct weft_ep_recv_args *recv);

// --- rows/packed.c: the layout PACKED ---

// Lays out the rows of all members that were added, if there is room for them. A member that has changed its headers
// meanwhile is lost.
void ep_packed_lay(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// With ZERO_PADDING: fills the rows between the parts with zeros.
void ep_packed_pad(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);

#endif
