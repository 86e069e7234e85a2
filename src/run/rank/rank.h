// What the files of the rank process share. The main thread owns it all; the store's watch only touches `news`.
#ifndef RUN_RANK_RANK_H
#define RUN_RANK_RANK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <jansson.h>

#include <weft/ep.h>

#include "plan/plan.h"
#include "run/common/config.h"
#include "run/common/counters.h"
#include "run/common/current.h"
#include "run/common/keys.h"
#include "run/common/phase_record.h"
#include "run/common/rank_env.h"
#include "run/common/store_writer.h"
#include "run/traffic/traffic.h"

// What functions that run operations return beside 0 and errors, where agents come and go (--agents elastic).
enum {
  RANK_UNSETTLED = 1, // the phase has lost a rank: it goes on from its transition, and is measured again
  RANK_BACK = 2,      // likewise the phase before, which this rank has measured already
};

enum { RANK_MISSED = 400 };

// A peer that is gone, of which the lead has not said yet that the run has lost it.
struct rank_miss {
  uint64_t deadline_ns; // of the lead's word; 0: nobody is missed
  int32_t found_lost;
  char error[RANK_MISSED]; // what ends this rank then
};

// What the store's watch has last heard of the run.
struct rank_news {
  pthread_mutex_t mutex;
  atomic_bool any; // that the main thread has not taken
  struct run_current current;
  uint64_t phase_ns; // when this rank learned of its phase
};

struct rank_activation {
  uint64_t epoch, op, time_ns;
};

// Events that were taken from the library. Arrays grow; nothing is dropped.
struct rank_events {
  struct rank_activation *commits; // of views as they were agreed on; `op` is 0
  size_t num_commits;
  struct rank_activation *activations;
  size_t num_activations;
  struct run_loss *losses;
  size_t num_losses;
};

struct rank {
  uint64_t main_ns; // first line of main
  struct run_task task;
  json_t *task_json, *live; // hold the task's strings; the live run as the store has it
  struct run_config config;
  struct plan *plan; // without what the run has lost, as far as `current` says
  struct run_keys keys;
  char host[64], boot[RUN_BOOT_SIZE];
  weft_store_t *store;
  weft_store_watch_t *watch;
  struct run_reporter *reporter;
  weft_ep_t *ep;
  struct buffer_home home; // of the operations' buffers
  char gpu_name[64];       // "" in host memory
  struct traffic *traffic;
  struct run_counters *counters; // [task.num_counters] of its node; NULL: nobody asks
  struct run_counting counting;
  struct rank_events events;
  struct rank_news news;
  struct run_current current; // newest phase that has begun (num_phases: the end), and the losses until then
  uint64_t phase_ns;          // when this rank learned of that phase

  // The phase in progress.
  uint32_t phase;
  int32_t *expected; // the view with which it starts
  uint32_t num_expected;
  struct run_record record, before; // of this phase and the one before
  bool again, announced;            // it began before and has lost ranks since; its start is announced
  uint32_t settled;                 // losses that were known when the view was as it is to be
  struct rank_miss miss;
  bool told_to_leave;          // its agent leaves
  uint64_t noted_epoch;        // newest view that the record has seen
  size_t seen_losses;          // losses of `events` that the record has
  int32_t lost;                // the rank whose loss ends this one; -1: none does
  int32_t found_lost;          // the same, where this one found it; -1: it did not
  bool judged;                 // the operation before was judged: the next one waits for ranks that are slower at it
  uint64_t offer_ns, fixed_ns; // of a joiner: when it offered itself, and when its first operation was fixed
  bool dispatched;             // any operation of this process has run
  uint32_t rows_to_send;       // of the dispatch in which this rank dies; 0: not counted yet
  uint64_t mark;               // the newest that this rank has set
  struct traffic *kept;        // has the route that the phase before filled last; NULL: there is none
  struct run_config kept_config;
  uint64_t median_ns; // of the phase before: the longer of the median dispatch and the median combine
};

// events.c
void rank_events_free(struct rank_events *events);
void rank_take_events(struct rank *rank); // what is queued; each goes to the node too
// Waits until an event is queued; false: none came.
bool rank_await_event(struct rank *rank, uint64_t deadline_ns);
bool rank_find_activation(const struct rank_events *events, uint64_t epoch, struct rank_activation *found);
bool rank_find_commit(const struct rank_events *events, uint64_t epoch, struct rank_activation *found);

// operation.c: one operation with its bookkeeping. `judge`: poison before, and judge after, without the
// contributions of the `missing` ranks; what the plan does not have is an error.
struct rank_judgement {
  bool judge;
  bool only_settled; // judge only when every rank's input is certain
  bool only_whole;   // judge only when nothing is missing
  const int32_t *missing;
  uint32_t num_missing;
};
int rank_operate(struct rank *rank, const struct rank_judgement *judgement, bool changing, struct traffic_op *op);

// Likewise, in the part of a phase in which nothing changes: among the ranks that the plan has live, or it is an error.
int rank_operate_steady(struct rank *rank, bool judge, struct traffic_op *op);

// Takes what the store has said since. PEER_LOST: this rank itself counts as lost.
int rank_take_news(struct rank *rank);

// Has the operations from the next one on carry this mark; a lower one than before changes nothing.
void rank_set_mark(struct rank *rank, uint64_t mark);

// Judges the operation that has just ended, of which nothing is missing.
int rank_judge_last(struct rank *rank, const struct traffic_op *op);

// The mark of a rank that knows that the phase has begun and of so many losses, and of one that has come to its part
// without changes. Neither number sinks.
static inline uint64_t rank_mark_begun(uint32_t phase, uint32_t num_lost) {
  return ((uint64_t)phase << 32 | num_lost) * 2 + 1;
}
static inline uint64_t rank_mark_steady(uint32_t phase, uint32_t num_lost) {
  return ((uint64_t)phase << 32 | num_lost) * 2 + 2;
}

// transition.c: runs operations until all ranks of the phase are in the view and know of it, at the same operation
// for all. *left: this rank was to leave and has.
int rank_transition(struct rank *rank, bool *left);
// Runs operations until all know of the end, at the same operation for all, or this rank was asked to leave and has.
int rank_end(struct rank *rank, bool *left);

// planned_loss.c: the phase's planned losses, from the first operation to the view without the lost. Does not return in
// a rank that is to die.
int rank_lose(struct rank *rank);

// measure.c: judged, untimed, timed and judged operations.
int rank_measure(struct rank *rank);

// features.c, for throughput: what throughput mode has beside the operations that are timed, a part of it each time by
// turns: layouts, kept routes, biases, weights that go back. `last`: at the end of the phase, and a route is filled for
// the next one.
int rank_check_features(struct rank *rank, bool last);
void rank_close_features(struct rank *rank);

// report.c
void rank_record_begin(struct rank *rank); // a new record for rank->phase
void rank_record_back(struct rank *rank);  // the one before comes back
void rank_record_put(struct rank *rank, enum results_state state, const char *reason);
void rank_report_bandwidth(struct rank *rank);
void rank_report_progress(struct rank *rank, const char *step, uint32_t done, uint32_t of);

#endif
