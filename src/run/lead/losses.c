// Agents that end or leave while the run goes on (--agents elastic): the ranks that ran there are lost in the current
// phase, which is then measured again without them. They join the next phase that names them, on any agent with free
// slots, as after a planned death.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "run/lead/lead.h"

static bool is_live(const struct node *node, int32_t rank) {
  return node->phase.current < node->plan->num_phases &&
         plan_ranks_contain(&node->plan->phases[node->phase.current].live, rank);
}

static int add_loss(struct node *node, uint32_t number, int32_t rank, bool leaves) {
  struct lead *lead = node->lead;
  const struct seen_node *seen = &lead->nodes[number];
  uint32_t count = node->losses.num_lost;
  struct lead_loss *grown = realloc(lead->losses, (count + 1) * sizeof *grown);
  if (!grown)
    return fail(WEFT_ERR_NOMEM, "no memory for %u lost ranks", count + 1);
  lead->losses = grown;
  grown[count] = (struct lead_loss){.agent = number};
  memcpy(grown[count].host, seen->host, sizeof seen->host);
  memcpy(grown[count].error, seen->error, sizeof seen->error);
  int err = run_current_add(&node->losses, &(struct run_lost){node->phase.current, rank, leaves});
  if (!err)
    plan_lose(node->plan, node->phase.current, rank);
  return err;
}

// Gives up the process that was launched on this agent for `phase`, unless it has ended: the process is gone with its
// agent, or will leave. Returns whether it was given up only now.
static bool give_up(const struct node *node, uint32_t number, uint32_t phase, int32_t rank, bool leaves) {
  const struct launch *launch = node_launch_of(node, phase, rank);
  struct seat *seat = lead_seat(node, phase, rank);
  if (!launch->claimed || launch->node != number || seat->ended)
    return false;
  bool known = seat->gone;
  seat->gone = true;
  seat->planned |= !leaves;
  seat->ended |= !leaves;
  return !known;
}

// Gives up every process of the node. Adds the ranks that the current phase loses with it to the losses, and to `text`.
// Returns an error, or the number of these ranks.
static int give_up_all(struct node *node, uint32_t number, bool leaves, struct text *text) {
  int count = 0;
  for (uint32_t p = 0; p <= node->phase.current && p < node->plan->num_phases; p++) {
    for (uint32_t i = 0; i < node->plan->ranks.count; i++) {
      int32_t rank = node->plan->ranks.rank[i];
      if (!give_up(node, number, p, rank, leaves) || !is_live(node, rank))
        continue;
      int err = add_loss(node, number, rank, leaves);
      if (err)
        return err;
      text_add(text, " %d", rank);
      count++;
    }
  }
  return count;
}

static const char *how(const struct seen_node *seen, bool leaves) {
  return leaves ? "leaves" : seen->leaves ? "has left" : seen->error[0] ? "has ended" : "has ended or is unreachable";
}

// Whether any rank has started. Before that the group does not exist, since each founder waits for all others.
static bool has_begun(const struct node *node) {
  bool any = node->phase.current > 0;
  for (uint32_t i = 0; i < node->plan->ranks.count && !any; i++)
    any = lead_seat(node, 0, node->plan->ranks.rank[i])->started;
  return any;
}

// Lets the run go on after the loss of `count` ranks, which `ranks` names.
static int go_on_without(struct node *node, uint32_t number, bool leaves, int count, const char *ranks) {
  const struct seen_node *seen = &node->lead->nodes[number];
  const char *s = text_s((uint64_t)count);
  uint32_t phase = node->phase.current;
  if (!has_begun(node))
    return fail(WEFT_ERR_PEER_LOST,
                "agent %u on %s %s, and with it rank%s%s, before the first operation: the others "
                "cannot begin without",
                number, seen->host, how(seen, leaves), s, ranks);
  if (node->plan->phases[phase].live.count == 0)
    return fail(WEFT_ERR_PEER_LOST, "agent %u on %s %s, and with it every rank of phase %u (%s)", number, seen->host,
                how(seen, leaves), phase, ranks + 1);
  progress_say(&node->progress, "agent %u on %s %s%s%s: phase %u goes on without rank%s%s", number, seen->host,
               how(seen, leaves), seen->error[0] ? ": " : "", seen->error, phase, s, ranks);
  node->lead->resumes = true;
  return 0;
}

int lead_lose_node(struct node *node, uint32_t number, bool leaves) {
  struct lead *lead = node->lead;
  struct seen_node *seen = &lead->nodes[number];
  struct text ranks = {0};
  if (seen->gone || (leaves && seen->leaves))
    return 0;
  int count = node->phase.begun ? give_up_all(node, number, leaves, &ranks) : 0;
  run_directory_event(&node->directory,
                      leaves         ? "agent_leaves"
                      : seen->leaves ? "agent_left"
                                     : "agent_lost",
                      json_pack("{s:i, s:s, s:i, s:s, s:s}", "agent", (int)number, "host", seen->host, "phase",
                                (int)node->phase.current, "ranks", ranks.data ? ranks.data + 1 : "", "error",
                                seen->error));
  int err = count > 0 ? go_on_without(node, number, leaves, count, ranks.data) : count;
  seen->here = false;
  seen->leaves |= leaves;
  seen->gone = !leaves;
  json_decref(seen->gpus); // another agent may use them
  seen->gpus = NULL;
  text_free(&ranks);
  return err;
}

bool lead_expects_end(const struct node *node, uint32_t launched, int32_t rank) {
  const struct seat *seat = lead_seat(node, launched, rank);
  return seat && seat->gone;
}

bool lead_take_last_word(struct node *node, const char *who, const json_t *report) {
  struct lead *lead = node->lead;
  unsigned number = 0;
  const char *error = json_string_value(json_object_get(report, "error"));
  if (node->config.agents != RUN_AGENTS_ELASTIC || sscanf(who, "agent-%9u", &number) != 1 || number == 0 ||
      number >= lead->num_nodes)
    return false;
  const char *words = error ? strstr(error, ": ") : NULL; // the text after the agent's name
  snprintf(lead->nodes[number].error, sizeof lead->nodes[number].error, "%s", words ? words + 2 : "?");
  printable_line(lead->nodes[number].error);
  return true;
}

bool lead_describe_loss(const struct node *node, uint32_t phase, struct results_rank *row) {
  const struct run_current *losses = &node->losses;
  for (uint32_t i = 0; i < losses->num_lost; i++) {
    const struct run_lost *lost = &losses->lost[i];
    const struct lead_loss *loss = &node->lead->losses[i];
    if (lost->phase != phase || lost->rank != row->rank)
      continue;
    row->state = lost->leaves ? RESULTS_LEFT : RESULTS_LOST;
    snprintf(row->reason, sizeof row->reason, "its agent, %u on %.64s, %s%.100s", loss->agent, loss->host,
             lost->leaves     ? "left"
             : loss->error[0] ? "ended: "
                              : "ended or was unreachable",
             loss->error);
    return true;
  }
  return false;
}
