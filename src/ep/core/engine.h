// The inside of a weft_ep_t, and what its files need of each other.
//
// Four threads touch it: the owner's (operations), the service thread (links: accept, hang-ups, release), the life
// thread (deaths), and the group's (views). What they share is atomic or behind `lock`; everything else belongs to the
// owner.
#ifndef EP_CORE_ENGINE_H
#define EP_CORE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/activation.h"
#include "ep/core/doorbell.h"
#include "ep/core/fault.h"
#include "ep/core/layout.h"
#include "ep/core/window.h"
#include "ep/kernels/kernels.h"
#include "ep/link/death_watch.h"
#include "ep/link/link.h"
#include "group/group.h"

enum { EP_VIEWS = 64 }; // agreed views that are remembered: the active one, and those that have not taken effect

enum ep_op_state {
  EP_OP_FREE,
  EP_OP_SENT,     // dispatch_send is done
  EP_OP_RECEIVED, // dispatch_recv too
  EP_OP_ANSWERED, // combine_send too
};

// One rank of an operation's view.
struct ep_member {
  int32_t rank;
  uint64_t incarnation;
  struct ep_link *link; // NULL: oneself, or no link
  uint32_t first_row;   // of its rows in op->row_token
  uint32_t rows_out;    // tokens sent to it
  int32_t last_token;   // the last of them, -1 for none
  uint32_t rows_in;     // its tokens that came
  uint64_t wait_ns;     // that this rank waited for its dispatch header
  bool sent;            // our dispatch header went out
  bool heard;           // its dispatch header came
  bool lost;            // it is dead, silent, or has no link: nothing more is expected from it in this operation
  bool late_weights;    // its weights come with the combine
  uint16_t kind;        // of its operation, enum ep_kind
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
  uint32_t self; // index of this rank in members

  uint32_t num_tokens;
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
  const void *own_scales; // the caller's, where own_rows is its x; NULL: none, or behind the values
  uint8_t *own_heads;     // [M] row headers of what this rank sends to itself
  struct ep_inbox own_in; // likewise
  uint16_t *own_combine;  // [M][H] this rank's own rows, reduced; with own_y, room for one
  const uint16_t *own_y;  // the caller's y, while it stays readable until combine_recv has returned

  enum weft_ep_layout layout;
  uint32_t recv_rows; // weft_ep_recv.rows
  bool in_place;      // the rows that came are still being read where they lie: nobody may overwrite them yet
  bool placed;        // weft_ep_combine_rows has told where to write the answers
  uint64_t dispatch_wire_bytes, combine_wire_bytes, logical_selections;

  // What the calls of the last operation in this place told, for weft_ep_await; its members stay as they were.
  struct ep_told {
    bool heard, combined;
    uint32_t members, rows;
    uint64_t epoch, mark;
  } told;
};

struct ep_gpu; // gpu/gpu.h

struct weft_ep {
  // Fixed after open.
  struct ep_gpu *gpu; // NULL: on host memory. On CUDA memory the operations' fields below are not used
  int32_t rank;
  uint64_t incarnation;
  uint32_t capacity, experts_per_rank, op_timeout_ms;
  uint32_t processors; // of this host, online
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  struct ep_layout layout;
  const struct ep_kernels *kernels;
  weft_ep_event_fn on_event;
  void *event_arg;
  int32_t *founders;
  uint32_t num_founders;
  bool join_only;
  struct group *group;
  struct ep_window bell; // this rank's doorbell page
  int bell_fd;

  // Links: see link/link.h. Who of them has died: see link/death_watch.h.
  struct ep_links links;
  struct ep_life life;
  // The way to other hosts, once it is open; see remote/worker.h.
  struct ep_net *_Atomic net;
  pthread_mutex_t net_lock;

  // Views: written by the group's thread.
  pthread_mutex_t lock;
  const struct group_view *views[EP_VIEWS]; // newest last; under lock
  uint32_t num_views;
  _Atomic uint64_t ready; // newest epoch for which every other member has a link
  _Atomic uint64_t lost;  // peers found dead or silent
  _Atomic bool fenced;    // an agreed view is without this rank, which had not asked to leave

