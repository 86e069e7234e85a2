// One rank's operations: made from the pattern, sent, answered by the experts, timed, and judged when asked.
//
// What an operation carries is a function of the seed, the operation's number and the view it began in, so any rank can
// judge any operation that it took part in, whatever the others are doing. One owner thread.
#ifndef RUN_TRAFFIC_TRAFFIC_H
#define RUN_TRAFFIC_TRAFFIC_H

#include <stdbool.h>

#include <weft/ep.h>

#include "ep/oracle/pattern.h"
#include "run/common/config.h"
#include "run/traffic/buffer.h"

struct traffic;

// How an operation goes where it is to.
enum traffic_way {
  TRAFFIC_ROUTED,        // by its own top-k
  TRAFFIC_FILLING,       // likewise, and a route is filled with that
  TRAFFIC_KEPT,          // by the route that was filled last, with the rows of the operation that filled it
  TRAFFIC_COMBINE_ROUTE, // a combine alone, by that route, of the rows that were combined last
};

// What an operation asks for beside the plain dispatch and combine. All ranks of the operation ask for the same.
struct traffic_form {
  enum traffic_way way;
  uint32_t biases;   // added in the combine, 0 to 2
  bool unweighted;   // rows are summed as they are; not for RANK_MAJOR
  bool weights_back; // row weights go back with the rows; RANK_MAJOR
  bool zero_padding; // between packed parts
};

// What one operation was and did.
struct traffic_op {
  uint64_t op;
  uint64_t input_op;          // whose rows and top-k it has: its own, or the one that filled its route
  const int32_t *input_ranks; // the view in which that one began; until the next operation
  uint32_t num_input_ranks;
  enum pattern_kind kind;      // of that one
  uint64_t begin_epoch, epoch; // views in which it began and ended
  // It began and ended in the view in which the operation before ended: so every rank began it in that view, also when
  // a rank was lost meanwhile and the others learned of it one after the other.
  bool settled;
  const int32_t *ranks; // the view in which it began, ascending; until the next operation
  uint32_t num_ranks;
  const int32_t *lost; // ranks whose tokens did not come; until the next operation
  uint32_t num_lost;
  uint64_t mark;
  uint64_t begin_ns, combine_begin_ns; // of the halves, by the host's clock
  uint64_t dispatch_ns, combine_ns;    // durations of send + receive, by the host's clock or the GPU's
  // Nothing that takes different ranks a different time stood right before a half: the durations tell of the operation.
  // False on a GPU where input was copied there, or the experts answered on the host.
  bool in_step;
  uint32_t num_silent;                                                     // ranks without contributions
  uint64_t num_missing;                                                    // selections without contribution
  uint64_t dispatch_logical, dispatch_wire, combine_logical, combine_wire; // bytes
};

// The zero-copy memory that a rank is to be opened with, in bytes: the rows that its experts answer lie there, where
// peers may read them.
uint64_t traffic_zero_copy_bytes(const struct run_config *config, uint32_t max_ranks);

// `home`: where `ep` has its memory. `max_ranks`: the most that a view will have. All three stay the caller's and
// outlive the traffic.
int traffic_open(struct traffic **traffic, weft_ep_t *ep, const struct run_config *config, struct buffer_home *home,
                 uint32_t capacity, uint32_t max_ranks);
void traffic_close(struct traffic *traffic); // NULL is legal

// Opens a traffic with buffers of its own for another configuration, whose sizes are those of `other` and which may
// differ in the layout and the alignment, for operations of any form. `other` lends its rows and outlives it.
int traffic_open_variant(struct traffic **traffic, struct traffic *other, const struct run_config *config);

// The form of the operations from the next one on; only for a traffic of traffic_open_variant().
void traffic_set_form(struct traffic *traffic, const struct traffic_form *form);

// Gives the memory of the rows back until the next operation: for a traffic that is kept for its route alone.
void traffic_release_rows(struct traffic *traffic);

// Whether a call refuses the route that was filled last, as it has to after a rank has joined: 0, or DATA. Begins no
// operation.
int traffic_check_refused(struct traffic *traffic);

// Does what is slow the first time, so that the first operation is like any: touches the memory that one uses. For a
// rank that joins, before it offers itself: the others would wait for it.
int traffic_rehearse(struct traffic *traffic);

// Kind of the next operation.
enum pattern_kind traffic_next_kind(const struct traffic *traffic);

// Runs one operation. `poison`: the buffers that it writes are filled with rubbish before. Errors are those of
// weft/ep.h; lost ranks are none. *op is complete on success.
int traffic_run(struct traffic *traffic, bool poison, struct traffic_op *op);

// Begins the next operation and sends its dispatch, no more: for a rank that dies with it. On a GPU it is on its way
// when this returns.
int traffic_send_only(struct traffic *traffic);

// Rows that the dispatch under way has for other ranks: one for each token and rank.
uint32_t traffic_remote_rows(const struct traffic *traffic);

// Adds the rows that the dispatch of the last operation had for each rank to rows[capacity], by rank: one for each
// token and rank, those for this rank itself too.
void traffic_add_rows(const struct traffic *traffic, uint64_t *rows);

// Judges the last operation: dispatch with `op->lost`, combine without the contributions of `missing`. DATA says what
// is wrong. *worst_diff grows to the largest difference measure seen.
int traffic_judge(struct traffic *traffic, const struct traffic_op *op, const int32_t *missing, uint32_t num_missing,
                  double *worst_diff);

// A number (FNV-1a) that stands for every bit that this rank combined in the last operation.
int traffic_digest(struct traffic *traffic, uint64_t *digest);

#endif
