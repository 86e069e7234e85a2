// An elastic plan: which ranks are live in which phase. A plan is written as a JSON list of phases, each a non-empty
// list of integers. In a phase, a rank written as `r` is active. A rank written as `-r` is active when the phase starts
// and is lost in its first dispatch. A rank that was in the phase before and is not named in this one leaves when this
// phase starts. A rank that comes back joins as a new incarnation.
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

enum {
  PLAN_MAX_BYTES = 1 << 20, // of a plan's text
  PLAN_MAX_PHASES = 4096,
};

struct plan_ranks {
  uint32_t count;
  int32_t *rank; // ascending
};

struct plan_phase {
  struct plan_ranks live;    // active to the phase's end
  struct plan_ranks joins;   // of `live`: not active at the end of the phase before, so launched for this phase
  struct plan_ranks rejoins; // of `joins`: active in an earlier phase
  struct plan_ranks leaves;  // active at the end of the phase before, not named in this one
  struct plan_ranks kills;   // active at the end of the phase before, lost in this one's first dispatch
  // Live at once: live and kills. Leavers are gone before joiners are launched, but one where none of the phase before
  // stays: whoever joins needs somebody to join.
  uint32_t num_processes;
};

// Read-only after it was made, except for plan_lose(): any thread may read it.
struct plan {
  struct plan_phase *phases;
  uint32_t num_phases;
  struct plan_ranks ranks; // every rank that the plan ever names
  uint32_t capacity;       // highest rank + 1
  uint32_t num_processes;  // process slots that the plan needs: the largest number in any phase
  uint32_t num_launches;   // joins of all phases, including phase 0
};

// The largest number of processes that are live at the same time in this phase, computed from its lists.
uint32_t plan_phase_processes(const struct plan_phase *phase);

// The role of a rank in a phase.
enum plan_role {
  PLAN_NOT_MEMBER,
  PLAN_MEMBER,  // active before, and on
  PLAN_JOINS,   // first time active
  PLAN_REJOINS, // active in an earlier phase, not in the one before
  PLAN_LEAVES,  // active in the phase before, not in this one
  PLAN_KILLED,  // active in the phase before, lost in this one
};

// Parses and checks `size` bytes of JSON. INVALID: the last error says what is wrong, in which phase and at which
// position (both counted from 0), and what would be right. On success `*plan` is the caller's, to be freed with
// plan_free().
int plan_from_text(struct plan **plan, const char *text, size_t size);

// The same for a file; errors name it. SYSTEM: it cannot be read.
int plan_load(struct plan **plan, const char *path);

void plan_free(struct plan *plan); // NULL is legal

// The plan as the list of lists that plan_from_text() reads, with the ranks of each phase in ascending order. NULL:
// memory ran out.
json_t *plan_to_json(const struct plan *plan);

// Records that a run has lost `rank` in `phase` though the plan does not say so: the rank is no longer live in this
// phase, and joins in the next phase if that phase has it live. If the rank is not live in `phase`, nothing changes. No
// other thread may read the plan during the call.
void plan_lose(struct plan *plan, uint32_t phase, int32_t rank);

bool plan_ranks_contain(const struct plan_ranks *ranks, int32_t rank);

// `phase` is below num_phases; `rank` may be any number.
enum plan_role plan_rank_role(const struct plan *plan, uint32_t phase, int32_t rank);

// INVALID: the error names the first phase that has more live ranks than there are process slots.
int plan_check_slots(const struct plan *plan, uint32_t slots);
// The same; the error names `option` as what gives the slots.
int plan_check_slots_of(const struct plan *plan, uint32_t slots, const char *option);

// Writes what each phase adds, removes, kills and needs, as a table at most `width` columns wide (0: any width) or as
// JSON. SYSTEM: `out` cannot be written.
int plan_describe(FILE *out, const struct plan *plan, bool json, size_t width);

#endif
