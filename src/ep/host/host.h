// The engine on host memory: its operations and their data. Only the owner's thread uses it.
#ifndef EP_HOST_HOST_H
#define EP_HOST_HOST_H

#include "ep/core/engine.h"
#include "ep/core/op_state.h"
#include "ep/core/route.h"
#include "ep/routing/kept.h"

// One rank of an operation's view.
struct ep_member {
  int32_t rank;
  uint64_t incarnation;
  struct ep_link *link; // NULL: this rank itself, or no link
  uint32_t first_row;   // index of the first of its rows in op->row_token
  uint32_t rows_out;    // tokens sent to it
  int32_t last_token;   // the last of these tokens; -1: none
  uint32_t rows_in;     // its tokens for this rank
  int32_t last_in;      // the last of these tokens that was laid out; -1: none
  uint64_t wait_ns;     // how long this rank waited for its dispatch header
  bool sent;            // our dispatch header was sent to it
  bool whole_in;        // its rows lie in one piece, EP_TRAIT_WHOLE
  bool received;        // its dispatch header arrived
  bool lost;            // it is dead, silent, or has no link: nothing more is expected from it in this operation
  bool late_weights;    // its weights arrive with the combine
  bool weights_back;    // it answered with weights too: answer/row_weights.c
  uint8_t kind;         // of its operation, enum ep_kind
  uint8_t answer_type;  // type of the rows that it answered with, enum weft_ep_combine_dtype
  uint32_t route_rows;  // rows of ours that it has kept with the route that it uses
  bool wrong_count;     // with a route: it sent another number of rows than the route has, and they are not accepted
  uint32_t answered;    // rows of ours that it answered and that were accepted; if it is lost, the others are missing
  // Rows that flow in pieces (THROUGHPUT). Pieces of the dispatch: sent to it, and laid out from it. Pieces of the
  // current combine: sent to it, found here, and released.
  uint32_t pieces_out, pieces_in, answers_out, answers_in, answers_released;
  // Rows that cross to its host once (send/once.h). group: index + 1 of its group of members; 0: none. rows_sent: rows
  // of this rank's dispatch that were published to it. here: rows of the current piece that it gets. carries: those of
  // them that lie in its window.
  uint32_t group, rows_sent, here, carries;
  bool in_piece;        // the current piece is for it too
  bool once_in;         // its rows arrive this way, EP_TRAIT_ONCE
  uint32_t rows_laid;   // THROUGHPUT: how many of its rows were laid out
  uint32_t rows_own;    // those of rows_laid that arrived in this rank's window
  bool whole_answer;    // its answers lie in one piece, EP_ANSWER_WHOLE
  uint64_t progress_ns; // when this call last moved a piece to or from it
  uint32_t extensions;  // extensions of its deadline since then
  bool awaited, silent; // whether this rank waits for it, and whether this rank gives it up
};

// Scales of rows in the caller's memory: of token t and block b, word t * row + b * block.
struct ep_scales {
  const uint32_t *words; // NULL: there are no scales, or they lie behind the values
  uint64_t row, block;
};

// The input of a dispatch, in the caller's memory.
struct ep_input {
  const uint8_t *x;
  uint64_t x_stride;       // bytes
  struct ep_scales scales; // if the caller has cast x
  bool cast;               // x holds the values in the form in which they travel: bf16, or fp8 that the caller has cast
  bool stays;              // all input stays readable until dispatch_recv returns
};

// Ranks of another host to which a token crosses once: send/once.h.
struct ep_once {
  uint32_t pieces;              // pieces that were published
  bool under_way;               // the next piece is written but not published: not all of it has arrived
  bool begun;                   // the first piece was written
  uint32_t size;                // members that the piece was written for
  uint64_t since_ns, looked_ns; // when it was written, and when this rank last checked whether it has arrived
};

