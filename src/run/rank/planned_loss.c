// A planned loss. All ranks begin the phase with the same operation. In its dispatch the victims kill themselves when
// they have sent half of their rows. The survivors judge what they received: each token of a victim has arrived whole
// or not at all, the victims' experts have contributed nothing, and everything else is right. Then operations go on
// until the view without the victims takes effect.
//
// Victims that have to be lost from outside run on until that happens, or until they find the survivors lost and end.
// The operation of such a loss is not known in advance, so incomplete operations are not judged.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "run/common/rank_pipe.h"
#include "run/common/roster.h"
#include "run/rank/rank.h"

static void die(struct rank *rank) {
  run_message_send(rank->task.message_fd, json_pack("{s:s, s:I}", "kind", "kill", "time_ns", (json_int_t)clock_ns()));
  kill(getpid(), SIGKILL);
}

static void on_row(void *arg, uint32_t rows_written, uint32_t peers_done) {
  struct rank *rank = arg;
  (void)peers_done;
  if (rank->rows_to_send == 0) // only once, since there may be many rows
    rank->rows_to_send = traffic_remote_rows(rank->traffic);
  if (rows_written * 2 >= rank->rows_to_send)
    die(rank);
}

// Returns only if the dispatch failed.
static int die_in_dispatch(struct rank *rank) {
  ep_fault_set(rank->ep, on_row, rank);
  int err = traffic_send_only(rank->traffic);
  if (!err)
    die(rank); // it had no rows for others, or a kernel is still sending them
  return err;
}

static bool awaits_losses(const struct rank *rank) {
  return rank->config.negative == RUN_NEGATIVE_LOST;
}

static bool loses_survivor(const struct rank *rank, const struct traffic_op *op) {
  for (uint32_t i = 0; i < op->num_lost; i++)
    if (!run_roster_dies(rank->plan, rank->config.negative, rank->phase, op->lost[i]))
      return true;
  return false;
}

// Runs operations until this rank is killed, or cut off from the survivors.
static int await_loss(struct rank *rank) {
  uint64_t deadline = clock_deadline_ms((uint64_t)rank->config.startup_timeout_s * 1000);
  struct traffic_op op;
  for (;;) {
    int err = traffic_run(rank->traffic, false, &op);
    if (err == WEFT_ERR_FENCED || (!err && loses_survivor(rank, &op)))
      die(rank);
    if (err)
      return err;
    if (clock_passed(deadline))
      return fail(WEFT_ERR_TIMEOUT, "rank %d should have been lost in phase %u, but it was not lost within %u s",
                  rank->task.rank, rank->phase, rank->config.startup_timeout_s);
  }
}

// The victims that are in the view with which `op` began.
static uint32_t victims_of(const struct rank *rank, const int32_t *ranks, uint32_t count, int32_t *victims) {
  uint32_t num_victims = 0;
  for (uint32_t i = 0; i < count; i++)
    if (run_roster_dies(rank->plan, rank->config.negative, rank->phase, ranks[i]))
      victims[num_victims++] = ranks[i];
  return num_victims;
}

static int too_late(const struct rank *rank, const int32_t *victims, uint32_t num_victims) {
  int32_t first = num_victims ? victims[0] : -1;
  return fail(WEFT_ERR_TIMEOUT,
              awaits_losses(rank) ? "rank %d should have been lost in phase %u, but is still in the view"
                                  : "rank %d was lost in phase %u, but no view without it took effect",
              first, rank->phase);
}

// Runs operations until one ran in the view of the survivors.
static int settle(struct rank *rank, int32_t *victims) {
  const struct plan_ranks *live = &rank->plan->phases[rank->phase].live;
  uint64_t deadline = clock_deadline_ms((uint64_t)rank->config.startup_timeout_s * 1000);
  struct traffic_op op;
  bool settled = false;
  while (!settled) {
    uint32_t count = 0;
    uint64_t epoch = 0;
    int32_t *ranks = rank->expected; // no longer needed in this phase, and large enough
    int err = weft_ep_view(rank->ep, &epoch, ranks, rank->plan->ranks.count, &count);
    if (err)
      return err;
    uint32_t num_victims = victims_of(rank, ranks, count, victims);
    struct rank_judgement judgement = {.judge = rank->config.validate_phase_failures,
                                       .only_settled = true,
                                       .only_whole = awaits_losses(rank),
                                       .missing = victims,
                                       .num_missing = awaits_losses(rank) ? 0 : num_victims};
    err = rank_operate(rank, &judgement, true, &op);
    if (err)
      return err;
    settled = op.begin_epoch == op.epoch && run_roster_equal(live, op.ranks, op.num_ranks);
    if (!settled && clock_passed(deadline))
      return too_late(rank, victims, num_victims);
  }
  return 0;
}

int rank_lose(struct rank *rank) {
  if (run_roster_dies(rank->plan, rank->config.negative, rank->phase, rank->task.rank))
    return awaits_losses(rank) ? await_loss(rank) : die_in_dispatch(rank);
  int32_t *victims = malloc((rank->plan->ranks.count + 1) * sizeof *victims);
  if (!victims)
    return fail(WEFT_ERR_NOMEM, "no memory for the lost ranks");
  struct traffic_op op;
  struct rank_judgement judgement = {.judge = true, .missing = victims};
  judgement.num_missing = victims_of(rank, rank->expected, rank->num_expected, victims);
  int err = 0;
  if (judgement.num_missing > 0) {
    if (!awaits_losses(rank) && !rank->again) // if it is repeated, they may have died before
      err = rank_operate(rank, &judgement, true, &op);
    if (!err)
      err = settle(rank, victims);
  }
  free(victims);
  return err;
}
