// Phases: the lead begins each phase when every rank has completed the previous one, and gives each a deadline.
#include <stdlib.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/common/roster.h"
#include "run/lead/lead.h"

enum {
  SPARE_OPERATIONS = 64, // of a phase, in addition to timed operations and warm-up
  END_MS = 10000,        // from the end of the last phase to the end of the last process
};

static void publish_phase(struct node *node) {
  char key[RUN_KEY_SIZE];
  struct run_current current = node->losses;
  current.phase = node->phase.current;
  run_key(key, &node->keys, "current");
  run_reporter_put(node->reporter, key, run_current_to_json(&current));
}

// Launches the ranks that fit on this node, then publishes the phase, so that other nodes launch the rest.
int lead_begin_phase(struct node *node, uint32_t phase) {
  struct lead *lead = node->lead;
  node->phase.current = phase;
  node->phase.begun = true;
  lead->phases[phase].begin_ns = clock_ns();
  lead->all_started = false;
  lead->deadline_ns = clock_deadline_ms((uint64_t)node->config.startup_timeout_s * 1000);
  run_directory_event(&node->directory, "phase_begin", json_pack("{s:i}", "phase", (int)phase));
  const struct plan_phase *it = &node->plan->phases[phase];
  bool kills = node->config.negative != RUN_NEGATIVE_LEAVE;
  progress_show(&node->progress, true, "phase %u (%u of %u): %u rank%s, %u join, %u leave, %u killed", phase, phase + 1,
                node->plan->num_phases, it->live.count, it->live.count == 1 ? "" : "s", it->joins.count,
                it->leaves.count + (kills ? 0 : it->kills.count), kills ? it->kills.count : 0);
  int err = node_launch(node, phase);
  publish_phase(node);
  return err;
}

// The time from which an awaited report is late. While the store does not answer, the lead cannot receive reports: then
// the store is late and not the ranks (node/loop.c). When the store answers again, reports have the time of one lease
// to arrive. A store that fails again and again gets no more time than one that never answers.
uint64_t lead_late_ns(const struct node *node) {
  uint64_t deadline = node->lead->deadline_ns, grace = node->store.silent_ns ? CLOCK_NEVER : node->store.lease_grace_ns;
  uint64_t last = deadline + (node_store_timeout_s(node) + RUN_LEASE_TTL_S) * UINT64_C(1000000000);
  uint64_t late = deadline > grace ? deadline : grace;
  return late < last ? late : last;
}

static uint64_t phase_budget_ms(const struct run_config *config) {
  return (uint64_t)config->startup_timeout_s * 1000 +
         ((uint64_t)config->iterations + config->warmup + SPARE_OPERATIONS) * config->timeout_ms;
}

void lead_resume_phase(struct node *node) {
  struct lead *lead = node->lead;
  lead->resumes = false;
  lead->state = LEAD_RUNS; // the phase may have ended, with the lead waiting for slots for the next one
  lead->phases[node->phase.current].end_ns = 0;
  lead->deadline_ns = clock_deadline_ms(phase_budget_ms(&node->config));
  publish_phase(node);
}

static bool is_done(const struct node *node, uint32_t phase, int32_t rank) {
  if (run_roster_dies(node->plan, node->config.negative, phase, rank))
    return lead_seat(node, lead_launch_phase(node, phase, rank), rank)->ended;
  const struct seat *seat = lead_seat(node, phase, rank);
  bool newest = seat->has_record && seat->record.losses_known == (int32_t)node->losses.num_lost;
  return newest && seat->record.rank.state == RESULTS_PASSED;
}

// Adds the ranks that have not completed the phase; with `started` false, only those that have not started it either.
// Returns how many.
static uint32_t missing_ranks(const struct node *node, const int32_t *ranks, uint32_t count, bool started,
                              struct text *text) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < count; i++) {
    bool done = is_done(node, node->phase.current, ranks[i]); // a rank that dies may not have reported its start
    if (!done && (started || !lead_seat(node, node->phase.current, ranks[i])->started)) {
      text_add(text, "%s%d", missing ? " " : "", ranks[i]);
      missing++;
    }
  }
  return missing;
}

