// The results of one rank in one phase, which it reports to the lead through the store.
#ifndef RUN_COMMON_PHASE_RECORD_H
#define RUN_COMMON_PHASE_RECORD_H

#include <stdbool.h>

#include <jansson.h>

#include "measure/results.h"

enum { RUN_BOOT_SIZE = 64, RUN_DETAIL_SIZE = 128 };

// A view that took effect with operation `op`. This rank began that operation at `time_ns`.
struct run_view {
  uint64_t epoch, op, time_ns;
  uint32_t count;
  int32_t *ranks;
};

// A peer that this rank found lost.
struct run_loss {
  int32_t rank;
  uint64_t time_ns;
  char detail[RUN_DETAIL_SIZE];
};

// The longer half (dispatch or combine) of an operation that a survivor ran while views changed, by its host's clock.
struct run_stall {
  uint64_t op, begin_ns, ns;
};

// The times of a joiner, by its host's clock. Until it offered itself it only opened what it needs. From the time at
// which its first operation was fixed to its dispatch, and from the end of the dispatch to its combine, it did its own
// work. 0: no joiner.
struct run_joining {
  uint64_t op, offer_ns, fixed_ns, dispatch_ns, dispatched_ns, combine_ns;
};

enum { RUN_MAX_STALLS = 32, RUN_MAX_TURNS = 16 };

struct run_record {
  struct results_rank rank;
  char boot[RUN_BOOT_SIZE]; // boot id of the host: times of two records can be compared only if both have the same
  // Times of a joiner in microseconds, as in struct results_transition; negative for other ranks.
  double launch_us, connect_us, first_dispatch_us;
  double stall_us;  // of a survivor: its longest dispatch or combine while views changed for this phase
  double median_us; // of this rank's timed operations in the previous phase: the longer of median dispatch and median
                    // combine
  // Number of ranks that the run had lost when this rank began to measure the phase. -1: this rank has missed another
  // rank since then, and the lead has not reported that loss yet.
  int32_t losses_known;
  uint64_t learned_ns; // when the rank learned that the phase had begun
  struct run_joining joining;
  // Both lists are in order of time, and keep the newest entries. `stalls` has the operations of a phase that are
  // longer than all later ones, so the longest operation since any time is among them. `turns` has the operations with
  // which a view took effect.
  uint32_t num_stalls, num_turns;
  struct run_stall stalls[RUN_MAX_STALLS], turns[RUN_MAX_TURNS];
  uint32_t num_views;
  struct run_view *views; // the views of this phase's changes, in order
  uint32_t num_losses;
  struct run_loss *losses;
};

void run_record_free(struct run_record *record); // frees what it points to, not the struct itself

// Each adds one entry. NOMEM.
int run_record_add_view(struct run_record *record, const struct run_view *view); // copies the ranks
int run_record_add_loss(struct run_record *record, const struct run_loss *loss);

// Adds a stall, which is newer than all earlier ones. `turn`: a view took effect with its operation.
void run_record_note_stall(struct run_record *record, const struct run_stall *stall, bool turn);

// NULL when memory ran out.
json_t *run_record_to_json(const struct run_record *record);

// PROTOCOL names the field that is wrong. After an error `*record` is unchanged.
int run_record_from_json(struct run_record *record, const json_t *json);

#endif
