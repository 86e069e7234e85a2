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

#define RANK_PREFIX "/weft/test/" // prefix of keys, unless a setup gives one

struct rank;

// The step that an operation has reached.
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
  uint32_t window;    // THROUGHPUT, with a window for about so many rows; 0: LATENCY, or WEFT_TEST_WINDOW
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  bool cast_before; // fp8: x is dispatched as e4m3 with scales
  enum weft_ep_layout layout;
  bool late_weights;                                  // weights with the combine
  bool apart;                                         // the four halves are separate calls
  void (*at)(struct rank *rank, enum rank_step step); // called between them, with `apart`
  bool in_place;                                      // rows are read where they arrive
  bool placed;                                        // RANK_MAJOR: answers are written in place
  bool uneven;                                        // tokens per rank vary
  bool renormalize;
  bool vary;             // each operation has another type, top-k, strides and so on, for which the group has room
  float drop;            // share of -1 among the top-k
  bool masks;            // in each operation each rank masks some ranks, drawn at random
  uint64_t seed;         // of the pattern and the masks; 12,345
  uint32_t timeout_ms;   // of an operation; 20,000
  uint32_t lease_s;      // the library's default
  uint32_t wait_limit_s; // of open and activate; 60
  // Ranks are killed while others join. If a death makes a joiner begin later, a rank that adopts the joiner's view
  // during an operation sends the joiner nothing in that operation (docs/design/membership.md). So the joiner's first
  // operation is not judged.
  bool deaths;
};

struct rank {
  struct setup setup;
  struct pattern pattern;
  weft_ep_t *ep;
  int32_t index;
  char error[1024]; // "" without an error

  enum weft_ep_dtype opened_dtype; // with vary: what the group was opened for
  enum weft_ep_combine_dtype opened_combine;
  uint32_t opened_topk;
  enum weft_ep_combine_dtype answers_with; // instead of the type that the group was opened for; 0: that type
  uint32_t combines;                       // of the current operation
  bool left_open;                          // it stays open; the operation two later ends it

  // The last operation.
  struct weft_ep_info info;
  struct weft_ep_result result;
  int32_t lost[16];
  struct weft_ep_missing missing[4096];
  uint64_t checked; // operations judged, in all
  uint64_t epoch;   // its view's epoch
  int32_t view[16]; // the ranks of the view in which it began, as far as there is room
  uint32_t num_view;
  uint64_t view_epoch;
  bool had_losses; // in any operation so far
  bool unjudged;   // operations are run but not judged: this rank sends wrong data
  uint32_t step;   // operations of a step, within which the view does not change

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
  struct weft_ep_recv_status status;
  uint64_t lost_bits[4];
  const void **rows_at; // with in_place
  void **answers_at;    // with placed
  struct weft_ep_recv_args recv;
};

// Opens rank `index` (-1: any). `founders` may be NULL. False: rank->error gives the reason.
bool rank_open(struct rank *rank, const struct setup *setup, int32_t index, const int32_t *founders,
               uint32_t num_founders);
void rank_close(struct rank *rank);
// Calls weft_ep_activate with the test's deadline.
bool rank_activate(struct rank *rank);

// Runs one operation over pattern data and judges it. From ranks that it reports as lost nothing may have arrived, and
// from all others everything. An operation that began a view, with some ranks perhaps an operation late because another
// rank had died, is judged only while there have been no losses: otherwise it is unknown by which view those ranks
// filled their data. False: rank->error gives the reason.
bool rank_operate(struct rank *rank);
// Judges operation `op`, which ran in a view of these ranks; rank_operate() calls it.
bool rank_judge(struct rank *rank, uint64_t op, const int32_t *ranks, uint32_t count, enum pattern_kind kind);
// Whether `source` masks `rank` in that operation: in half of the operations it masks no rank, else a quarter of all.
bool rank_masks(const struct setup *setup, uint64_t op, int32_t source, int32_t rank);
bool rank_operate_n(struct rank *rank, uint32_t count);

// Whether the view of the next operation is exactly these ranks (ascending).
bool rank_sees(struct rank *rank, const int32_t *ranks, uint32_t count);
// Runs operations until the view of the next one is exactly these ranks. False: this takes too long, or an error.
bool rank_operate_until(struct rank *rank, const int32_t *ranks, uint32_t count);

// Leaves, and runs operations until the others have removed it.
bool rank_leave(struct rank *rank);
// Runs operations until all ranks have called this, so that all end with the same operation.
bool rank_end_together(struct rank *rank);

// Records a failure with its place; returns false.
bool rank_fail(struct rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Runs `body` for each of `count` ranks in a separate thread, with ranks[i] opened as `indices[i]` among `founders` and
// active. Then closes the ranks, and fails the test if one of them failed.
typedef void (*rank_body)(struct rank *rank, void *arg);
void ranks_run(const struct setup *setup, const int32_t *founders, uint32_t count, rank_body body, void *arg);

#endif