// An operation in flight. Arrays are allocated once, for the largest operation and capacity.
struct ep_op {
  enum ep_op_state state;
  enum ep_kind kind;
  uint64_t number;
  // What this rank's headers of this operation say. Read once, so that all peers get the same values: all ranks compute
  // with them.
  uint64_t ready, mark;
  const struct group_view *view; // a reference
  struct ep_member *members;     // [view->count], by rank
  uint32_t num_members;
  struct ep_once *groups; // [capacity] by ep_member.group - 1
  uint32_t num_groups;
  uint32_t self;     // index of this rank in members
  uint32_t sent;     // SENDING: how many of the members behind this rank everything was sent to
  uint32_t answered; // RECEIVED, and a combine was interrupted: the number of members that were answered, plus one
  bool combine_interrupted; // weft_ep_combine() was interrupted in its second half
  bool whole;               // all rows to a member go in one piece, since one call sends and another one receives
  bool flowing;             // THROUGHPUT: all headers have arrived, and rows are being laid out, or were laid out
  bool combining;           // THROUGHPUT: answers are being received
  bool whole_answers;       // THROUGHPUT: this rank's answers to each member go in one piece
  uint64_t lowest_mark;     // of the members whose dispatch arrived
  uint32_t next_sum;        // combine: the token to sum next
  uint32_t rows_written, peers_done; // for the fault hook
  struct ep_input input;

  struct ep_form form;
  uint32_t num_tokens, topk; // T and K of this operation
  bool has_weights;
  int64_t *experts;    // [T][K] as given
  float *weights;      // [T][K]; late ones are filled in by combine_send
  int16_t *member_of;  // [T][K] index in members; -1: no expert, or its rank is not in the view or gets no tokens
  int16_t *local_of;   // [T][K] index of the expert in that member, if there is one
  uint16_t *row_of;    // [T][K] row in the packed order of that member
  uint32_t *row_at;    // [T*K] the selections that added a row, in order
  uint16_t *row_token; // [T*K] tokens of each member's rows, member by member
  uint64_t *cast_done; // bit t: token t is in `cast`
  uint8_t *cast; // [T][row_stride] rows as they travel, by token: fp8 rows, and rows that this rank sends to itself
  const uint8_t *own_rows; // where this rank's own rows are read from: `cast`, or the caller's x
  size_t own_stride;
  struct ep_scales own_scales; // the caller's scales, if own_rows is the caller's x
  uint8_t *own_heads;          // [M] row headers of rows that this rank sends to itself
  struct ep_inbox own_in;      // of the same rows
  float *own_back;       // [T][K] weights that go back with this rank's own rows, at their places; see own_weights
  uint16_t *own_combine; // [window_rows][H] this rank's own rows, reduced; with own_y, room for one row
  const uint16_t *own_y; // the caller's y, while it stays readable until combine_recv has returned

  // Until its dispatch has been received: the route that it fills or uses. NULL: none.
  weft_ep_route_t *route;
  bool fills;
  uint64_t route_number; // if it uses a route: the operation that filled the route, plus one; else 0, also in headers
  const uint8_t *went;   // if it uses a route: [T][K] where its tokens may go; NULL: anywhere

  enum weft_ep_layout layout;
  enum weft_ep_combine_dtype combine_dtype; // of this rank's rows in the current combine

  bool in_place;      // received rows are still being read where they lie: no thread may overwrite them yet
  bool placed;        // weft_ep_combine_rows() has returned where to write the answers
  uint32_t round;     // combines before the current one
  bool unweighted;    // of the current combine: WEFT_EP_COMBINE_UNWEIGHTED
  bool own_weights;   // weights go back with this rank's own rows
  int32_t odd_member; // the first that dispatches another type or top-k; -1: none
  uint64_t dispatch_wire_bytes, combine_wire_bytes, logical_selections;

  // The results of the last operation in this place, for weft_ep_await(); its members stay unchanged.
  struct ep_outcome {
    bool received, combined;
    uint32_t members, rows, rows_needed;
    uint64_t epoch, mark;
  } outcome;
};

