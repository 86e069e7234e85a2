// Runs one operation, records its results, and reports losses that the plan does not have.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/common/rank_pipe.h"
#include "run/common/roster.h"
#include "run/rank/rank.h"

enum {
  REASON_MS = 1000,
  WORD_S = 10, // in addition to the start-up limit; by then the lead has reported a lost agent
};

static bool dies_now(const struct rank *rank, int32_t peer) {
  if (rank->phase >= rank->plan->num_phases)
    return false;
  return run_current_has_lost(&rank->current, rank->phase, peer) ||
         run_roster_dies(rank->plan, rank->config.negative, rank->phase, peer);
}

// Two ranks part as soon as one of them has completed the last operation of the leaving rank. The other one may still
// be in that operation.
static bool parts_now(const struct rank *rank, int32_t peer) {
  const struct plan *plan = rank->plan;
  if (rank->phase >= plan->num_phases)
    return rank->must_leave;
  return run_roster_leaves(plan, rank->config.negative, rank->phase, peer) ||
         run_roster_leaves(plan, rank->config.negative, rank->phase, rank->task.rank) || rank->must_leave;
}

static bool contains(const int32_t *ranks, uint32_t count, int32_t peer) {
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] == peer)
      return true;
  return false;
}

// Whether the operation ran without a rank that is live in the plan. At the end of the run (`ending`) a missing rank is
// no loss.
static bool went_without(const struct rank *rank, const struct traffic_op *op, bool ending) {
  for (uint32_t i = 0; i < op->num_lost; i++)
    if (!dies_now(rank, op->lost[i]))
      return true;
  if (ending || op->num_silent == 0)
    return false;
  uint32_t may_be_silent = 0;
  for (uint32_t i = 0; i < op->num_ranks; i++)
    may_be_silent += dies_now(rank, op->ranks[i]) || parts_now(rank, op->ranks[i]);
  return op->num_silent > may_be_silent;
}

static int lost(struct rank *rank, int32_t lost_rank, const char *how) {
  rank->lost = lost_rank;
  return fail(WEFT_ERR_PEER_LOST, "rank %d was lost in phase %u, which the plan does not expect (%s)", lost_rank,
              rank->phase, how);
}

// Adds the losses from new events to the record. The loss of a peer that is in the view, and live in the plan, is an
// error.
static int note_events(struct rank *rank, const struct traffic_op *op, bool ending) {
  const struct rank_events *events = &rank->events;
  int err = 0;
  for (; rank->seen_losses < events->num_losses && !err; rank->seen_losses++) {
    const struct run_loss *loss = &events->losses[rank->seen_losses];
    err = run_record_add_loss(&rank->record, loss);
    bool planned = ending || dies_now(rank, loss->rank) || parts_now(rank, loss->rank);
    if (!err && !planned && contains(op->ranks, op->num_ranks, loss->rank))
      err = lost(rank, rank->found_lost = loss->rank, loss->detail);
  }
  return err;
}

// Returns an error for a rank of `of` that is live in the plan but missing in the view `in`: other ranks found it lost,
// and their reason has precedence. 0: there is no such rank.
static int lost_to_others(struct rank *rank, const int32_t *of, uint32_t num_of, const int32_t *in, uint32_t num_in) {
  for (uint32_t i = 0; i < num_of; i++)
    if (!dies_now(rank, of[i]) && !parts_now(rank, of[i]) && !contains(in, num_in, of[i]))
      return lost(rank, of[i], "other ranks reported it");
  return 0;
}

// The same for the ranks of the operation's view that are missing in the newest agreed view.
static int put_out(struct rank *rank, const struct traffic_op *op) {
  uint32_t cap = rank->plan->ranks.count, count = 0;
  int32_t *agreed = calloc(cap, sizeof *agreed);
  int err = 0;
  if (agreed && weft_ep_committed_view(rank->ep, NULL, agreed, cap, &count) == 0 && count <= cap)
    err = lost_to_others(rank, op->ranks, op->num_ranks, agreed, count);
  free(agreed);
  return err;
}

// The operation may report a loss before the event that gives the reason, or the view that shows the lost rank.
static int note_losses(struct rank *rank, const struct traffic_op *op) {
  uint32_t end = rank->plan->num_phases;
  bool ending = rank->phase >= end || rank->current.phase >= end, without = went_without(rank, op, ending);
  bool waits = without && rank->config.agents == RUN_AGENTS_FIXED; // otherwise the lead decides whether the run goes on
  uint64_t deadline_ns = clock_deadline_ms(REASON_MS);
  int err = 0;
  do {
    rank_take_events(rank);
    err = note_events(rank, op, ending);
    if (without && !err)
      err = put_out(rank, op);
  } while (!err && waits && rank_await_event(rank, deadline_ns));
  for (uint32_t i = 0; i < op->num_lost && !err; i++)
    if (!dies_now(rank, op->lost[i]))
      err = fail(WEFT_ERR_PEER_LOST, "rank %d was lost in operation %llu of phase %u, which the plan does not expect",
                 op->lost[i], (unsigned long long)op->op, rank->phase);
  if (!err && without)
    err = fail(WEFT_ERR_PEER_LOST,
               "a rank was lost in the combine of operation %llu of phase %u, which the plan does not expect",
               (unsigned long long)op->op, rank->phase);
  return err;
}

