// From one phase to the next without a pause: operations go on, and show when all ranks are there.
//
// An operation ends the transition when it ran in the view that the phase starts with, and every rank of it brought a
// mark that says "I know that the phase has begun". Both are the same for all ranks of that operation, a joiner that
// runs its first one included; so all leave the transition with the same operation.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/common/roster.h"
#include "run/rank/rank.h"

// Longer than the lead's own limit: the lead knows better why a rank is missing.
enum { PATIENCE_S = 10 };

// Lets the next operation carry what this rank knows; returns the phase.
static uint32_t follow(struct rank *rank) {
  uint32_t current = atomic_load(&rank->current);
  rank_set_mark(rank, rank_mark_begun(current));
  return current;
}

// Adds the ranks that are in `of` and not in `in`; both ascend.
static void add_difference(struct text *text, const int32_t *of, uint32_t num_of, const int32_t *in, uint32_t num_in) {
  for (uint32_t i = 0, j = 0; i < num_of; i++) {
    while (j < num_in && in[j] < of[i])
      j++;
    if (j == num_in || in[j] != of[i])
      text_add(text, "%s%d", text->size ? " " : "", of[i]);
  }
}

static int too_late(const struct rank *rank, const struct traffic_op *op) {
  struct text missing = {0}, extra = {0};
  add_difference(&missing, rank->expected, rank->num_expected, op->ranks, op->num_ranks);
  add_difference(&extra, op->ranks, op->num_ranks, rank->expected, rank->num_expected);
  int err = fail(WEFT_ERR_TIMEOUT,
                 "phase %u did not start within %u s: ranks that have not joined: %s; that have not left: %s",
                 rank->phase, rank->config.startup_timeout_s + PATIENCE_S, missing.size ? missing.data : "none",
                 extra.size ? extra.data : "none");
  text_free(&missing);
  text_free(&extra);
  return err;
}

static bool in_view(const struct traffic_op *op, const int32_t *ranks, uint32_t count) {
  return op->begin_epoch == op->epoch && op->num_ranks == count && memcmp(op->ranks, ranks, count * sizeof *ranks) == 0;
}

static bool contains_all(const struct traffic_op *op, const int32_t *ranks, uint32_t count) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < op->num_ranks && found < count; i++)
    found += op->ranks[i] == ranks[found];
  return found == count;
}

// Leaves: the view without this rank is agreed on when this returns; operations go on until it takes effect.
static int ask_to_leave(struct rank *rank) {
  int32_t self = rank->task.rank;
  return weft_ep_disconnect(rank->ep, &self, 1, rank->config.startup_timeout_s * 1000);
}

// Before a planned loss nothing is judged: a survivor that is still busy with it would seem to detect the loss late.
static bool loses(const struct rank *rank) {
  return rank->config.negative != RUN_NEGATIVE_LEAVE && rank->plan->phases[rank->phase].kills.count > 0;
}

int rank_transition(struct rank *rank, bool *left) {
  bool leaving = run_roster_leaves(rank->plan, rank->config.negative, rank->phase, rank->task.rank), asked = false;
  bool waits = run_roster_waits(rank->plan, rank->config.negative, rank->phase, rank->task.rank);
  uint64_t deadline = 0;
  struct traffic_op op;
  for (;;) {
    bool begun = follow(rank) >= rank->phase;
    if (begun && deadline == 0) { // until then, the others are still busy with the phase before
      deadline = clock_deadline_ms((uint64_t)(rank->config.startup_timeout_s + PATIENCE_S) * 1000);
      rank->record.learned_ns = atomic_load(&rank->current_ns);
    }
    if (begun && leaving && !waits && !asked) {
      asked = true;
      int err = ask_to_leave(rank);
      if (err)
        return fail_context(err, "rank %d cannot leave", rank->task.rank);
    }
    if (asked && !weft_ep_is_active(rank->ep)) {
      *left = true;
      return 0;
    }
    int err = rank_operate(rank, &(struct rank_judgement){0}, begun, &op);
    if (err)
      return err;
    waits = waits && !contains_all(&op, rank->expected, rank->num_expected);
    if (!leaving && op.mark >= rank_mark_begun(rank->phase) && in_view(&op, rank->expected, rank->num_expected)) {
      *left = false;
      return loses(rank) ? 0 : rank_judge_last(rank, &op);
    }
    if (deadline && clock_passed(deadline))
      return too_late(rank, &op);
  }
}

int rank_end(struct rank *rank) {
  struct traffic_op op;
  do {
    follow(rank);
    int err = rank_operate(rank, &(struct rank_judgement){0}, false, &op);
    if (err)
      return err;
  } while (op.mark < rank_mark_begun(rank->plan->num_phases));
  return 0;
}