// Places of rows in the receive buffer, for the operation that is being received. One row of [E] for each of its
// members, by index.
struct ep_places {
  uint32_t *left;     // [capacity][E] selections of each local expert that are still to be laid out
  uint32_t *next;     // [capacity][E] PER_EXPERT: the row of the expert's part for the next one
  uint32_t *next_row; // [capacity] RANK_MAJOR: the same; PACKED: the row of weft_ep_recv_args.slot
  uint32_t *total;    // [E] selections of each local expert, of all members that were added
  uint32_t *first;    // [E] except in RANK_MAJOR: the row of the buffer where the part of each local expert begins
  uint32_t rows;      // their rows
  uint32_t *saved;    // [2][E] left and next of one member, and its next_row:
  uint32_t saved_row; // ep_places_save()
  uint32_t *tally;    // [E] selections of each local expert in the rows that were checked last
  uint64_t laid;      // bytes of rows that were laid out, or are expected: see EP_CACHED_BYTES
};

// Some rows of one member, in the order in which they were sent.
struct ep_batch {
  uint64_t number;       // of the piece in which they travel
  uint32_t first, count; // of the member's rows
};

// The rows in piece `i`, for an operation of `rows` rows.
static inline struct ep_batch ep_batch_of(const struct ep_layout *layout, uint64_t op, uint32_t rows, bool whole,
                                          uint32_t i) {
  uint32_t first = whole ? 0 : i * layout->piece_rows, left = rows - first;
  return (struct ep_batch){.number = ep_piece(layout, op, i),
                           .first = first,
                           .count = whole || left < layout->piece_rows ? left : layout->piece_rows};
}

struct ep_host {
  struct ep_op ops[EP_DEPTH];
  uint64_t interrupted; // operation, plus one, whose weft_ep_dispatch() or barrier was interrupted in its second half
  uint64_t shared;      // pieces written so far for ranks that share rows: link->sent_once
  uint32_t named;       // how many of the rows that were checked last lie in the window of another rank
  uint64_t combining;   // operation, plus one, of a combine by a route, interrupted after its headers had arrived,
  const weft_ep_route_t *combines_by; // and its route
  uint8_t *heads;                     // [M] row headers of the member whose rows are being laid out
  struct ep_places places;
  struct ep_scales out_scales; // destination of the scales; their words are written,
  uint64_t out_scales_expert;  // distance between the scales of one expert and the next
  uint8_t *no_row;             // [row_stride] zeros, in place of a row that did not arrive
  uint16_t *reduced;           // [H] a row that was reduced, before it is sent
  uint8_t *encoded;            // logfmt10: the same row, in the form in which it travels
  uint16_t *decoded;           // logfmt10: [K][H] received rows of one token, for the largest K
};

extern const struct ep_engine_ops ep_host_engine;

// Whether the operation uses a route that was filled before.
static inline bool ep_op_keeps(const struct ep_op *op) {
  return op->route_number != 0;
}
// Where the rows of a member were placed in this operation.
static inline struct ep_inbox *ep_op_inbox(struct ep_op *op, const struct ep_member *member) {
  return member->link ? &member->link->inbox[op->number % EP_DEPTH] : &op->own_in;
}
// The bytes of `rows` rows of the dispatch: without row headers if the receiver has kept them.
static inline uint64_t ep_op_bytes(const weft_ep_t *ep, const struct ep_op *op, uint32_t rows) {
  uint64_t row_bytes = op->form.value_bytes + op->form.scale_bytes;
  return ep_op_keeps(op) ? rows * row_bytes : ep_layout_bytes(&ep->layout, row_bytes, rows);
}

// The same for rows that cross once: `here` of them belong to the receiver, `rows` lie in its window.
static inline uint64_t ep_op_once_bytes(const weft_ep_t *ep, const struct ep_op *op, uint32_t here, uint32_t rows) {
  uint64_t row_bytes = op->form.value_bytes + op->form.scale_bytes;
  return (ep_op_keeps(op) ? 0 : ep_layout_bytes(&ep->layout, 0, here)) + here * sizeof(uint64_t) + rows * row_bytes;
}

// --- operation.c: the life of an operation ---

