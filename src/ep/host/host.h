// The engine on host memory: its operations, and what they work with. All of it belongs to the owner's thread.
#ifndef EP_HOST_HOST_H
#define EP_HOST_HOST_H

#include "ep/core/engine.h"
#include "ep/core/op_state.h"

// One rank of an operation's view.
struct ep_member {
  int32_t rank;
  uint64_t incarnation;
  struct ep_link *link; // NULL: oneself, or no link
  uint32_t first_row;   // of its rows in op->row_token
  uint32_t rows_out;    // tokens sent to it
  int32_t last_token;   // the last of them, -1 for none
  uint32_t rows_in;     // its tokens that came
  int32_t last_in;      // the last of them that was laid out, -1 for none
  uint64_t wait_ns;     // that this rank waited for its dispatch header
  bool sent;            // our dispatch header went out
  bool received;        // its dispatch header came
  bool lost;            // it is dead, silent, or has no link: nothing more is expected from it in this operation
  bool late_weights;    // its weights come with the combine
  bool weights_back;    // it answered with weights too: answer/row_weights.c
  uint8_t kind;         // of its operation, enum ep_kind
  uint8_t answer_type;  // of the rows that it answered with, enum weft_ep_combine_dtype
};

// Scales of rows in the caller's memory: of token t and block b, word t * row + b * block.
struct ep_scales {
  const uint32_t *words; // NULL: there are none, or they lie behind the values
  uint64_t row, block;
};

// An operation in flight. Arrays are allocated once, for the largest operation and capacity.
struct ep_op {
  enum ep_op_state state;
  enum ep_kind kind;
  uint64_t number;
  // What this rank's headers of this operation say, to all the same: taken once, for the ranks compute with them.
  uint64_t ready, mark;
  const struct group_view *view; // a reference
  struct ep_member *members;     // [view->count], by rank
  uint32_t num_members;
  uint32_t self;     // index of this rank in members
  uint32_t sent;     // SENDING: members behind this rank that have been sent to
  uint32_t answered; // RECEIVED, and a combine was interrupted: one more than the members that were answered
  bool halfway;      // a combine in one was interrupted in its second half

  struct ep_form form;
  uint32_t num_tokens, topk; // T and K of this operation
  bool has_weights;
  int64_t *experts;    // [T][K] as given
  float *weights;      // [T][K]; late ones are filled in by combine_send
  int16_t *member_of;  // [T][K] index in members, -1: no expert, or one whose rank is not in the view or gets no tokens
  int16_t *local_of;   // [T][K] its expert there, where there is a member
  uint16_t *row_of;    // [T][K] row in that member's packed order
  uint32_t *row_at;    // [T*K] the selections that made a new row, in their order
  uint16_t *row_token; // [T*K] tokens of each member's rows, member by member
  uint64_t *cast_done; // bit t: token t stands in `cast`
  uint8_t *cast;       // [T][row_stride] rows as they travel, by token: fp8, and what this rank sends to itself
  const uint8_t *own_rows; // where this rank's own rows are read: `cast`, or the caller's x
  size_t own_stride;
  struct ep_scales own_scales; // the caller's, where own_rows is its x
  uint8_t *own_heads;          // [M] row headers of what this rank sends to itself
  struct ep_inbox own_in;      // likewise
  uint16_t *own_combine;       // [M][H] this rank's own rows, reduced; with own_y, room for one
  const uint16_t *own_y;       // the caller's y, while it stays readable until combine_recv has returned

  enum weft_ep_layout layout;
  uint32_t recv_rows; // weft_ep_recv_args.rows
  bool in_place;      // the rows that came are still being read where they lie: no thread may overwrite them yet
  bool placed;        // weft_ep_combine_rows has returned where to write the answers
  uint32_t round;     // combines before the one at hand
  bool unweighted;    // of the combine at hand: WEFT_EP_COMBINE_UNWEIGHTED
  bool own_weights;   // this rank's own rows have weights to give back, in own_in.weight
  int32_t odd_member; // the first that dispatches another type or top-k, -1: none
  uint64_t dispatch_wire_bytes, combine_wire_bytes, logical_selections;

