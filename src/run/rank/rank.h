// Declarations for all files of the rank process. The main thread owns all data; the store's watch only writes `news`.
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

// Results of functions that run operations other than 0 and errors, if agents may come and go (--agents elastic).
enum {
  RANK_UNSETTLED = 1, // the phase has lost a rank: it continues with its transition, and is measured again
  RANK_BACK = 2,      // the same for the previous phase, which this rank has already measured
};

enum { RANK_MISSED = 400 };

// A lost peer that the lead has not yet reported as lost for the run.
struct rank_miss {
  uint64_t deadline_ns; // for the lead's report; 0: no peer is missing
  int32_t found_lost;
  char error[RANK_MISSED]; // the error that ends this rank at the deadline
};

// The newest state of the run that the store's watch has received.
struct rank_news {
  pthread_mutex_t mutex;
  atomic_bool any; // there is news that the main thread has not taken
  struct run_current current;
  uint64_t phase_ns; // when this rank learned of its phase
};

struct rank_activation {
  uint64_t epoch, op, time_ns;
};

// Events taken from the library. Arrays grow; no event is dropped.
struct rank_events {
  struct rank_activation *commits; // views when they were agreed on; `op` is 0
  size_t num_commits;
  struct rank_activation *activations;
  size_t num_activations;
  struct run_loss *losses;
  size_t num_losses;
};

struct rank {
  uint64_t main_ns; // time of the first line of main
  struct run_task task;
  json_t *task_json, *live; // task_json: contains the task's strings; live: the live run in the store
  struct run_config config;
  struct plan *plan; // without the ranks that the run has lost according to `current`
  struct run_keys keys;
  char host[64], boot[RUN_BOOT_SIZE];
  weft_store_t *store;
  weft_store_watch_t *watch;
  struct run_reporter *reporter;
  weft_ep_t *ep;
  struct buffer_home home; // of the operations' buffers
  char gpu_name[64];       // "" in host memory
  struct traffic *traffic;
  struct run_counters *counters; // [task.num_counters] of its node; NULL: not requested
  struct run_counting counting;
  struct rank_events events;
  struct rank_news news;
  struct run_current current; // newest phase that has begun (num_phases: the end), and the losses until then
  uint64_t phase_ns;          // when this rank learned of that phase

  // The phase in progress.
  uint32_t phase;
  int32_t *expected; // the view with which it starts
  uint32_t num_expected;
  struct run_record record, before; // of this phase and the previous one
  bool again, announced; // again: the phase began before and has lost ranks since; announced: its start is announced
  uint32_t settled;      // number of losses known when the view was as required
  struct rank_miss miss;
  bool must_leave;      // because its agent leaves
  uint64_t noted_epoch; // newest view in the record
  size_t seen_losses;   // number of losses of `events` in the record
  int32_t lost;         // the rank whose loss ends this one; -1: none does
  int32_t found_lost;   // the same if this rank found the loss; -1: it did not
  bool judged;          // the previous operation was judged: the next one waits for ranks that are slower at judging
  uint64_t offer_ns, fixed_ns; // for a joiner: when it offered itself, and when its first operation was fixed
  bool dispatched;             // this process has run an operation
  uint32_t rows_to_send;       // of the dispatch in which this rank dies; 0: not counted yet
  uint64_t mark;               // the newest mark that this rank has set
  struct traffic *kept;        // has the route that the previous phase filled last; NULL: there is none
  struct run_config kept_config;
  uint64_t median_ns; // of the previous phase: the longer of the median dispatch and the median combine
};

// events.c
void rank_events_free(struct rank_events *events);
void rank_take_events(struct rank *rank); // takes queued events and also sends each of them to the node
// Waits until an event is queued; false: none came.
bool rank_await_event(struct rank *rank, uint64_t deadline_ns);
bool rank_find_activation(const struct rank_events *events, uint64_t epoch, struct rank_activation *found);
bool rank_find_commit(const struct rank_events *events, uint64_t epoch, struct rank_activation *found);

// operation.c: runs one operation and updates the records. `judge`: poison the buffers before and judge the results
// after it, without the contributions of the `missing` ranks. A loss that is not in the plan is an error.
struct rank_judgement {
  bool judge;
  bool only_settled; // judge only when every rank's input is certain
  bool only_whole;   // judge only when nothing is missing
  const int32_t *missing;
  uint32_t num_missing;
};
int rank_operate(struct rank *rank, const struct rank_judgement *judgement, bool changing, struct traffic_op *op);

// The same for the part of a phase in which nothing changes: the view must be the plan's live ranks, otherwise it is an
// error.
int rank_operate_steady(struct rank *rank, bool judge, struct traffic_op *op);

// Takes the news from the store. PEER_LOST: this rank itself counts as lost.
int rank_take_news(struct rank *rank);

// Sets the mark of operations from the next one on; a lower mark than before changes nothing.
void rank_set_mark(struct rank *rank, uint64_t mark);

// Judges the operation that has just ended, and of which nothing is missing.
int rank_judge_last(struct rank *rank, const struct traffic_op *op);

// The mark of a rank that knows that the phase has begun and knows `num_lost` losses; and the mark of a rank that has
// reached the part without changes. Marks never decrease.
static inline uint64_t rank_mark_begun(uint32_t phase, uint32_t num_lost) {
  return ((uint64_t)phase << 32 | num_lost) * 2 + 1;
}
static inline uint64_t rank_mark_steady(uint32_t phase, uint32_t num_lost) {
  return ((uint64_t)phase << 32 | num_lost) * 2 + 2;
}

// transition.c: runs operations until all ranks of the phase are in the view and know the phase; ends at the same
// operation for all. *left: this rank had to leave and has left.
int rank_transition(struct rank *rank, bool *left);
// Runs operations until all ranks know of the end, and ends at the same operation for all; or until this rank has left
// on request.
int rank_end(struct rank *rank, bool *left);

// planned_loss.c: the phase's planned losses, from the first operation to the view without the lost ranks. It does not
// return in a rank that has to die.
int rank_lose(struct rank *rank);

// measure.c: judged, untimed, timed and judged operations.
int rank_measure(struct rank *rank);

// features.c, for throughput: checks features of throughput mode that are not timed, some of them in each call in
// rotation: layouts, kept routes, biases, weights that are sent back. `last`: the end of the phase, at which a route is
// filled for the next one.
int rank_check_features(struct rank *rank, bool last);
void rank_close_features(struct rank *rank);

// report.c
void rank_record_begin(struct rank *rank); // a new record for rank->phase
void rank_record_back(struct rank *rank);  // makes the previous record the current one
void rank_record_put(struct rank *rank, enum results_state state, const char *reason);
void rank_report_bandwidth(struct rank *rank);
void rank_report_progress(struct rank *rank, const char *step, uint32_t done, uint32_t of);

#endif