// Allocates what an operation needs, for the largest one.
int ep_op_init(weft_ep_t *ep, struct ep_op *op);
void ep_op_free(struct ep_op *op);
// Sets the members of the operation to those of `view`; the state of members that it had before is kept.
void ep_op_set_view(weft_ep_t *ep, struct ep_op *op, const struct group_view *view);
// The member of that rank, or -1.
static inline int32_t ep_op_member(const struct ep_op *op, int32_t rank) {
  uint32_t low = 0, high = op->num_members;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (op->members[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low < op->num_members && op->members[low].rank == rank ? (int32_t)low : -1;
}
// Finds the open operation of that number, in that state; else INVALID, which names `call`.
int ep_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct ep_op **op);
// The name of the call that begins an operation of that kind, for messages.
const char *ep_call_of(enum ep_kind kind);
// Fails with BUSY: the call of this operation that was interrupted has to be repeated.
int ep_fail_interrupted(const struct ep_op *op);
// Whether an open operation uses the link. [owner]
bool ep_op_uses(weft_ep_t *ep, const struct ep_link *link);
// The received rows have been read: their writers may overwrite them.
void ep_release_rows(weft_ep_t *ep, struct ep_op *op);
// The received answers have been added up: their writers may overwrite them.
void ep_release_answers(weft_ep_t *ep, struct ep_op *op);
// Releases the route that the operation fills or uses.
void ep_op_let_go(struct ep_op *op);
// The operation is over: frees its place, and sweeps.
void ep_op_end(weft_ep_t *ep, struct ep_op *op);

// --- sweep.c: links that are not needed any more ---

void ep_host_sweep(weft_ep_t *ep);
int ep_host_unmap(weft_ep_t *ep, int32_t rank);

// --- activation.c: when a view takes effect, decided from the received headers ---

void ep_host_follow(weft_ep_t *ep);
void ep_host_started(weft_ep_t *ep, uint64_t op, const struct group_view *view);
int ep_host_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view);
// Publishes to a peer that this rank includes it from `op` on, unless it has published that before.
void ep_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch);
// All headers of `op` have arrived: decides the next epoch, and notifies joiners.
void ep_activate_next(weft_ep_t *ep);

// --- route/route.c: which ranks tokens go to ---

// INVALID: an expert index is beyond those of all ranks.
int ep_check_experts(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint32_t num_tokens, uint32_t topk,
                     const char *call);
// Copies the first `selections` experts from the caller.
void ep_take_experts(struct ep_op *op, const struct weft_ep_dispatch_args *args, size_t selections);
// Assigns a member and a row to every selection, and tokens to every member. Rows are packed in the order of tokens.
void ep_route(weft_ep_t *ep, struct ep_op *op);
// Counts the selections of each expert of a member: counts[E].
void ep_count_selections(const weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t *counts);

// --- dispatch_send.c ---

int ep_host_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number);
// How the rows of an operation are to be sent.
enum ep_sending {
  EP_SEND_HALF,  // the call returns when all rows are sent: args->x and args->scales may change then
  EP_SEND_WHOLE, // the same; but args->x and args->scales stay readable until dispatch_recv returns
  EP_SEND_FLOW,  // with THROUGHPUT only the first piece to each member; the others follow in ep_flow_dispatch()
};
// Begins an operation of that kind.
int ep_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, enum ep_sending sending,
            uint64_t *number);
// Writes the next piece for the member, and publishes it. The piece's slot has to be free.
void ep_send_piece(weft_ep_t *ep, struct ep_op *op, uint32_t index);
// Casts this rank's own rows of a batch, which will be laid out, if they were not cast before.
void ep_cast_own(weft_ep_t *ep, struct ep_op *op, const struct ep_batch *batch);
// Sends the header of an operation, without rows, to a member that the operation had not included. False: interrupted
// before that.
bool ep_send_empty(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns);

// --- recv_headers.c ---

// Receives every member's header, and lays the rows out as `recv` says (NULL: there must be no rows). `*mark`: the
// lowest mark received. False: interrupted; nothing was taken yet, and it may be called again.
bool ep_receive_headers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, uint64_t *mark);