  // What the calls of the last operation in this place brought, for weft_ep_await; its members stay as they were.
  struct ep_outcome {
    bool received, combined;
    uint32_t members, rows, rows_needed;
    uint64_t epoch, mark;
  } outcome;
};

// Where rows are to stand in the receive buffer, of the operation that is being received. One row of [E] for each of
// its members, by index.
struct ep_places {
  uint32_t *left;     // [capacity][E] selections of each local expert that are still to be laid out
  uint32_t *next;     // [capacity][E] PER_EXPERT: the row of the expert's part where the next one stands
  uint32_t *next_row; // [capacity] RANK_MAJOR: likewise; PACKED: the row of weft_ep_recv_args.slot
  uint32_t *total;    // [E] selections of each local expert, of all members that were added
  uint32_t *first;    // [E] not RANK_MAJOR: the row of the buffer where the part of each local expert begins
  uint32_t rows;      // their rows
  uint32_t *tally;    // [E] selections of each local expert in the rows that were checked last
};

// Some rows of one member, in the order in which they were sent.
struct ep_batch {
  uint64_t number;       // of the slot that they lie in: of the operation
  uint32_t first, count; // of the member's rows
};

struct ep_host {
  struct ep_op ops[EP_DEPTH];
  uint64_t halfway; // operation, plus one, whose dispatch in one, or barrier, was interrupted in its second half
  uint8_t *heads;   // [M] row headers of the member whose rows are being laid out
  struct ep_places places;
  struct ep_scales out_scales; // where the receive has its scales; their words are written,
  uint64_t out_scales_expert;  // those of an expert so far behind those of the one before
  uint16_t *reduced;           // [H] a row between its reduction and its way to the peer
  uint8_t *encoded;            // logfmt10: the same, as it travels
  uint16_t *decoded;           // logfmt10: [K][H] rows of one token that came, of the largest K
};

extern const struct ep_engine_ops ep_host_engine;

// --- operation.c: the life of an operation ---

// Allocates what an operation needs, for the largest one.
int ep_op_init(weft_ep_t *ep, struct ep_op *op);
void ep_op_free(struct ep_op *op);
// Gives the operation the members of `view`; what is known of those that it had is kept.
void ep_op_set_view(weft_ep_t *ep, struct ep_op *op, const struct group_view *view);
// The member of that rank, or -1.
int32_t ep_op_member(const struct ep_op *op, int32_t rank);
// The open operation of that number, in that state; else INVALID, naming `call`.
int ep_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct ep_op **op);
// BUSY: the call of this operation that was interrupted has to be made again.
int ep_fail_interrupted(const struct ep_op *op);
// Whether an open operation uses the link. [owner]
bool ep_op_uses(weft_ep_t *ep, const struct ep_link *link);
// The rows that came have been read: their writers may overwrite them.
void ep_release_rows(weft_ep_t *ep, struct ep_op *op);
// The answers that came have been added up.
void ep_release_answers(weft_ep_t *ep, struct ep_op *op);
// The operation is over: frees its slot, sweeps.
void ep_op_end(weft_ep_t *ep, struct ep_op *op);

// --- sweep.c: links that are not needed any more ---

void ep_host_sweep(weft_ep_t *ep);
int ep_host_unmap(weft_ep_t *ep, int32_t rank);

// --- activation.c: when a view takes effect, by the headers that are received ---

void ep_host_follow(weft_ep_t *ep);
void ep_host_started(weft_ep_t *ep, uint64_t op, const struct group_view *view);
int ep_host_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view);
// Publishes to a peer that this rank counts it from `op` on, unless it has published so before.
void ep_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch);
// All headers of `op` have arrived: decides what comes next, and notifies joiners.
void ep_activate_next(weft_ep_t *ep);

// --- route.c: which ranks tokens go to ---

// INVALID: an expert that no rank can have.
int ep_check_experts(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint32_t num_tokens, uint32_t topk);
// Keeps the first `selections` experts of the caller's.
void ep_take_experts(struct ep_op *op, const struct weft_ep_dispatch_args *args, size_t selections);
// Gives every selection its member and row, and every member its tokens. Rows are packed in the order of tokens.
void ep_route(weft_ep_t *ep, struct ep_op *op);

// --- dispatch_send.c ---

