// What the lead knows of the whole run, from the store.
#ifndef RUN_LEAD_LEAD_H
#define RUN_LEAD_LEAD_H

#include "base/ep_limits.h"
#include "run/node/node.h"

enum { LEAD_ERROR_SIZE = 1024 };

// One rank in one phase.
struct seat {
  bool started;    // came through the transition into the phase
  bool has_record; // has done its part of it
  struct run_record record;
  uint64_t started_ns, record_ns, ended_ns; // when the lead first heard of these, by its clock; 0: not yet
  bool ended, planned;                      // the process launched for this phase has ended, as the plan has it
  uint64_t kill_ns;                         // when it died as planned; 0: it did not
  char boot[RUN_BOOT_SIZE];                 // of the host whose clock that is
  bool gone;                                // it was lost with its agent, or leaves with it: its end is no failure
  char still[240]; // that the process launched for this phase stands still, in words; "": it does not
};

struct seen_node {
  bool here;   // its slots count
  bool leaves; // it has said so
  bool gone;   // it was here, and the run goes on without it
  uint32_t slots;
  char host[64];
  json_t *gpus; // names of those that it uses
  bool shares_gpus;
  char boot[RUN_BOOT_SIZE];
  char cpus[RUN_CPUS_SIZE]; // processors that it may run on
  uint32_t processors;      // that it may use of them at once
  char error[200];          // why it ends, in its own words; "": it has not said
};

// A rank that the run lost with its agent: one for each of node->losses.
struct lead_loss {
  uint32_t agent;
  char host[64], error[200]; // of the agent
};

// By the lead's clock; 0: not yet.
struct phase_times {
  uint64_t begin_ns, end_ns;
};

enum lead_state { LEAD_GATHERS, LEAD_RUNS, LEAD_ENDS };

// Why the run ends. A consequence ("rank 3 was lost") waits a moment for its cause ("rank 3 was ended by signal 11").
struct lead_failure {
  int weight; // 0: none yet; the heaviest counts, and of those the first
  int err;
  bool gave_reason[EP_MAX_CAPACITY]; // the rank has given one: that others lost it is a consequence
  char text[LEAD_ERROR_SIZE];
  uint64_t decide_ns;
};

struct lead {
  char started[32]; // RFC 3339
  uint64_t started_ns;
  enum lead_state state;
  uint64_t deadline_ns;       // of the state, or of the phase's start
  bool resumes;               // the phase has lost ranks, and is to be measured again
  bool showed_command;        // how the others are started
  uint32_t awaited;           // where others come: the phase that waits for slots
  bool all_started;           // of the phase in progress
  struct phase_times *phases; // [num_phases]
  struct seat *seats;         // [num_phases][plan->ranks.count]
  struct seen_node *nodes;    // [num_nodes]
  uint32_t num_nodes;         // places for them
  struct lead_loss *losses;   // [node->losses.num_lost]
  struct lead_failure failure;
};

// The role of the node that leads, for node_open().
extern const struct node_role lead_role;

// seats.c. NULL: the plan never names the rank, or has no such phase.
struct seat *lead_seat(const struct node *node, uint32_t phase, int32_t rank);

// The phase for which the process was launched that is `rank` in `phase`.
uint32_t lead_launch_phase(const struct node *node, uint32_t phase, int32_t rank);

// The host on which the process is, or was, that is `rank` in `phase`; "": no node has launched it yet.
const char *lead_rank_host(const struct node *node, uint32_t phase, int32_t rank);

// Adds "rank 3 on oak01", or "rank 3" where no host is known.
void lead_describe_rank(const struct node *node, uint32_t phase, int32_t rank, struct text *text);

// nodes.c: takes a change of the key agent/<id>.
int lead_take_node(struct node *node, const struct run_change *change, const char *id);
int lead_check_gpus(const struct lead *lead); // UNSUPPORTED: two nodes of one host use one GPU, and do not share it
uint32_t lead_slots(const struct lead *lead); // of all nodes that have come
void lead_show_needs(struct node *node);      // where others come: which phases need them, and how they are started
void lead_show_missing(struct node *node, uint32_t slots); // how an agent is started that brings so many
void lead_show_waiting(struct node *node, uint32_t here);
void lead_forget_nodes(struct node *node);
int lead_lose_missing(struct node *node); // those that lead_missing_nodes() names, as by lead_lose_node()
// The nodes that the lead misses, in words; returns how many.
uint32_t lead_missing_nodes(const struct node *node, struct text *text);

// losses.c: the end of other agents, where the run goes on without them (--agents elastic).
// The agent has ended, or leaves: its slots are free, and the ranks that run there are lost. PEER_LOST: the run cannot
// go on without them.
int lead_lose_node(struct node *node, uint32_t number, bool leaves);
// Whether what is told of the rank's process that was launched for phase `launched` is the consequence of such a loss.
bool lead_expects_end(const struct node *node, uint32_t launched, int32_t rank);
// An agent's last word, from the key fail/agent-<number>; false: its end ends the run.
bool lead_take_last_word(struct node *node, const char *number, const json_t *report);
// How the rank was lost in the phase, in words, into a row of the results; false: it was not.
bool lead_describe_loss(const struct node *node, uint32_t phase, struct results_rank *row);

// phase.c
// Has the phase go on (with fewer ranks, when the run has lost some): all of it is measured again.
void lead_resume_phase(struct node *node);
int lead_gather_slots(struct node *node, uint32_t phase); // begins it, or waits for nodes that bring the slots
int lead_begin_phase(struct node *node, uint32_t phase);
int lead_run_phase(struct node *node); // ends it, and begins the next one, when all ranks have done it
int lead_end_run(struct node *node);   // after the last phase: `end.over` when every process has ended
uint64_t lead_late_ns(const struct node *node);

// root_cause.c: weighs a reason from fail/ or exit/.
void lead_record_report(struct node *node, const json_t *report);
void lead_note_exit(struct node *node, const json_t *exit);
// The failure once it is decided on, else 0.
int lead_failed(const struct node *node);

// standstill.c
void lead_take_still(struct node *node, struct seat *seat, const json_t *still);
// Ranks that stand still are at fault where the run ends because something did not come: they are named first in the
// error. Returns `err`.
int lead_blame_standing(const struct node *node, int err);

// stalls.c
bool lead_is_survivor(const struct node *node, uint32_t phase, int32_t rank); // there before the phase, and after it
void lead_fill_stall(const struct node *node, struct results_transition *change);

// times.c: when phases began and ended, and changes took effect.
void lead_fill_phase_times(const struct node *node, struct results_phase *phase);
// `view`: with which a join or departure took effect, as a rank of the host `boot` saw it; NULL: none did.
double lead_change_time(const struct node *node, const struct results_transition *change, const struct run_view *view,
                        const char *boot);

// processors.c: which processors the ranks shared. NOMEM.
int lead_fill_processors(const struct node *node, struct results *results);

// bound.c: what the hardware allows, into the configuration, where ranks moved anything. The phases are filled.
void lead_fill_bound(struct results *results);

// results.c: writes results.json and the report. `error`: why the run ended early, or "".
int lead_finish(struct node *node, int status, const char *error);

#endif