// A rank of the plan is gone, as the last error says. With --agents elastic the lead will report that the run goes on
// without that rank; operations go on until then.
static int miss(struct rank *rank, int err) {
  struct rank_miss *missed = &rank->miss;
  bool ends = rank->config.agents == RUN_AGENTS_FIXED || (err != WEFT_ERR_PEER_LOST && err != WEFT_ERR_PROTOCOL);
  if (ends)
    return err;
  if (missed->deadline_ns == 0) {
    missed->deadline_ns = clock_deadline_ms(((uint64_t)rank->config.startup_timeout_s + WORD_S) * 1000);
    missed->found_lost = rank->found_lost;
    snprintf(missed->error, sizeof missed->error, "%s", weft_last_error());
  }
  rank->found_lost = -1;
  if (!clock_passed(missed->deadline_ns))
    return RANK_UNSETTLED;
  rank->found_lost = missed->found_lost;
  return fail(WEFT_ERR_PEER_LOST, "%s", missed->error);
}

static int note_view(struct rank *rank, const struct traffic_op *op) {
  if (op->begin_epoch == rank->noted_epoch)
    return 0;
  rank->noted_epoch = op->begin_epoch;
  struct rank_activation at = {op->begin_epoch, op->op, op->begin_ns};
  rank_find_activation(&rank->events, op->begin_epoch, &at);
  struct run_view view = {at.epoch, at.op, at.time_ns, op->num_ranks, (int32_t *)op->ranks};
  return run_record_add_view(&rank->record, &view);
}

static void note_stall(struct rank *rank, const struct traffic_op *op) {
  bool dispatch = op->dispatch_ns > op->combine_ns;
  struct run_stall stall = {op->op, dispatch ? op->begin_ns : op->combine_begin_ns,
                            dispatch ? op->dispatch_ns : op->combine_ns};
  run_record_note_stall(&rank->record, &stall, op->begin_epoch != rank->noted_epoch);
  if (rank->counting.to)
    rank->counting.to->stall_ns = (uint64_t)(rank->record.stall_us * 1000);
}

static void note_joining(struct rank *rank, const struct traffic_op *op) {
  if (rank->offer_ns == 0)
    return;
  rank->record.joining = (struct run_joining){.op = op->op,
                                              .offer_ns = rank->offer_ns,
                                              .fixed_ns = rank->fixed_ns,
                                              .dispatch_ns = op->begin_ns,
                                              .dispatched_ns = op->begin_ns + op->dispatch_ns,
                                              .combine_ns = op->combine_begin_ns};
}

static void note_first(struct rank *rank, const struct traffic_op *op) {
  rank->dispatched = true;
  note_joining(rank, op);
  struct rank_activation commit = {0}; // of the view with this rank; the rank may know earlier views
  uint64_t end = op->begin_ns + op->dispatch_ns;
  // Another thread delivers the event of the commit, perhaps too late.
  if (!rank_find_commit(&rank->events, op->begin_epoch, &commit) || commit.time_ns > end)
    commit.time_ns = op->begin_ns;
  rank->record.launch_us = (double)(rank->main_ns - rank->task.launch_ns) / 1000;
  rank->record.connect_us = (double)(commit.time_ns - rank->main_ns) / 1000;
  rank->record.first_dispatch_us = (double)(end - commit.time_ns) / 1000;
}

static int judge(struct rank *rank, const struct rank_judgement *judgement, const struct traffic_op *op) {
  int err = traffic_judge(rank->traffic, op, judgement->missing, judgement->num_missing, &rank->record.rank.worst_diff);
  rank->record.rank.checked += !err;
  rank->judged = true;
  return err;
}

// Publishes the digest of a complete operation that all its ranks began in the same view. Any other run with this seed
// must have the same digest.
static int publish_digest(struct rank *rank, const struct traffic_op *op) {
  uint64_t digest = 0;
  int err = traffic_digest(rank->traffic, &digest);
  json_t *ranks = err ? NULL : json_array();
  for (uint32_t i = 0; ranks && i < op->num_ranks; i++)
    json_array_append_new(ranks, json_integer(op->ranks[i]));
  if (!err)
    run_message_send(rank->task.message_fd,
                     json_pack("{s:s, s:s, s:I, s:o, s:o}", "kind", "event", "event", "digest", "op",
                               (json_int_t)op->op, "ranks", ranks, "digest", json_sprintf("%016" PRIx64, digest)));
  return err;
}

