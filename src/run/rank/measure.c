// The body of a phase: judged operations of each kind, warm-up, timed operations, and judged operations of each kind
// again.
#include <stdlib.h>

#include "base/fail.h"
#include "run/rank/rank.h"

enum { PROGRESS_EVERY = 4 };

struct samples {
  uint64_t *both, *dispatch, *combine; // [iterations]
  uint32_t count;
  uint64_t *rows;                                                        // [capacity] dispatched to each rank
  double dispatch_logical, dispatch_wire, combine_logical, combine_wire; // sums
};

// Judges one operation of each kind. Operations between them run unjudged.
static int check(struct rank *rank) {
  unsigned wanted = 1u << PATTERN_CONSTANT | 1u << PATTERN_SCALED | 1u << PATTERN_PLAIN;
  struct traffic_op op;
  while (wanted) {
    unsigned kind = 1u << traffic_next_kind(rank->traffic);
    int err = rank_operate_steady(rank, (wanted & kind) != 0, &op);
    if (err)
      return err;
    wanted &= ~kind;
  }
  return 0;
}

static int warm_up(struct rank *rank) {
  struct traffic_op op;
  for (uint32_t i = 0; i < rank->config.warmup; i++) {
    int err = rank_operate_steady(rank, false, &op);
    if (err)
      return err;
  }
  return 0;
}

// Times only operations of the plain kind, since all of them have the same size.
static int take_samples(struct rank *rank, struct samples *samples) {
  struct traffic_op op;
  while (samples->count < rank->config.iterations) {
    int err = rank_operate_steady(rank, false, &op);
    if (err)
      return err;
    if (op.kind != PATTERN_PLAIN || !op.in_step)
      continue;
    uint32_t i = samples->count++;
    samples->dispatch[i] = op.dispatch_ns;
    samples->combine[i] = op.combine_ns;
    samples->both[i] = op.dispatch_ns + op.combine_ns;
    samples->dispatch_logical += (double)op.dispatch_logical;
    samples->dispatch_wire += (double)op.dispatch_wire;
    samples->combine_logical += (double)op.combine_logical;
    samples->combine_wire += (double)op.combine_wire;
    traffic_add_rows(rank->traffic, samples->rows);
    if (samples->count % PROGRESS_EVERY == 0)
      rank_report_progress(rank, "timed", samples->count, rank->config.iterations);
  }
  return 0;
}

// Stores the rows in the order of the ranks in the results.
static int keep_rows(struct rank *rank, const struct samples *samples) {
  const struct plan_ranks *ranks = &rank->plan->ranks;
  struct results_rank *found = &rank->record.rank;
  free(found->dispatch_rows); // from an attempt before a loss
  found->dispatch_rows = samples->count ? calloc(ranks->count, sizeof *found->dispatch_rows) : NULL;
  if (samples->count && !found->dispatch_rows)
    return fail(WEFT_ERR_NOMEM, "no memory for a record of %u ranks", ranks->count);
  found->num_dispatch_rows = samples->count ? ranks->count : 0;
  for (uint32_t i = 0; i < found->num_dispatch_rows; i++)
    found->dispatch_rows[i] = samples->rows[ranks->rank[i]];
  return 0;
}

static void keep(struct rank *rank, struct samples *samples) {
  struct results_rank *found = &rank->record.rank;
  double count = samples->count ? samples->count : 1;
  results_times_from_ns(&found->both, samples->both, samples->count);
  results_times_from_ns(&found->dispatch, samples->dispatch, samples->count);
  results_times_from_ns(&found->combine, samples->combine, samples->count);
  found->dispatch_logical_bytes = samples->dispatch_logical / count;
  found->dispatch_wire_bytes = samples->dispatch_wire / count;
  found->combine_logical_bytes = samples->combine_logical / count;
  found->combine_wire_bytes = samples->combine_wire / count;
  // A stall is the longer half of an operation, so it is compared with the longer half of a usual one.
  double longer = found->dispatch.p50 > found->combine.p50 ? found->dispatch.p50 : found->combine.p50;
  rank->median_ns = (uint64_t)(longer * 1000);
}

static int time_operations(struct rank *rank) {
  size_t room = rank->config.iterations + 1;
  uint64_t *memory = calloc(3 * room + rank->plan->capacity, sizeof *memory);
  if (!memory)
    return fail(WEFT_ERR_NOMEM, "no memory for %u timed operations", rank->config.iterations);
  struct samples samples = {
      .both = memory, .dispatch = memory + room, .combine = memory + 2 * room, .rows = memory + 3 * room};
  int err = take_samples(rank, &samples);
  if (!err)
    keep(rank, &samples);
  if (!err)
    err = keep_rows(rank, &samples);
  free(memory);
  return err;
}

// In throughput mode all ranks have to go on from the same operation, even if they began the steady part with different
// ones, since either all or none must run an operation by a kept route.
static int line_up(struct rank *rank) {
  struct traffic_op op;
  int err = 0;
  rank_set_mark(rank, rank_mark_steady(rank->phase, rank->settled));
  do
    err = rank_operate_steady(rank, false, &op);
  while (!err && op.mark < rank_mark_steady(rank->phase, rank->settled));
  return err;
}

static int check_all(struct rank *rank, bool last) {
  int err = check(rank);
  return err || rank->config.mode != WEFT_EP_THROUGHPUT ? err : rank_check_features(rank, last);
}

int rank_measure(struct rank *rank) {
  int err = rank->config.mode == WEFT_EP_THROUGHPUT ? line_up(rank) : 0;
  if (!err)
    err = check_all(rank, false);
  if (!err)
    err = warm_up(rank);
  if (!err)
    err = time_operations(rank);
  return err ? err : check_all(rank, true);
}
