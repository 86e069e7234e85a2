// Operations of many tokens on GPUs: what control leaves in device memory for the kernels that move rows, and what
// those leave for later ones. For host and device alike.
//
// Control is an operation of the kernels for low latency, without rows (cuda/dispatch, cuda/combine): headers, epochs,
// marks, who is lost. Data moves apart from it, in three kernels: the *plan* of a dispatch (which token goes where),
// the *rows* of a dispatch, and the *answers* of a combine. They stand in the caller's stream: plan, control, rows;
// then answers, and the end of the operation. The first three run side by side where they can (steps.cuh).
//
// Everything here goes by *seat* (device/device.h), not by a member's index in a view: a seat stays what it is as long
// as its link stands, over changes of view, so that a route outlives them.
//
// Rows flow through *stream windows* (flow.h): one in each direction between two ranks.
#ifndef CUDA_THROUGHPUT_OP_H
#define CUDA_THROUGHPUT_OP_H

#include "cuda/throughput/flow.h"
#include "device/device.h"

enum {
  CUDA_MAX_TOPK = 16,
  CUDA_WAY_SEAT = 24,   // shifts of cuda_way.row
  CUDA_WAY_EXPERT = 20, // and of cuda_way.number
};
#define CUDA_WAY_NONE   0xFFFFFFFFu
#define CUDA_WAY_NUMBER 0xFFFFFu

// Where a selection goes.
struct cuda_way {
  uint32_t row;    // of the token among those to that rank, 24 bits; the seat, 8 bits. CUDA_WAY_NONE: nowhere
  uint32_t number; // of the selection among this rank's for that expert, 20 bits; the local expert, 8 bits
};

// A route: where tokens went. In device memory, as are its arrays. Kept routes are the same, filled once. T: tokens, at
// most flow.max_tokens; K: topk; S: rows received, at most max_rows.
struct cuda_route {
  // The sender's half, written by the plan. `tokens` and `counts` are what control sends in headers.
  struct cuda_way *ways; // [T][K]
  uint64_t *seats;       // [T] seats that the token goes to
  uint32_t *tokens;      // [DEVICE_SEATS] rows to each seat
  uint32_t *counts;      // [DEVICE_SEATS][E] selections of its experts
  uint32_t *sums; // [4] T; valid selections; of them, whose rank has no seat or is masked or lost; tokens with one
  // The receiver's half, written by the rows' kernel. A received (source, token) pair has the number r: sources in the
  // order of ranks, then tokens. `order` lists the pairs of a source by channel, as they come.
  uint32_t *came;  // [DEVICE_SEATS][CUDA_CHANNELS] pairs that came
  int32_t *order;  // [DEVICE_SEATS][CUDA_CHANNELS][flow.list]
  int32_t *token;  // [S] of the source; only of pairs that came
  int32_t *place;  // [S][K] row of the caller's buffer that holds the selection, else -1; RANK_MAJOR, where that is the
                   // pair's: number of the selection among those of its expert
  int32_t *expert; // [S][K] local expert, else -1
  float *weight;   // [S][K]
  uint32_t max_rows, topk;
};

// What of an operation's struct is there: nothing since control began; what whoever sends rows needs, with the seats
// that may take part; all of it.
enum cuda_ready { CUDA_READY_NOTHING, CUDA_READY_SENDING, CUDA_READY_ALL };

// What control says of an operation: written by its kernel, read by the kernels of rows behind it. Of operation n:
// op[n % CUDA_LIVE] of the engine's.
struct cuda_flow_op {
  uint64_t op;     // its number
  uint64_t answer; // number of its next combine: op * EP_MAX_COMBINES, and one more for each that has left it open
  // Seats that take part: this rank's, and those whose headers came and that do not pass over the operation. Rows go to
  // and come from these, and answers likewise.
  uint64_t seats;
  uint32_t self;                 // this rank's own seat
  uint32_t count;                // entries of by_rank
  uint32_t rows[DEVICE_SEATS];   // that each seat sends to this rank, by its header; 0 of those that do not take part
  uint32_t pairs;                // rows of all of them together: (source, token) pairs; by a kept route, of its filling
  uint32_t max_rows;             // of the operation's route: it knows nothing of those beyond
  uint8_t by_rank[DEVICE_SEATS]; // seats of the view, ascending by rank
  uint8_t member[DEVICE_SEATS];  // index of each seat in the view
  int32_t rank[DEVICE_SEATS];    // of each seat
  char *in[DEVICE_SEATS];        // stream window that the seat writes, in our memory
  char *out[DEVICE_SEATS];       // stream window that we write, in its memory; our own seat's: the same as `in`
  const uint32_t *counts;        // [DEVICE_SEATS][E] selections of this rank's experts by each seat
  // By the kernels of rows, and 0 before: seats whose rows did not all come, and whose answers did not; each is marked
  // as lost too.
  uint64_t lost, answers_lost;
  uint64_t absent;      // of a kept route: seats whose rows do not come, because they do not take part any more
  uint32_t needed_rows; // of the receive's `rows`, to hold all
  // How far the kernels of its dispatch are, for those behind them that run already (`overlaps` of their arguments).
  uint64_t counted; // by the plan, its number + 1: when `tokens`, `counts` and `sums` of the route are there
  uint64_t planned; // how many blocks of the plan have written their `ways` and `seats`; in the high half, its tokens
  uint64_t ready;   // by control, enum cuda_ready
};

