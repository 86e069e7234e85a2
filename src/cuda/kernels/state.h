// What a rank's kernels share, in device memory, so that a captured graph replays across operations and views.
//
// `control`, `seats` and `published` are written by the host, by copies that a kernel may meet at any moment; the rest
// by kernels, which run one after the other. A *live* view is one that operations run in: a published one, with the
// operation from which on each member counts.
#ifndef CUDA_KERNELS_STATE_H
#define CUDA_KERNELS_STATE_H

#include "cuda/kernels/layout.h"
#include "device/device.h"

#define CUDA_LONGEST_NS (UINT64_C(1) << 44) // five hours: of a time limit, as kernels count in 32 bits

enum {
  CUDA_PUBLISHED = 8, // views that the host may be ahead
  CUDA_LIVE = 4,      // at most three differ among the operations that are open or decided, one is being made
  CUDA_RECORDS = 4,
  CUDA_ROUNDS = 4, // in which the headers of an operation can be received again
};
#define CUDA_NOT_A_MEMBER 0xFFFFFFFFu // not beside the others: it would make them unsigned too

struct cuda_member {
  char *in;  // area that it writes, in our memory
  char *out; // area that we write, in its memory; our own rank's: the same as `in`
  int32_t rank;
  uint32_t seat;  // DEVICE_NO_SEAT: lost before it came; `in` and `out` are NULL
  uint64_t since; // first operation that counts it
};

struct cuda_view {
  uint64_t epoch;       // 0: none, or the host is at work on it
  uint32_t count, self; // self: CUDA_NOT_A_MEMBER when this rank is not in it; then no rank is counted, and count is 0
  struct cuda_divisor by_count;
  uint64_t seats; // of all members that have one
  uint64_t pad[12];
  struct cuda_member members[CUDA_MAX_MEMBERS]; // ascending by rank
};

// By the host, as a whole.
struct cuda_control {
  uint64_t ready, mark, gone, masked; // struct device_control
  uint64_t timeout_ns;                // CUDA_LONGEST_NS at most
  uint64_t strict;                    // see layout.h
  uint64_t pad[10];
};

// What dispatch leaves for combine and for empty.cuh: operation n has handle[n % CUDA_LIVE]. Bits of members are by
// seat.
struct cuda_handle {
  int32_t *place;     // [R][M][K]: of each member's rows: row of the caller's buffer that holds the selection, or -1
  float *weight;      // [R][M][K]
  uint32_t *token;    // [R][M]: the token of each row, in its source's numbers
  uint64_t *members;  // [M]: seats that have a row of this rank's token
  uint64_t *unsent;   // [M]: members (by index) that were to have one, and are masked or lost
  uint64_t *missing;  // [M]: members (by index) whose contribution to the token did not come
  uint64_t late;      // members (by index) whose weights come with the combine
  uint32_t tokens;    // of this rank, that may have answers
  uint32_t sent;      // of this rank
  uint64_t passed;    // seats that pass over the operation: they read nothing of it
  uint32_t quantized; // whether its rows are fp8
  uint32_t kept;      // combines that have left it open
  uint64_t pad[2];
  uint32_t rows[CUDA_MAX_MEMBERS]; // of each member; 0: its header did not arrive
};

// The words that every kernel reads first, in one line.
struct cuda_counters {
  uint64_t sent, received, answered, combined; // operations so far: the number of the next one of each kind
  uint64_t lost;                               // seats that did not come in time; changes while kernels run
  uint64_t given_up;                           // seats that the next operation's receivers do not wait for
  uint64_t masked;                             // seats that get no rows, where the launch does not say
  uint64_t taken_dispatch, taken_combine; // all members whose headers arrived have taken the operations before these
  uint8_t live[CUDA_LIVE];                // the live view of operation n: live[n % CUDA_LIVE]
  uint32_t newest;                        // live view that was made last
  uint64_t activations;                   // reported to the host
  uint64_t emptied_rows, emptied_answers; // operations before these have left nothing in our areas
  uint64_t pad[3];
};

// What the blocks of a kernel share: how they agree on whose headers arrived (agree.cuh), and which block works on
// what. For operation n: votes[n % CUDA_LIVE].
struct cuda_votes {
  uint32_t all;                  // blocks that have all headers, none of them of a newer view
  uint32_t verdict[CUDA_ROUNDS]; // the lead block's decision about a newer view, 0: none yet; see agree.cuh
  uint32_t answers; // packets of answers that warps have taken, beyond two each; see combine/reduce_rows.cuh
  uint32_t placed;  // blocks that have placed their rows, where somebody is notified: dispatch/notify.cuh
  uint32_t pad[25];
  struct {
    uint32_t received, given_up; // other blocks, of each member
  } member[CUDA_ROUNDS][CUDA_MAX_MEMBERS];
};

// Heartbeats of ranks that wait, see wait.cuh. Times are ticks.
struct cuda_heartbeats {
  uint64_t own;                    // this rank's own seat, as a bit
  uint64_t awaited;                // seats that threads have waited for since the last round began
  uint64_t awaiting;               // in it: those that this rank waits for
  uint32_t round, before;          // when it began, and the one before it
  uint32_t step, pad;              // of it, see step_of_round(); 0: it is over
  uint32_t last[DEVICE_SEATS];     // the low half of cuda_area_head.waiting of each peer, as read last
  uint32_t received[DEVICE_SEATS]; // the peer has sent a heartbeat after this time
};

struct cuda_state {
  struct cuda_counters counters;
  struct cuda_control control;
  uint32_t arrived; // blocks that have read the counters, in the kernel that runs
  uint32_t pad[31];
  struct cuda_view live[CUDA_LIVE];
  struct cuda_view published[CUDA_PUBLISHED]; // of epoch e: any; free when its epoch is 0
  uint64_t start_sent[DEVICE_SEATS];          // the first operation, + 1, that was published to a peer; 0: none
  uint64_t zero_copy[DEVICE_SEATS];           // by the host: a peer's zero-copy memory, mapped here; 0: none
  struct cuda_handle handle[CUDA_LIVE];
  struct cuda_votes votes[CUDA_LIVE];
  struct device_record record[CUDA_RECORDS]; // of operation n: record[n % CUDA_RECORDS]
  struct device_progress progress;
  struct cuda_forms forms;
  struct device_report *report; // the host's
  struct cuda_heartbeats heartbeats;
};

CUDA_STATIC_ASSERT(sizeof(struct cuda_counters) == CUDA_LINE, "the counters are one line");
CUDA_STATIC_ASSERT(sizeof(struct cuda_control) == CUDA_LINE, "the control words are one line");
CUDA_STATIC_ASSERT(offsetof(struct cuda_state, votes) % CUDA_LINE == 0, "what blocks add to has lines of its own");

#endif
