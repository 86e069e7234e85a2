// The state that a rank's kernels share. It is in device memory, so that a captured graph can be replayed across
// operations and views.
//
// The host writes `control`, `published` and `zero_copy`, and clears `start_sent` of a seat that a new link takes. Its
// copies may run at any time beside a kernel. Everything else is written by kernels, which run one after the other. A
// *live* view is a view in which operations run: a published view, with the first operation in which each member
// counts.
#ifndef CUDA_KERNELS_STATE_H
#define CUDA_KERNELS_STATE_H

#include "cuda/kernels/layout.h"
#include "device/device.h"

#define CUDA_LONGEST_NS (UINT64_C(1) << 44) // longest time limit, five hours: kernels count in 32 bits

enum {
  CUDA_PUBLISHED = 8, // views that the host may publish in advance
  CUDA_LIVE = 4,      // at most three views are in use by operations that are open or decided, and one is being made
  CUDA_RECORDS = 4,
  CUDA_ROUNDS = 4, // how often the headers of an operation can be received again
};
#define CUDA_NOT_A_MEMBER 0xFFFFFFFFu // not in the enum: it would make the other constants unsigned, too

struct cuda_member {
  char *in;  // area that it writes, in our memory
  char *out; // area that we write, in the member's memory; for our own rank the same as `in`
  int32_t rank;
  uint32_t seat;  // DEVICE_NO_SEAT: the member was lost before there was a link; `in` and `out` are NULL
  uint64_t since; // first operation in which the member counts
};

struct cuda_view {
  uint64_t epoch; // 0: no view, or the host is writing it
  // self: CUDA_NOT_A_MEMBER if this rank is not in the view; then no member is used, and count is 0
  uint32_t count, self;
  struct cuda_divisor by_count;
  uint64_t seats; // seats of all members that have one
  uint64_t pad[12];
  struct cuda_member members[CUDA_MAX_MEMBERS]; // ascending by rank
};

// Written by the host, as a whole.
struct cuda_control {
  uint64_t ready, mark, gone, masked; // struct device_control
  uint64_t timeout_ns;                // CUDA_LONGEST_NS at most
  uint64_t strict;                    // see layout.h
  uint64_t operations_per_step;       // at least 1
  uint64_t pad[9];
};

// The data that a dispatch passes to its combine and to empty.cuh: operation n has handle[n % CUDA_LIVE]. Masks have
// bits of seats, except where a comment says "by index".
struct cuda_handle {
  int32_t *place;     // [R][M][K]: for each member's rows: row of the caller's buffer that holds the selection, or -1
  float *weight;      // [R][M][K]
  uint32_t *token;    // [R][M]: the token of each row, by its number at the source
  uint64_t *members;  // [M]: seats that have a row of this rank's token
  uint64_t *unsent;   // [M]: members (by index) that should have a row of the token, but are masked or lost
  uint64_t *missing;  // [M]: members (by index) whose contribution to the token did not arrive
  uint64_t late;      // members (by index) whose weights follow with the combine
  uint32_t tokens;    // tokens of this rank that may get answers
  uint32_t sent;      // tokens of this rank in the dispatch
  uint64_t passed;    // seats that skip the operation: they read nothing of it
  uint32_t quantized; // whether the rows are fp8
  uint32_t kept;      // combines that have left the operation open
  uint64_t pad[2];
  uint32_t rows[CUDA_MAX_MEMBERS]; // rows of each member; 0: its header did not arrive
};

// The words that every kernel reads first, in one line.
struct cuda_counters {
  uint64_t sent, received, answered, combined; // number of operations so far = number of the next one, for each kind
  uint64_t lost;                               // seats whose data did not arrive in time; changes while kernels run
  uint64_t given_up;                           // seats that the next operation's receivers do not wait for
  uint64_t masked;                             // seats that get no rows, if the launch does not say which
  // all members whose headers arrived have taken the operations before these numbers
  uint64_t taken_dispatch, taken_combine;
  uint8_t live[CUDA_LIVE];                // the live view of operation n: live[n % CUDA_LIVE]
  uint32_t newest;                        // index of the newest live view
  uint64_t activations;                   // reported to the host
  uint64_t emptied_rows, emptied_answers; // operations before these numbers have left nothing in our areas
  uint64_t pad[3];
};

// What the blocks of a kernel share: how they agree on whose headers arrived (agree.cuh), and which block works on
// what. For operation n: votes[n % CUDA_LIVE].
struct cuda_votes {
  uint32_t all;                  // blocks that have all headers, of which none is of a newer view
  uint32_t verdict[CUDA_ROUNDS]; // the lead block's decision about a newer view, 0: none yet; see agree.cuh
  // packets of answers that warps have claimed, beyond two for each warp; see combine/reduce_rows.cuh
  uint32_t answers;
  uint32_t placed; // blocks that have placed their rows, if there is a notification: dispatch/notify.cuh
  uint32_t pad[25];
  struct {
    uint32_t received, given_up; // for each member: other blocks that have received its header, or have given it up
  } member[CUDA_ROUNDS][CUDA_MAX_MEMBERS];
};

// Heartbeats of ranks that wait, see wait.cuh. Times are ticks.
struct cuda_heartbeats {
  uint64_t own;                    // this rank's own seat, as a bit
  uint64_t awaited;                // seats for which threads have waited since the last round began
  uint64_t awaiting;               // seats for which this rank waits in the current round
  uint32_t round, before;          // begin of the current round, and of the one before
  uint32_t step, pad;              // step: of the round, see step_of_round(); 0: the round is over
  uint32_t last[DEVICE_SEATS];     // the low half of each peer's cuda_area_head.waiting, as last read
  uint32_t received[DEVICE_SEATS]; // the peer has sent a heartbeat after this time
};

struct cuda_state {
  struct cuda_counters counters;
  struct cuda_control control;
  uint32_t arrived; // blocks of the running kernel that have read the counters
  uint32_t pad[31];
  struct cuda_view live[CUDA_LIVE];
  struct cuda_view published[CUDA_PUBLISHED]; // a view may be in any entry; an entry is free if its epoch is 0
  uint64_t start_sent[DEVICE_SEATS];          // the first operation, + 1, that was published to a peer; 0: none
  // written by the host: address of a peer's zero-copy memory, as mapped here; 0: none
  uint64_t zero_copy[DEVICE_SEATS];
  struct cuda_handle handle[CUDA_LIVE];
  struct cuda_votes votes[CUDA_LIVE];
  struct device_record record[CUDA_RECORDS]; // of operation n: record[n % CUDA_RECORDS]
  struct device_progress progress;
  struct cuda_forms forms;
  struct device_report *report; // in host memory
  struct cuda_heartbeats heartbeats;
};

CUDA_STATIC_ASSERT(sizeof(struct cuda_counters) == CUDA_LINE, "the counters are one line");
CUDA_STATIC_ASSERT(sizeof(struct cuda_control) == CUDA_LINE, "the control words are one line");
CUDA_STATIC_ASSERT(offsetof(struct cuda_state, votes) % CUDA_LINE == 0, "what blocks add to has lines of its own");

#endif