// This rank's zero-copy memory, as large as that of each peer; 0 bytes: there is none.
struct cuda_zero_copy {
  const char *memory;
  uint64_t bytes;
  bool in_place; // what the call sends lies in it, and may be read there
};

// Memory of which a kernel makes all words alike, for those behind it: whole units of 16 bytes.
struct cuda_blank {
  void *memory; // NULL: none
  uint64_t bytes;
  uint32_t word;
};

// The launches. `route` and `op` are in device memory, and so is all that they point to.
struct cuda_plan_args {
  struct cuda_state *state; // the view is that of the next dispatch, counters.sent
  const struct cuda_route *route;
  struct cuda_flow flow;
  const void *topk_idx;
  const uint32_t *num_tokens_at; // NULL: num_tokens, else at most that
  uint32_t num_tokens, topk;
  uint32_t *workspace;     // cuda_plan_workspace() bytes, which only plans of this rank use
  struct cuda_flow_op *op; // NULL: nobody behind it overlaps
  uint64_t masked;         // seats that get no rows; not where it replays: then those of the control
  uint32_t members;        // the most that a view has during this launch; 0: CUDA_MAX_MEMBERS
  bool narrow, replays;
  struct cuda_blank blank[2]; // of the route, beside the plan
};

struct cuda_rows_args {
  struct cuda_state *state;
  const struct cuda_route *route;
  struct cuda_flow_op *op;
  struct cuda_flow flow;
  struct cuda_row_shape shape;
  uint32_t topk;
  uint32_t members;  // the most that a view has during this launch; 0: CUDA_MAX_MEMBERS. It sizes shared memory
  uint32_t ranks;    // about so many take part, by which processors are shared out
  bool kept;         // the route is read, not filled: rows travel without their routing
  uint32_t planners; // where it overlaps: blocks of the plan that may still run; 0: none
  bool overlaps;     // it was launched early, right behind control, and waits for what it needs, not for control's end
  uint32_t halves;   // DEVICE_SEND, DEVICE_RECV: whoever receives brings this rank's own rows as well
  int layout;        // enum weft_ep_layout
  bool keep_places, zero_padding;
  uint32_t alignment; // PACKED
  uint32_t capacity;  // of `range`: ranks
  // send
  const void *x, *scales;
  const float *topk_weights; // NULL with a kept route
  uint32_t row_stride, scale_row_stride, scale_block_stride;
  // receive; as in struct device_dispatch
  uint32_t rows;
  uint32_t out_scale_row_stride, out_scale_block_stride;
  uint64_t out_scale_expert_stride;
  void *out, *out_scales;
  int32_t *counts, *src_rank, *src_token;
  int64_t *range;
  int32_t *local_expert;
  float *weights;
  int32_t *expert_total, *slot, *expert_end;
  uint32_t *workspace; // cuda_rows_workspace() bytes
  uint32_t max_rows;   // for which that was made: a route may have more
};

struct cuda_answers_args {
  struct cuda_state *state;
  struct cuda_route route; // what it holds, by value: a load less before the first one that needs it
  struct cuda_flow_op *op;
  struct cuda_flow flow;
  uint32_t topk;
  uint32_t ranks;  // as of rows
  uint32_t halves; // DEVICE_SEND: answers; DEVICE_RECV: adds
  bool rank_major, unweighted, renormalize, narrow;
  bool coded;    // answers of other ranks travel as logfmt10
  uint32_t rows; // of y, all of them
  const void *y;
  const void *topk_idx;      // of the dispatch, and its weights: for renormalize
  const float *topk_weights; // NULL: each counts as 1
  const float *row_weights;  // [S][K] or NULL
  const void *bias[2];
  void *out;
  float *out_weights;
  uint64_t *missing; // [T] seats whose contribution to the token did not come, besides those it was not sent to
  struct cuda_zero_copy zero_copy;
};

#endif
