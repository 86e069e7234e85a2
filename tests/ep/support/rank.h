// A rank under test: opens, runs operations on pattern data, and lets the oracle judge every number. Ranks of a test
// are threads of one process that share a local store. Failures are kept, not asserted: cmocka's assertions belong to
// the main thread.
#ifndef TESTS_EP_RANK_H
#define TESTS_EP_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "ep/oracle/oracle.h"
#include "ep/oracle/pattern.h"

#define RANK_PREFIX "/weft/test/" // of keys, where a setup gives none

struct rank;

// Where an operation has come to.
enum rank_step { RANK_SENT, RANK_HEARD, RANK_ANSWERED, RANK_ENDED };

// How the ranks of a test are opened and operate. Zero: the small default.
struct setup {
  weft_store_t *store;
  const char *prefix; // RANK_PREFIX
  uint32_t capacity;  // 16
  uint32_t tokens;    // 16 per rank and operation
  bool no_tokens;     // 0 instead
  uint32_t hidden;    // 256
  uint32_t topk;      // 4
  uint32_t experts;   // 2 per rank
  uint32_t window;    // THROUGHPUT, with a window that has room for about so many rows; 0: LATENCY, or WEFT_TEST_WINDOW
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  bool cast_before; // fp8: x is dispatched as e4m3 with scales
  enum weft_ep_layout layout;
  bool late_weights;                                  // weights with the combine
  bool apart;                                         // the four halves by calls of their own
  void (*at)(struct rank *rank, enum rank_step step); // called between them, with `apart`
  bool in_place;                                      // rows are read where they came
  bool placed;                                        // RANK_MAJOR: answers are written where they leave
  bool uneven;                                        // tokens per rank vary
  bool renormalize;
  bool vary;     // each operation has another type, top-k, strides and so on, of those that the group has room for
  float drop;    // share of -1 among the top-k
  bool masks;    // each rank masks drawn ranks in each operation
  uint64_t seed; // of the pattern and the masks; 12,345
  uint32_t timeout_ms;   // of an operation; 20,000
  uint32_t lease_s;      // the library's default
  uint32_t wait_limit_s; // of open and activate; 60
  // Ranks are killed while others join: who adopts a joiner's view in the midst of an operation, because a death had it
  // begin later, sends the joiner nothing in that one (docs/design/membership.md). So its first is not judged.
  bool deaths;
};

struct rank {
  struct setup setup;
  struct pattern pattern;
  weft_ep_t *ep;
  int32_t index;
  char error[1024]; // "" while all is well

  enum weft_ep_dtype opened_dtype; // with vary: what the group was opened for
  enum weft_ep_combine_dtype opened_combine;
  uint32_t opened_topk;
  enum weft_ep_combine_dtype answers_with; // in the place of what the group was opened for; 0: not
  uint32_t combines;                       // of the operation at hand
  bool left_open;                          // it is left open, for the one two later to end

  // The last operation.
  struct weft_ep_info info;
  struct weft_ep_result result;
  int32_t lost[16];
  struct weft_ep_missing missing[4096];
  uint64_t checked; // operations judged, in all
  uint64_t epoch;   // its view
  int32_t view[16]; // the ranks of the view that it began in, as far as there is room
  uint32_t num_view;
  uint64_t view_epoch;
  bool had_losses; // in any operation so far
  bool unjudged;   // operations are run, not judged: this rank sends rubbish

  uint32_t rows;
  uint16_t *x, *out, *y; // x with cast_before: e4m3
  float *x_scales;
  int64_t *topk_idx;
  float *weights;
  void *received;
  float *scales, *recv_weights;
  int32_t *counts, *src_rank, *src_token, *local_expert;
  int64_t *range;
  uint8_t *x_apart;         // with vary: x with room between the rows,
  uint32_t *x_scales_apart; // its scales, block by block,
  int32_t *topk_idx32;
  uint32_t num_tokens; // T, where num_tokens_at reads it
  uint16_t *first_out; // of the first combine
  struct weft_ep_told told;
  uint64_t lost_bits[4];
  const void **rows_at; // with in_place
  void **answers_at;    // with placed
  struct weft_ep_recv_args recv;
};

// Opens rank `index` (-1: any). `founders` may be NULL. False: rank->error says why.
bool rank_open(struct rank *rank, const struct setup *setup, int32_t index, const int32_t *founders,
               uint32_t num_founders);
void rank_close(struct rank *rank);
// weft_ep_activate with the test's deadline.
bool rank_activate(struct rank *rank);

// Runs one operation over pattern data and judges it. Of ranks that it says were lost nothing may have come, and of all
// others everything. One that began a view, with some ranks perhaps an operation late because another had died, is
// judged only while there have been no losses: else nobody can tell by which view those filled their data. False:
// rank->error says what was wrong.
bool rank_operate(struct rank *rank);
// Judges operation `op`, which ran in a view of these ranks; rank_operate does.
bool rank_judge(struct rank *rank, uint64_t op, const int32_t *ranks, uint32_t count, enum pattern_kind kind);
// Whether `source` masks `rank` in that operation: in half of them nobody, else a quarter of all.
bool rank_masks(const struct setup *setup, uint64_t op, int32_t source, int32_t rank);
bool rank_operate_n(struct rank *rank, uint32_t count);

// Whether the view of the next operation is exactly these ranks (ascending).
bool rank_sees(struct rank *rank, const int32_t *ranks, uint32_t count);
// Operates until the view of the next operation is that; false after too long, or at an error.
bool rank_operate_until(struct rank *rank, const int32_t *ranks, uint32_t count);

// Leaves, and operates until the others have let it go.
bool rank_leave(struct rank *rank);
// Operates until all have called this: their last operation is the same one.
bool rank_end_together(struct rank *rank);

// Notes a failure with its place; returns false.
bool rank_fail(struct rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Runs `body` for each of `count` ranks in a thread of its own, with ranks[i] opened as `indices[i]` among `founders`
// and active; closes them, and asserts that none failed.
typedef void (*rank_body)(struct rank *rank, void *arg);
void ranks_run(const struct setup *setup, const int32_t *founders, uint32_t count, rank_body body, void *arg);

#endif
