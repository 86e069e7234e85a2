// Throughput operations on GPUs: the data in device memory through which the control kernel, the kernels that move
// rows, and later kernels communicate. Host and device code include this header.
//
// *Control* is an operation of the low-latency kernels (cuda/dispatch, cuda/combine) without rows: it exchanges
// headers, epochs, marks and the lost ranks. Three other kernels handle the data: the *plan* of a dispatch (which token
// goes where), the *rows* of a dispatch, and the *answers* of a combine. They are launched in the caller's stream in
// this order: plan, control, rows; then answers, and the end of the operation. The first three run concurrently if they
// can (steps.cuh).
//
// All arrays and masks here are indexed by *seat* (device/device.h), not by a member's index in a view. A seat stays
// the same while its link exists, also when the view changes, so a route can be used across changes of view.
//
// Rows flow through *stream windows* (flow.h): one for each direction between two ranks.
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

// The destination of a selection.
struct cuda_way {
  // 24 bits: number of the token among the tokens for that rank; 8 bits: the seat. CUDA_WAY_NONE: no destination
  uint32_t row;
  // 20 bits: number of the selection among this rank's selections of that expert; 8 bits: the local expert
  uint32_t number;
};

// A route: the destinations of the tokens of a dispatch. The struct and its arrays are in device memory. A kept route
// has the same form; one dispatch fills it. T: tokens, at most flow.max_tokens; K: topk; S: rows received, at most
// max_rows.
struct cuda_route {
  // The sender's half, written by the plan. Control sends `tokens` and `counts` in its headers.
  struct cuda_way *ways; // [T][K]
  uint64_t *seats;       // [T] mask of the seats that get the token
  uint32_t *tokens;      // [DEVICE_SEATS] rows to each seat
  uint32_t *counts;      // [DEVICE_SEATS][E] selections of its experts
  uint32_t *sums; // [4]: T; valid selections; valid selections whose rank has no seat or is masked or lost; tokens with
                  // a valid selection
  // The receiver's half, written by the rows kernel. A received (source, token) pair has the number r: sources in the
  // order of ranks, then tokens. `order` lists the pairs of a source by channel, in the order of their arrival.
  uint32_t *came; // [DEVICE_SEATS][CUDA_CHANNELS] number of pairs that arrived
  int32_t *order; // [DEVICE_SEATS][CUDA_CHANNELS][flow.list]
  int32_t *token; // [S] token number at the source; only for pairs that arrived
  int32_t *place; // [S][K] row of the caller's buffer that holds the selection, or -1. RANK_MAJOR, whose row is that of
                  // the pair: number of the selection among the selections of its expert
  int32_t *expert; // [S][K] local expert, or -1
  float *weight;   // [S][K]
  uint32_t max_rows, topk;
};

// Which part of an operation's struct control has written: nothing yet; the part that senders of rows need, with the
// seats that may take part; all of it.
enum cuda_ready { CUDA_READY_NOTHING, CUDA_READY_SENDING, CUDA_READY_ALL };

// The result of control for one operation. The control kernel writes it, and the later kernels for rows and answers
// read it. There are two of them, for the two operations that may be open (struct cuda_open_op).
struct cuda_flow_op {
  uint64_t op; // its number
  // number of its next combine: op * EP_MAX_COMBINES, plus 1 for each combine that left the operation open
  uint64_t answer;
  // Seats that take part: this rank's own, and each seat whose header arrived and that does not skip the operation.
  // Rows and answers are sent to these seats and received from them.
  uint64_t seats;
  uint32_t self;               // this rank's own seat
  uint32_t count;              // entries of by_rank
  uint32_t rows[DEVICE_SEATS]; // rows that each seat sends to this rank, according to its header; 0 for seats that do
                               // not take part
  uint32_t pairs;    // sum of `rows`: (source, token) pairs. With a kept route: the sum in the dispatch that filled it
  uint32_t max_rows; // of the operation's route, which has no data of rows beyond it
  uint8_t by_rank[DEVICE_SEATS]; // seats of the view, ascending by rank
  uint8_t member[DEVICE_SEATS];  // index of each seat in the view
  int32_t rank[DEVICE_SEATS];    // rank of each seat
  char *in[DEVICE_SEATS];        // stream window that the seat writes, in our memory
  char *out[DEVICE_SEATS];       // stream window that we write, in the seat's memory; for our own seat the same as `in`
  const uint32_t *counts;        // [DEVICE_SEATS][E] selections of this rank's experts by each seat
  // Written by the kernels for rows and answers, 0 before: seats from which rows are missing, and seats from which
  // answers are missing. Each of these seats is also marked as lost.
  uint64_t lost, answers_lost;
  uint64_t absent;      // with a kept route: seats that send no rows, because they do not take part any more
  uint32_t needed_rows; // value of the receive's `rows` that holds all rows
  // Progress of the kernels of this dispatch, for later kernels that already run (`overlaps` in their arguments).
  uint64_t counted; // written by the plan, op + 1: `tokens`, `counts` and `sums` of the route are complete
  uint64_t planned; // low half: number of plan blocks that have written their `ways` and `seats`; high half: tokens of
                    // the plan
  uint64_t ready;   // written by control: enum cuda_ready
};

