// Ranks that stand still, on any host. The lead reports them, and names them first in an error of ranks that waited in
// vain.
#include "run/process/process_state.h"

#include <stdio.h>

#include "base/fail.h"
#include "base/printable.h"
#include "run/lead/lead.h"

enum { NAMED = 3 };

void lead_take_still(struct node *node, struct seat *seat, const json_t *still) {
  const char *what = json_string_value(json_object_get(still, "what"));
  bool own = json_integer_value(json_object_get(still, "agent")) == (json_int_t)node->id; // printed there already
  snprintf(seat->still, sizeof seat->still, "%s", what ? what : "");
  printable_line(seat->still);
  if (!own && seat->still[0])
    progress_say(&node->progress, "%s; others wait for it", seat->still);
}

// For a rank of this node the present state of its process counts, since a standstill may end the run before it has
// lasted long enough to be reported.
static const struct run_child *child_of(const struct node *node, uint32_t phase, int32_t rank) {
  for (uint32_t i = 0; i < node->slots; i++)
    if (node->children[i].pid && node->children[i].rank == rank && node->children[i].phase == phase)
      return &node->children[i];
  return NULL;
}

static bool is_stopped(const struct run_child *child, struct process_state *state) {
  return child && process_state_read(state, child->pid) && (state->state == 'T' || state->state == 't');
}

static void add(struct text *text, const char *what, uint32_t *count) {
  if (++*count <= NAMED)
    text_add(text, "%s%s", *count > 1 ? "; " : "", what);
}

static uint32_t add_standing(const struct node *node, struct text *text) {
  uint32_t count = 0;
  for (uint32_t p = 0; p < node->plan->num_phases; p++) {
    for (uint32_t i = 0; i < node->plan->ranks.count; i++) {
      int32_t rank = node->plan->ranks.rank[i];
      const struct seat *seat = lead_seat(node, p, rank);
      const struct run_child *child = child_of(node, p, rank);
      struct process_state state;
      char what[200];
      if (seat->ended)
        continue;
      if (seat->still[0]) {
        add(text, seat->still, &count);
      } else if (is_stopped(child, &state)) {
        snprintf(what, sizeof what, "rank %d on %s, process %ld, %s", rank, node->host, (long)child->pid,
                 process_state_standstill(state.state));
        add(text, what, &count);
      }
    }
  }
  if (count > NAMED)
    text_add(text, "; and %u more", count - NAMED);
  return count;
}

int lead_blame_standing(const struct node *node, int err) {
  struct text text = {0};
  if ((err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_PEER_LOST) && add_standing(node, &text))
    fail_context(err, "%s", text.data ? text.data : "a rank makes no progress");
  text_free(&text);
  return err;
}