static void count(struct rank *rank, const struct traffic_op *op) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  if (weft_ep_get_stats(rank->ep, &stats) == 0)
    run_counting_operation(&rank->counting, op->dispatch_ns, op->combine_ns, &stats);
}

int rank_operate(struct rank *rank, const struct rank_judgement *judgement, bool changing, struct traffic_op *op) {
  bool waits = rank->judged;
  rank->judged = false;
  int err = traffic_run(rank->traffic, judgement->judge, op);
  if (err)
    return err;
  rank_take_events(rank);
  if (rank->counting.to)
    count(rank, op);
  if (!rank->dispatched)
    note_first(rank, op);
  rank->record.rank.num_lost_selections += op->num_missing;
  if (changing && !waits && op->in_step)
    note_stall(rank, op);
  err = note_view(rank, op);
  if (!err)
    err = miss(rank, note_losses(rank, op));
  bool whole = op->num_lost == 0 && op->num_missing == 0;
  if (!err && judgement->judge && (op->settled || !judgement->only_settled) && (whole || !judgement->only_whole))
    err = judge(rank, judgement, op);
  if (!err && rank->config.digests && op->settled && whole)
    err = publish_digest(rank, op);
  return err;
}

int rank_judge_last(struct rank *rank, const struct traffic_op *op) {
  return judge(rank, &(struct rank_judgement){.judge = true}, op);
}

// Checks that the operation ran among the live ranks of the phase, since nothing changes within a phase.
static int check_view(struct rank *rank, const struct traffic_op *op) {
  const struct plan_ranks *live = &rank->plan->phases[rank->phase].live;
  if (run_roster_equal(live, op->ranks, op->num_ranks))
    return 0;
  int err = lost_to_others(rank, live->rank, live->count, op->ranks, op->num_ranks);
  if (err)
    return err;
  return fail(WEFT_ERR_PROTOCOL, "operation %llu of phase %u ran with %u rank%s, but the plan has %u",
              (unsigned long long)op->op, rank->phase, op->num_ranks, text_s(op->num_ranks), live->count);
}

// In throughput mode all ranks run the same operations, so all have to stop measuring after the same one: the one whose
// mark says that every rank knows of the loss. Operations with missing ranks before that are not judged.
static int operate_in_line(struct rank *rank, bool judge, struct traffic_op *op) {
  bool knows = rank->current.num_lost != rank->settled, whole = !knows && rank->miss.deadline_ns == 0;
  if (knows)
    rank_set_mark(rank, rank_mark_begun(rank->phase, rank->current.num_lost));
  int err = rank_operate(rank, &(struct rank_judgement){.judge = judge && whole}, false, op);
  if (!err && whole)
    err = miss(rank, check_view(rank, op));
  if (err && err != RANK_UNSETTLED)
    return err;
  return op->mark > rank_mark_steady(rank->phase, rank->settled) ? RANK_UNSETTLED : 0;
}

int rank_operate_steady(struct rank *rank, bool judge, struct traffic_op *op) {
  int err = rank_take_news(rank);
  if (!err && rank->config.mode == WEFT_EP_THROUGHPUT)
    return operate_in_line(rank, judge, op);
  if (!err && rank->current.num_lost != rank->settled)
    return RANK_UNSETTLED;
  if (!err)
    err = rank_operate(rank, &(struct rank_judgement){.judge = judge}, false, op);
  return err ? err : miss(rank, check_view(rank, op));
}

// Takes a loss of this process, and not of an earlier process with the same rank.
static int take_own_loss(struct rank *rank, const struct run_lost *lost) {
  if (lost->rank != rank->task.rank || lost->phase < rank->task.phase)
    return 0;
  rank->must_leave = lost->leaves;
  return lost->leaves
             ? 0
             : fail(WEFT_ERR_PEER_LOST, "the lead lost the agent of rank %d in phase %u, and the run continued",
                    rank->task.rank, lost->phase);
}

int rank_take_news(struct rank *rank) {
  struct run_current *current = &rank->current, *news = &rank->news.current;
  uint32_t known = current->num_lost;
  int err = 0;
  if (!atomic_load(&rank->news.any))
    return 0;
  pthread_mutex_lock(&rank->news.mutex);
  atomic_store(&rank->news.any, false);
  current->phase = news->phase;
  rank->phase_ns = rank->news.phase_ns;
  for (uint32_t i = known; i < news->num_lost && !err; i++)
    err = run_current_add(current, &news->lost[i]);
  pthread_mutex_unlock(&rank->news.mutex);
  run_current_amend(current, known, rank->plan);
  for (uint32_t i = known; i < current->num_lost && !err; i++)
    err = take_own_loss(rank, &current->lost[i]);
  return err;
}

void rank_set_mark(struct rank *rank, uint64_t mark) {
  rank->mark = mark > rank->mark ? mark : rank->mark;
  weft_ep_set_mark(rank->ep, rank->mark);
}