// --- dispatch_recv.c ---

int ep_host_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                          struct weft_ep_info *info);
int ep_host_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                     struct weft_ep_info *info, uint64_t *number);
int ep_host_finish(weft_ep_t *ep, uint64_t number);
// Whether an interrupted call of that kind continues with the second half of `*number`. An error: an interrupted call
// of another kind has to continue first.
int ep_op_resumes(weft_ep_t *ep, enum ep_kind kind, uint64_t *number);
// The second half of a dispatch, for an operation that was sent.
int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, struct weft_ep_info *info);
// Fills `info` with the results of a dispatch, from op->outcome and the members.
void ep_fill_info(const struct ep_op *op, struct weft_ep_info *info);

// --- combine_send.c ---

int ep_host_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at);
int ep_host_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args);
// The same. `y_stays`: args->y stays readable until combine_recv returns.
int ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, bool y_stays);
// The answer of a rank.
struct ep_answer {
  const uint16_t *y;
  const float *row_weights; // weights that go back with the rows; NULL: none
  enum weft_ep_combine_dtype type;
  size_t bytes; // of a row
  uint64_t deadline_ns;
};

struct ep_answer ep_answer_of(const weft_ep_t *ep, const struct weft_ep_combine_args *args);
// Writes the next piece of the answers to a member, or all answers as one piece, and publishes it. The piece's slot has
// to be free. False: the link is down.
bool ep_answer_piece(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_answer *with,
                     bool whole);
// THROUGHPUT: begins a combine whose answers ep_flow_combine() moves in pieces.
int ep_combine_begin_flow(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args);
// Checks the arguments of `call`. INVALID.
int ep_combine_check(const struct ep_op *op, const struct weft_ep_combine_args *args, const char *call);
// A received row, reduced over this rank's experts. It is in y, or is written to `room`.
const uint16_t *ep_reduced_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t row,
                               const uint16_t *y, uint16_t *room);

// Row i of a piece of answers, in a window.
static inline void *ep_combine_row(weft_ep_t *ep, void *area, uint64_t piece, uint32_t i) {
  return (char *)ep_slot(&ep->layout, area, piece) + ep->layout.combine + i * ep->layout.combine_stride;
}

// Where the answer to row i of the rows sent to a member lies: `*piece`, and the row in that piece.
static inline uint32_t ep_answer_place(const struct ep_layout *layout, const struct ep_op *op,
                                       const struct ep_member *member, uint32_t i, uint64_t *piece) {
  uint32_t index = layout->flows && !member->whole_answer ? i / layout->piece_rows : 0;
  *piece = ep_piece(layout, op->number, index);
  return i - index * layout->piece_rows;
}

// Row i of the weights in a window, either late weights or weights that go back: [K], with room for the largest K.
static inline float *ep_weights_row(weft_ep_t *ep, void *area, uint64_t piece, uint32_t i) {
  return (float *)((char *)ep_slot(&ep->layout, area, piece) + ep->layout.weights) + (size_t)i * ep->layout.topk;
}

// --- combine_recv.c ---

int ep_host_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result);
int ep_host_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                    struct weft_ep_result *result);
// Adds up the answers for one token. Every member that has a row of the token has answered it or is lost.
void ep_sum_token(weft_ep_t *ep, struct ep_op *op, uint32_t token, const struct weft_ep_combine_args *args,
                  struct weft_ep_result *result);
// Stores the type of a member's answers, as its flag says. False: this group has no room for rows of that type.
bool ep_take_answer_type(weft_ep_t *ep, struct ep_member *member, uint64_t type);
// Writes the selections of `op` without an answer into the result's list, and counts them.
void ep_list_missing(const struct ep_op *op, struct weft_ep_result *result);
// Fills `result` with the losses and the bytes of the combine.
void ep_fill_result(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result);

// --- barrier.c, combine_route.c, await.c ---

int ep_host_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                          struct weft_ep_result *result, uint64_t *number);
int ep_host_barrier(weft_ep_t *ep);
int ep_host_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                  uint32_t timeout_ms);

#endif