static int too_late(const struct node *node, const char *missing) {
  const struct lead *lead = node->lead;
  const struct plan_ranks *joins = &node->plan->phases[node->phase.current].joins;
  uint32_t slots = lead_slots(lead), agents = 0;
  for (uint32_t i = 0; i < lead->num_nodes; i++)
    agents += lead->nodes[i].here;
  if (lead->all_started)
    return fail(WEFT_ERR_TIMEOUT, "phase %u: rank %s did not finish it in time", node->phase.current, missing);
  for (uint32_t i = 0; i < joins->count; i++)
    if (!node_launch_of(node, node->phase.current, joins->rank[i])->claimed)
      return fail(
          WEFT_ERR_TIMEOUT,
          "phase %u: no agent launched rank %d within %u s; %u agent%s %s %u slot%s in all, and this agent %u free",
          node->phase.current, joins->rank[i], node->config.startup_timeout_s, agents, text_s(agents),
          agents == 1 ? "has" : "have", slots, text_s(slots), node_free_slots(node));
  return fail(WEFT_ERR_TIMEOUT, "phase %u: rank %s did not start it within %u s (logs in %s)", node->phase.current,
              missing, node->config.startup_timeout_s, node->directory.path);
}

int lead_gather_slots(struct node *node, uint32_t phase) {
  struct lead *lead = node->lead;
  uint32_t slots = lead_slots(lead), need = node->plan->phases[phase].num_processes;
  bool waits = lead->state == LEAD_GATHERS && lead->awaited == phase;
  if (slots >= need) { // if no more nodes can join, this is checked before the first phase
    int err = lead_check_gpus(lead);
    lead->state = LEAD_RUNS;
    return err ? err : lead_begin_phase(node, phase);
  }
  if (!waits) {
    lead->state = LEAD_GATHERS;
    lead->awaited = phase;
    if (node->config.agents == RUN_AGENTS_ELASTIC)
      lead_show_missing(node, need - slots);
    lead->deadline_ns = clock_deadline_ms((uint64_t)node->config.startup_timeout_s * 1000);
  }
  progress_show(&node->progress, true, "phase %u waits for other agents: %u more process slot%s", phase, need - slots,
                text_s(need - slots));
  return clock_passed(lead_late_ns(node))
             ? fail(WEFT_ERR_TIMEOUT,
                    "phase %u needs %u process slot%s, but the agents here have %u: no agent with the missing %u "
                    "joined within %u s (--num-processes, --startup-timeout)",
                    phase, need, text_s(need), slots, need - slots, node->config.startup_timeout_s)
             : 0;
}

static int end_phase(struct node *node) {
  struct lead *lead = node->lead;
  lead->phases[node->phase.current].end_ns = clock_ns();
  run_directory_event(&node->directory, "phase_end", json_pack("{s:i}", "phase", (int)node->phase.current));
  if (node->phase.current + 1 < node->plan->num_phases)
    return lead_gather_slots(node, node->phase.current + 1);
  lead->state = LEAD_ENDS;
  lead->deadline_ns = clock_deadline_ms(END_MS + node->config.timeout_ms);
  node->phase.current = node->plan->num_phases;
  publish_phase(node);
  return 0;
}

int lead_run_phase(struct node *node) {
  struct lead *lead = node->lead;
  int32_t *ranks = malloc((node->plan->ranks.count + 1) * sizeof *ranks);
  if (!ranks)
    return fail(WEFT_ERR_NOMEM, "no memory for a phase");
  uint32_t count = run_roster_start(node->plan, node->config.negative, node->phase.current, ranks);
  struct text text = {0};
  uint32_t missing = missing_ranks(node, ranks, count, lead->all_started, &text);
  if (missing == 0 && !lead->all_started) {
    lead->all_started = true;
    lead->deadline_ns = clock_deadline_ms(phase_budget_ms(&node->config));
    missing = missing_ranks(node, ranks, count, true, &text);
  }
  progress_show(&node->progress, false, "phase %u (%u of %u)  [%u rank%s]  %s %s", node->phase.current,
                node->phase.current + 1, node->plan->num_phases, count, count == 1 ? "" : "s",
                lead->all_started ? "running" : "joining", text.data ? text.data : "");
  int err = 0;
  if (missing == 0)
    err = end_phase(node);
  else if (clock_passed(lead_late_ns(node)))
    err = too_late(node, text.data);
  text_free(&text);
  free(ranks);
  return err;
}

// Every process that was launched has to end by itself.
int lead_end_run(struct node *node) {
  const struct plan_ranks *ranks = &node->plan->ranks;
  struct text missing = {0};
  for (uint32_t p = 0; p < node->plan->num_phases; p++)
    for (uint32_t i = 0; i < ranks->count; i++)
      if (plan_ranks_contain(&node->plan->phases[p].joins, ranks->rank[i]) &&
          !lead_seat(node, p, ranks->rank[i])->ended)
        text_add(&missing, " %d", ranks->rank[i]);
  int err = 0;
  if (missing.size == 0)
    node->end.over = node->lead->failure.weight == 0; // otherwise the lead still has to decide on the reason
  else if (clock_passed(lead_late_ns(node)))
    err = fail(WEFT_ERR_TIMEOUT, "the plan is done, but these ranks did not end:%s", missing.data);
  text_free(&missing);
  return err;
}