int ep_host_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number);
// Begins an operation of either kind. `x_stays`: args->x and args->scales stay readable until dispatch_recv returns.
int ep_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, bool x_stays, uint64_t *number);
// Sends the header of an operation without rows, to a member that it had not counted. False: interrupted before that.
bool ep_send_empty(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns);

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

// --- recv_headers.c ---

// Receives every member's header and lays the rows out where `recv` says (NULL: there must be none). `*mark`: the
// lowest of those received. False: interrupted; nothing is taken yet, and it may be called again.
bool ep_receive_headers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, uint64_t *mark);

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
// PACKED: all members were added, so it is known where the parts of the experts begin.
void ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
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
// Lays out the rows that were checked last, of a member that was added.
void ep_rows_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                 const struct weft_ep_recv_args *recv);

// The rows of a member are wrong: it is lost.
void ep_rows_refuse(weft_ep_t *ep, struct ep_member *member);

// --- rows/packed.c: the layout PACKED ---

// Lays out the rows of all members that were added, if there is room for them. One that has changed its headers
// since is lost.
void ep_packed_lay(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv);
// With ZERO_PADDING: makes the rows between the parts zeros.
void ep_packed_pad(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv);

// --- dispatch_recv.c ---

int ep_host_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                          struct weft_ep_info *info);
int ep_host_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                     struct weft_ep_info *info, uint64_t *number);
int ep_host_finish(weft_ep_t *ep, uint64_t number);
// Whether an interrupted call of that kind goes on with the second half of `*number`; an error: one of another kind has
// to go on first.
int ep_op_resumes(weft_ep_t *ep, enum ep_kind kind, uint64_t *number);
// The second half of a dispatch, of an operation that was sent.
int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, struct weft_ep_info *info);
// What a dispatch did, from op->outcome and the members.
void ep_fill_info(const struct ep_op *op, struct weft_ep_info *info);

// --- combine_send.c ---

int ep_host_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at);
int ep_host_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args);
// The same. `y_stays`: args->y stays readable until combine_recv returns.
int ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, bool y_stays);
// What can be said of the arguments of `call`. INVALID.
int ep_combine_check(const struct ep_op *op, const struct weft_ep_combine_args *args, const char *call);
// A row that was received, reduced over this rank's experts: in y, or written to `room`.
const uint16_t *ep_reduced_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t row,
                               const uint16_t *y, uint16_t *room);

// Row i of the answers, in a window.
static inline void *ep_combine_row(weft_ep_t *ep, void *area, uint64_t op, uint32_t i) {
  return (char *)ep_slot(&ep->layout, area, op) + ep->layout.combine + i * ep->layout.combine_stride;
}

// Row i of the weights, late ones or those that go back, in a window: [K], with room for the largest K.
static inline float *ep_weights_row(weft_ep_t *ep, void *area, uint64_t op, uint32_t i) {
  return (float *)((char *)ep_slot(&ep->layout, area, op) + ep->layout.weights) + (size_t)i * ep->layout.topk;
}

// --- answer/row_weights.c: weights that go back with the rows ---

// Sends them with this rank's answer to one member, whose window is free, before its flag. False: the link is down.
bool ep_row_weights_send(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const float *weights,
                         uint64_t deadline_ns);
// Keeps those of this rank's own rows.
void ep_row_weights_keep(weft_ep_t *ep, struct ep_op *op, uint32_t rows, const float *weights);
// Waits for those of a member whose answer says that they come.
enum ep_wait ep_row_weights_await(weft_ep_t *ep, const struct ep_op *op, struct ep_member *member,
                                  uint64_t deadline_ns);
// Writes those of one token's selections, [K]: 0 where none came.
void ep_row_weights_take(weft_ep_t *ep, const struct ep_op *op, uint32_t token, float *out);

// --- combine_recv.c ---

int ep_host_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result);
int ep_host_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                    struct weft_ep_result *result);
// Writes the selections of `op` that brought nothing into the result's list, and counts them.
void ep_list_missing(const struct ep_op *op, struct weft_ep_result *result);
// What the combine did: the losses and the bytes.
void ep_fill_result(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result);

// --- barrier.c, await.c ---

int ep_host_barrier(weft_ep_t *ep);
int ep_host_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                  uint32_t timeout_ms);

#endif