// This rank's zero-copy memory. All peers have the same size. 0 bytes: there is none.
struct cuda_zero_copy {
  const char *memory;
  uint64_t bytes;
  bool in_place; // the data that the call sends lies in it, and peers may read it there
};

// Memory in which a kernel sets all words to one value, for later kernels. Its size is a multiple of 16 bytes.
struct cuda_blank {
  void *memory; // NULL: none
  uint64_t bytes;
  uint32_t word;
};

// The arguments of the launches. `route` and `op` are in device memory, and so is all data that they point to.
struct cuda_plan_args {
  struct cuda_state *state; // the view is that of the next dispatch, counters.sent
  const struct cuda_route *route;
  struct cuda_flow flow;
  const void *topk_idx;
  const uint32_t *num_tokens_at; // number of tokens, at most num_tokens; NULL: num_tokens
  uint32_t num_tokens, topk;
  uint32_t *workspace;     // cuda_plan_workspace() bytes; only plans of this rank use them
  struct cuda_flow_op *op; // NULL: no later kernel overlaps with the plan
  uint64_t masked;         // seats that get no rows; if `replays`, those of the control instead
  uint32_t members;        // the most that a view has during this launch; 0: CUDA_MAX_MEMBERS
  bool narrow, replays;
  struct cuda_blank blank[2]; // memory of the route that the plan kernel also sets
};

struct cuda_rows_args {
  struct cuda_state *state;
  const struct cuda_route *route;
  struct cuda_flow_op *op;
  struct cuda_flow flow;
  struct cuda_row_shape shape;
  uint32_t topk;
  // most members of a view during this launch; 0: CUDA_MAX_MEMBERS. Determines the size of shared memory
  uint32_t members;
  uint32_t ranks;    // approximate number of ranks that take part; processors are divided by it
  bool kept;         // the kernel reads the route and does not fill it: rows are sent without routing
  uint32_t planners; // if `overlaps`: blocks of the plan that may still run; 0: none
  bool overlaps; // launched early, right after control: the kernel waits for the data that it needs, not for the end of
                 // control
  uint32_t halves; // DEVICE_SEND, DEVICE_RECV. The receiving half also copies this rank's own rows
  int layout;      // enum weft_ep_layout
  bool keep_places, zero_padding;
  uint32_t alignment; // PACKED
  uint32_t capacity;  // ranks that `range` has room for
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
  uint32_t max_rows;   // rows that the workspace was made for: a route may have more
};

struct cuda_answers_args {
  struct cuda_state *state;
  struct cuda_route route; // a copy of the route, by value: saves one load before the first use
  struct cuda_flow_op *op;
  struct cuda_flow flow;
  uint32_t topk;
  uint32_t ranks;  // as of rows
  uint32_t halves; // DEVICE_SEND: sends answers; DEVICE_RECV: adds them up
  bool rank_major, unweighted, renormalize, narrow;
  bool coded;    // answers between ranks are encoded as logfmt10
  uint32_t rows; // all rows of y
  const void *y;
  const void *topk_idx;      // of the dispatch, like topk_weights: for renormalize
  const float *topk_weights; // NULL: each weight is 1
  const float *row_weights;  // rank_major [S][K], else [rows]; or NULL
  const void *bias[2];
  void *out;
  float *out_weights;
  // [T] seats whose contribution to the token did not arrive, without the seats that did not get the token
  uint64_t *missing;
  struct cuda_zero_copy zero_copy;
};

#endif