  // The owner's.
  uint64_t next_sign_ns; // when to tell other hosts again that this rank waits
  bool holds;            // inside a call that goes on: the network stays the owner's
  bool started;          // has been told its first operation
  bool leaving;          // asked to leave
  uint64_t next_op;
  uint64_t mark;
  struct ep_activation activation;
  const struct group_view *view; // of next_op; a reference
  struct ep_op ops[WEFT_EP_DEPTH];
  bool *masked;       // [capacity]
  uint8_t *heads;     // [M] row headers of the member whose rows are being laid out
  uint32_t *cursor;   // [experts] selections of each local expert laid out so far
  uint32_t laid_rows; // rows laid out so far (RANK_MAJOR)
  uint16_t *reduced;  // [H] a row between its reduction and its way to the peer
  uint8_t *encoded;   // logfmt10: the same, as it travels
  uint16_t *decoded;  // logfmt10: [K][H] rows of one token that came
  _Atomic bool sweep; // a link went down or a view changed: look for links to let go of
  uint32_t spins;     // rounds of a wait before it sleeps
  ep_fault_fn fault;
  void *fault_arg;
  struct weft_ep_stats stats;
};

// --- view/views.c: what the group agreed on ---

// The group's callback.
void ep_views_event(void *arg, const struct group_event *event);
// The view of `epoch`, or the oldest remembered one that is newer; NULL if none is known yet. A reference. [any]
const struct group_view *ep_views_find(weft_ep_t *ep, uint64_t epoch);
// Looks again which views every member has a link for; the service and owner's threads call it after a new link. [any]
void ep_views_update_ready(weft_ep_t *ep);
// Whether the newest agreed view has this rank and incarnation. [any]
bool ep_views_has(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_views_free(weft_ep_t *ep);

// --- host/operation.c: the life of an operation ---

// Allocates what an operation needs, for the largest one.
int ep_op_init(weft_ep_t *ep, struct ep_op *op);
void ep_op_free(struct ep_op *op);
// Copies a row of the caller's to its place in op->cast: its values, and behind them the token's scales among `scales`,
// if there are any. Returns that place.
const uint8_t *ep_op_keep_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, const uint8_t *values,
                              const void *scales);
// Gives the operation the members of `view`; what is known of those that it had is kept.
void ep_op_set_view(weft_ep_t *ep, struct ep_op *op, const struct group_view *view);
// The member of that rank, or -1.
int32_t ep_op_member(const struct ep_op *op, int32_t rank);
// The open operation of that number, in that state; else INVALID, naming `call`.
int ep_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct ep_op **op);
// Whether an open operation uses the link. [owner]
bool ep_op_uses(weft_ep_t *ep, const struct ep_link *link);
// The operation is over: frees its slot, sweeps.
void ep_op_end(weft_ep_t *ep, struct ep_op *op);
// Lets go of links that nobody needs any more, if there may be some. [owner]
void ep_sweep(weft_ep_t *ep);

// On CUDA memory the watcher lets go of links: while they are held, none that is in the table is freed. Nothing on host
// memory, where the owner does.
void ep_hold_links(const weft_ep_t *ep);
void ep_unhold_links(const weft_ep_t *ep);

// --- view/activate.c: which view the operations run in ---

// This rank runs operations from `op` on, in `view` (the caller's reference is taken).
void ep_start(weft_ep_t *ep, uint64_t op, const struct group_view *view);
// 0, or why this rank runs no operation: NOT_CONNECTED, FENCED.
int ep_check_active(weft_ep_t *ep);
// Tells a peer that this rank counts it from `op` on, unless it has been told so before.
void ep_tell_start(struct ep_link *link, uint64_t op, uint64_t epoch);
// All headers of `op` are heard: decides what comes next, and tells joiners.
void ep_activate_next(weft_ep_t *ep);
// Waits for the view of `epoch`, or a newer one in its place. A reference; NULL when the deadline has passed.
const struct group_view *ep_await_view(weft_ep_t *ep, uint64_t epoch, uint64_t deadline_ns);

// --- host/dispatch_send.c ---

// What can be said of the arguments without looking at memory.
int ep_check_dispatch(const weft_ep_t *ep, const struct weft_ep_dispatch *args);

// Begins an operation of either kind. `x_stays`: args->x and args->scales stay readable until dispatch_recv returns.
int ep_send(weft_ep_t *ep, const struct weft_ep_dispatch *args, enum ep_kind kind, bool x_stays, uint64_t *number);
// Sends the header of an operation without rows, to a member that it had not counted.
void ep_send_empty(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns);

