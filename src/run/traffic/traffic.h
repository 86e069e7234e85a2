// One rank's operations: made from the pattern, sent, answered by the experts, timed, and judged when asked.
//
// The data of an operation is a function of the seed, the operation's number and the view in which it began. So any
// rank can judge any operation in which it took part, independently of the others. One owner thread.
#ifndef RUN_TRAFFIC_TRAFFIC_H
#define RUN_TRAFFIC_TRAFFIC_H

#include <stdbool.h>

#include <weft/ep.h>

#include "ep/oracle/pattern.h"
#include "run/common/config.h"
#include "run/traffic/buffer.h"

struct traffic;

// How an operation finds the destinations of its tokens.
enum traffic_way {
  TRAFFIC_ROUTED,        // from its own top-k
  TRAFFIC_FILLING,       // from its own top-k, which also fills a route
  TRAFFIC_KEPT,          // from the route filled last, with the rows of the operation that filled it
  TRAFFIC_COMBINE_ROUTE, // only a combine, with that route, of the rows that were combined last
};

// The options of an operation in addition to the plain dispatch and combine. All ranks of the operation use the same
// options.
struct traffic_form {
  enum traffic_way way;
  uint32_t biases;   // added in the combine, 0 to 2
  bool unweighted;   // rows are added without weights; not for RANK_MAJOR
  bool weights_back; // row weights are sent back with the rows; RANK_MAJOR, PACKED
  bool zero_padding; // between packed parts
};

// The description and results of one operation.
struct traffic_op {
  uint64_t op;
  uint64_t input_op;          // operation whose rows and top-k it uses: itself, or the one that filled its route
  const int32_t *input_ranks; // the view in which input_op began; valid until the next operation
  uint32_t num_input_ranks;
  enum pattern_kind kind;      // kind of input_op
  uint64_t begin_epoch, epoch; // views in which it began and ended
  // The operation began and ended in the view in which the previous one ended. So every rank began it in that view,
  // even if a rank was lost meanwhile and the others noticed it at different times.
  bool settled;
  const int32_t *ranks; // the view in which it began, ascending; until the next operation
  uint32_t num_ranks;
  const int32_t *lost; // ranks whose tokens did not arrive; valid until the next operation
  uint32_t num_lost;
  uint64_t mark;
  uint64_t begin_ns, combine_begin_ns; // of the halves, by the host's clock
  uint64_t dispatch_ns, combine_ns;    // durations of send + receive, by the host's clock or the GPU's
  // No work whose time differs between ranks ran directly before a half, so the durations are those of the operation.
  // False on a GPU if input was copied there, or if the experts answered on the host.
  bool in_step;
  uint32_t num_silent;                                                     // ranks without contributions
  uint64_t num_missing;                                                    // selections without contribution
  uint64_t dispatch_logical, dispatch_wire, combine_logical, combine_wire; // bytes
};

// The bytes of zero-copy memory with which a rank should be opened: the rows of its experts' answers lie there, where
// peers may read them.
uint64_t traffic_zero_copy_bytes(const struct run_config *config, uint32_t max_ranks);

// `home`: the place of the memory of `ep`. `max_ranks`: most ranks of a view. The caller keeps the objects, which must
// outlive the traffic.
int traffic_open(struct traffic **traffic, weft_ep_t *ep, const struct run_config *config, struct buffer_home *home,
                 uint32_t capacity, uint32_t max_ranks);
void traffic_close(struct traffic *traffic); // NULL is legal

// Opens a traffic for operations of any form, with its own buffers and another configuration. The configuration has the
// sizes of `other`, but may have another layout and alignment. The traffic uses the rows of `other`, which must outlive
// it.
int traffic_open_variant(struct traffic **traffic, struct traffic *other, const struct run_config *config);

// The form of the operations from the next one on; only for a traffic of traffic_open_variant().
void traffic_set_form(struct traffic *traffic, const struct traffic_form *form);

// Releases the memory of the rows until the next operation: for a traffic that is kept only for its route.
void traffic_release_rows(struct traffic *traffic);

// Checks that a call refuses the route that was filled last, as it must after a rank has joined. DATA: it does not. No
// operation begins.
int traffic_check_refused(struct traffic *traffic);

// Does the work that is slow at the first time, so that the first operation is as fast as others: touches the memory
// that an operation uses. A joining rank calls it before it offers itself, since the others would wait for it.
int traffic_rehearse(struct traffic *traffic);

// Kind of the next operation.
enum pattern_kind traffic_next_kind(const struct traffic *traffic);

// Runs one operation. `poison`: the buffers that it writes are first filled with wrong values. Errors are those of
// weft/ep.h; lost ranks are no error. *op is complete on success.
int traffic_run(struct traffic *traffic, bool poison, struct traffic_op *op);

// Begins the next operation and only sends its dispatch: for a rank that dies with it. On a GPU the dispatch may still
// run on return.
int traffic_send_only(struct traffic *traffic);

// The number of rows that the current dispatch has for other ranks: one for each token and rank.
uint32_t traffic_remote_rows(const struct traffic *traffic);

// Adds the rows that the dispatch of the last operation had for each rank to rows[capacity], by rank: one for each
// token and rank, those for this rank itself too.
void traffic_add_rows(const struct traffic *traffic, uint64_t *rows);

// Judges the last operation: dispatch with `op->lost`, combine without the contributions of `missing`. DATA says what
// is wrong. *worst_diff grows to the largest difference measure seen.
int traffic_judge(struct traffic *traffic, const struct traffic_op *op, const int32_t *missing, uint32_t num_missing,
                  double *worst_diff);

// A hash (FNV-1a) of all bits that this rank combined in the last operation.
int traffic_digest(struct traffic *traffic, uint64_t *digest);

#endif
