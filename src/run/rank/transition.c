// The transition from one phase to the next without a pause: operations go on, and show when all ranks are present.
//
// An operation ends the transition if it ran in the view with which the phase starts, and each of its ranks sent a mark
// that says "I know that the phase has begun". Both are the same for all ranks of that operation, also for a joiner
// that runs its first one. So all ranks end the transition with the same operation.
//
// A phase that loses ranks with their agent repeats its transition (--agents elastic). The mark also says how many
// losses its rank knows, and the view is the one without the lost ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/common/roster.h"
#include "run/rank/rank.h"

// Added to the lead's own limit, since the lead knows better why a rank is missing.
enum { WAIT_LIMIT_S = 10 };

// Takes news, and sends what this rank knows with the next operation. BACK: the previous phase has to be measured
// again.
static int follow(struct rank *rank) {
  const struct run_current *current = &rank->current;
  uint32_t known = current->num_lost;
  int err = rank_take_news(rank);
  if (err)
    return err;
  if (current->num_lost != known && rank->phase < rank->plan->num_phases)
    rank->num_expected = run_roster_start(rank->plan, rank->config.negative, rank->phase, rank->expected);
  rank_set_mark(rank, rank_mark_begun(current->phase, current->num_lost));
  bool before = current->num_lost != rank->settled && current->phase < rank->phase && rank->phase > rank->task.phase;
  return before && !rank->must_leave ? RANK_BACK : 0;
}

// Adds the ranks of `of` that are not in `in`; both are in ascending order.
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
                 "phase %u did not start within %u s: ranks that have not joined: %s; ranks that have not left: %s",
                 rank->phase, rank->config.startup_timeout_s + WAIT_LIMIT_S, missing.size ? missing.data : "none",
                 extra.size ? extra.data : "none");
  text_free(&missing);
  text_free(&extra);
  return err;
}

// In a phase that is repeated because of a loss, the ranks that the plan kills may have died already.
static bool all_but_victims(const struct rank *rank, const struct traffic_op *op) {
  const struct plan_phase *phase = &rank->plan->phases[rank->phase];
  uint32_t live = 0, victims = 0;
  for (uint32_t i = 0; i < op->num_ranks; i++) {
    live += plan_ranks_contain(&phase->live, op->ranks[i]);
    victims += plan_ranks_contain(&phase->kills, op->ranks[i]);
  }
  return live == phase->live.count && live + victims == op->num_ranks;
}

static bool in_view(const struct rank *rank, const struct traffic_op *op) {
  const int32_t *ranks = rank->expected;
  uint32_t count = rank->num_expected;
  if (op->begin_epoch != op->epoch)
    return false;
  if (op->num_ranks == count && memcmp(op->ranks, ranks, count * sizeof *ranks) == 0)
    return true;
  return rank->again && all_but_victims(rank, op);
}

static bool contains_all(const struct traffic_op *op, const int32_t *ranks, uint32_t count) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < op->num_ranks && found < count; i++)
    found += op->ranks[i] == ranks[found];
  return found == count;
}

// Leaves the group. The view without this rank is agreed on when this returns; operations go on until that view takes
// effect.
static int ask_to_leave(struct rank *rank) {
  int32_t self = rank->task.rank;
  return weft_ep_disconnect(rank->ep, &self, 1, rank->config.startup_timeout_s * 1000);
}

// Whether the phase has a planned loss. Nothing is judged before one, since a survivor that is still judging would seem
// to detect the loss late.
static bool loses(const struct rank *rank) {
  return rank->config.negative != RUN_NEGATIVE_LEAVE && rank->plan->phases[rank->phase].kills.count > 0;
}

// Whether the operation ends the transition: it ran in the expected view, and all its ranks know as much as this one.
static bool is_settled(const struct rank *rank, const struct traffic_op *op) {
  return op->mark >= rank_mark_begun(rank->phase, rank->current.num_lost) && in_view(rank, op);
}

// Accepts the losses that the lead has reported. No other rank is missed.
static void settle(struct rank *rank) {
  rank->settled = rank->current.num_lost;
  rank->miss = (struct rank_miss){0};
}

// The progress of a rank that leaves.
struct leaving {
  bool leaves, waits, asked;
};

static int leave(struct rank *rank, struct leaving *leaving, bool begun) {
  leaving->leaves |= rank->must_leave;
  if (leaving->asked || !(rank->must_leave || (begun && leaving->leaves && !leaving->waits)))
    return 0;
  leaving->asked = true;
  int err = ask_to_leave(rank);
  return err ? fail_context(err, "rank %d cannot leave", rank->task.rank) : 0;
}

int rank_transition(struct rank *rank, bool *left) {
  struct leaving leaving = {
      .leaves = run_roster_leaves(rank->plan, rank->config.negative, rank->phase, rank->task.rank),
      .waits = run_roster_waits(rank->plan, rank->config.negative, rank->phase, rank->task.rank),
  };
  uint64_t deadline = 0;
  struct traffic_op op;
  rank->num_expected = run_roster_start(rank->plan, rank->config.negative, rank->phase, rank->expected);
  for (;;) {
    int err = follow(rank);
    bool begun = rank->current.phase >= rank->phase;
    if (!err && begun && deadline == 0) { // before that, others are still in the previous phase
      deadline = clock_deadline_ms((uint64_t)(rank->config.startup_timeout_s + WAIT_LIMIT_S) * 1000);
      rank->record.learned_ns = rank->phase_ns;
    }
    if (!err)
      err = leave(rank, &leaving, begun);
    if (err)
      return err;
    if (leaving.asked && !weft_ep_is_active(rank->ep)) {
      *left = true;
      return 0;
    }
    err = rank_operate(rank, &(struct rank_judgement){0}, begun, &op);
    if (err == RANK_UNSETTLED) // the lead has still to report the loss
      continue;
    if (err)
      return err;
    leaving.waits = leaving.waits && !contains_all(&op, rank->expected, rank->num_expected);
    if (!leaving.leaves && begun && is_settled(rank, &op)) {
      settle(rank);
      *left = false;
      return loses(rank) ? 0 : rank_judge_last(rank, &op);
    }
    if (deadline && clock_passed(deadline))
      return too_late(rank, &op);
  }
}

int rank_end(struct rank *rank, bool *left) {
  struct leaving leaving = {0};
  struct traffic_op op = {0};
  for (;;) {
    int err = follow(rank);
    if (!err)
      err = leave(rank, &leaving, false);
    if (err)
      return err;
    *left = leaving.asked && !weft_ep_is_active(rank->ep);
    if (*left)
      return 0;
    err = rank_operate(rank, &(struct rank_judgement){0}, false, &op);
    if (err && err != RANK_UNSETTLED)
      return err;
    if (!err && op.mark >= rank_mark_begun(rank->plan->num_phases, rank->current.num_lost))
      return 0;
  }
}