// --- host/row_copy.c: rows into a peer's window ---

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

// --- host/recv_headers.c ---

// Hears every member's header and lays the rows out where `recv` says (NULL: there must be none). Returns the lowest
// mark of those heard.
uint64_t ep_hear_headers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv *recv);

// --- host/dispatch_recv.c ---

int ep_check_recv(const weft_ep_t *ep, const struct weft_ep_recv *recv, const struct weft_ep_info *info);

// What a dispatch did, from op->told and the members.
void ep_tell_info(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_info *info);
// The bytes of a dispatch by the caller's count: `selections` of valid (token, expert) pairs.
uint64_t ep_logical_bytes(const weft_ep_t *ep, uint64_t selections);

// The second half of a dispatch, of an operation that was sent.
int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv *recv, struct weft_ep_info *info);

// The rows that came have been read: their writers may overwrite them.
void ep_release_rows(weft_ep_t *ep, struct ep_op *op);

// --- host/recv_layout.c: rows from a window to the receive buffer ---

void ep_expand_begin(weft_ep_t *ep, const struct weft_ep_recv *recv);
// Lays out the rows of one member behind those before it. PROTOCOL: a row header is wrong (nothing is laid out then).
int ep_expand(weft_ep_t *ep, struct ep_op *op, uint32_t member, const struct weft_ep_recv *recv);
// Rows that would have been needed in recv->rows; what is beyond has not been written.
uint32_t ep_expand_needed(const weft_ep_t *ep, const struct weft_ep_recv *recv);
// Writes the counts; returns the rows in all.
uint32_t ep_expand_end(weft_ep_t *ep, const struct weft_ep_recv *recv);

// --- host/combine_send.c ---

// combine_send. `y_stays`: args->y stays readable until combine_recv returns.
int ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args, bool y_stays);
// A row that was received, reduced over this rank's experts: in y, or written to `room`.
const uint16_t *ep_reduced_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t row,
                               const uint16_t *y, uint16_t *room);

// Row i of the answers, in a window.
static inline void *ep_combine_row(weft_ep_t *ep, void *area, uint64_t op, uint32_t i) {
  return (char *)ep_slot(&ep->layout, area, op) + ep->layout.combine + i * ep->layout.combine_stride;
}

// --- host/combine_recv.c ---

#define EP_NOT_LATE "%s: topk_weights are given, but the receive was RANK_MAJOR: they go with the dispatch, or nowhere"
int ep_check_combine(const struct ep_op *op, const struct weft_ep_combine *args, const char *call);
int ep_check_result(const struct weft_ep_result *result);

// Notes the selections of `op` that brought nothing in the result's list, and counts them.
void ep_list_missing(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result);
// What the combine did: the losses and the bytes.
void ep_tell_result(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result);

// --- waiting: wait.c ---

struct ep_pause {
  uint32_t rounds;
  uint32_t begun;
  bool armed;
  uint64_t since_ns;  // when the waiting began, 0: it has not
  uint64_t looked_ns; // when it last looked at the clock
  uint64_t absent_ns; // time in which this rank itself was stopped; it moves the deadline
};

// A peer that does not come because it waits for a third one is not silent: it gets so many more time limits.
enum { EP_EXTENSIONS = 3 };

// A rank that sleeps in a wait says so often in an operation's time limit that it waits.
enum { EP_SIGNS = 8 };

// Whether the peer waits for somebody, inside one of its operations, or did a moment ago.
bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link);

// Between two looks at what is waited for: spins, then says that it will sleep and lets the caller look once more, then
// sleeps. False when `deadline_ns` has passed (the caller has looked after that).
bool ep_pause(weft_ep_t *ep, struct ep_pause *pause, uint64_t deadline_ns);
// Ends the waiting; returns how long it took, in ns.
uint64_t ep_pause_end(weft_ep_t *ep, struct ep_pause *pause);
// Waits until *word >= value. False: the link went down first, or the deadline passed (then the link is marked silent).
bool ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                  uint64_t deadline_ns, const char *what);

// --- events ---
void ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
             uint64_t op, const char *detail);

static inline struct ep_doorbell *ep_own_bell(weft_ep_t *ep) {
  return ep->bell.memory;
}

#endif
