// The lead's data about the whole run, which it gets from the store.
#ifndef RUN_LEAD_LEAD_H
#define RUN_LEAD_LEAD_H

#include "base/ep_limits.h"
#include "run/node/node.h"

enum { LEAD_ERROR_SIZE = 1024 };

// One rank in one phase.
struct seat {
  bool started;    // has completed the transition into the phase
  bool has_record; // has completed its part of the phase
  struct run_record record;
  uint64_t started_ns, record_ns, ended_ns; // when the lead first learned of these, by its clock; 0: not yet
  bool ended, planned;      // ended: the process launched for this phase has ended; planned: according to the plan
  uint64_t kill_ns;         // when it died as planned; 0: it did not die
  char boot[RUN_BOOT_SIZE]; // boot id of the host whose clock gave kill_ns
  bool gone;                // lost with its agent, or leaves with it: its end is no failure
  char still[240];          // text: how the process launched for this phase stands still; "": it does not
};

struct seen_node {
  bool here;   // the node is present: its slots count
  bool leaves; // it has announced that it leaves
  bool gone;   // it was present, and the run goes on without it
  uint32_t slots;
  char host[64];
  json_t *gpus; // names of the GPUs that it uses
  bool shares_gpus;
  char boot[RUN_BOOT_SIZE];
  char cpus[RUN_CPUS_SIZE]; // processors that it may run on
  uint32_t processors;      // how many of them it may use at the same time
  char error[200];          // why it ends, as it reported; "": no report
};

// A rank that the run lost with its agent: one entry for each of node->losses.
struct lead_loss {
  uint32_t agent;
  char host[64], error[200]; // of the agent
};

// Times by the lead's clock; 0: not yet.
struct phase_times {
  uint64_t begin_ns, end_ns;
};

enum lead_state { LEAD_GATHERS, LEAD_RUNS, LEAD_ENDS };

// Why the run ends. A consequence ("rank 3 was lost") waits a moment for its cause ("rank 3 was ended by signal 11").
struct lead_failure {
  int weight; // 0: no failure yet; the failure with the largest weight counts, and of several the first
  int err;
  bool gave_reason[EP_MAX_CAPACITY]; // the rank has given a reason: that others lost it is a consequence
  char text[LEAD_ERROR_SIZE];
  uint64_t decide_ns;
};

struct lead {
  char started[32]; // RFC 3339
  uint64_t started_ns;
  enum lead_state state;
  uint64_t deadline_ns;       // of the state, or of the phase's start
  bool resumes;               // the phase has lost ranks, and has to be measured again
  bool showed_command;        // the command for other agents has been printed
  uint32_t awaited;           // if other agents may come: the phase that waits for slots
  bool all_started;           // all ranks of the phase in progress have started
  struct phase_times *phases; // [num_phases]
  struct seat *seats;         // [num_phases][plan->ranks.count]
  struct seen_node *nodes;    // [num_nodes]
  uint32_t num_nodes;         // entries of `nodes`
  struct lead_loss *losses;   // [node->losses.num_lost]
  struct lead_failure failure;
};

// The role of the node that leads, for node_open().
extern const struct node_role lead_role;

// seats.c. Returns NULL if the plan never names the rank, or has no such phase.
struct seat *lead_seat(const struct node *node, uint32_t phase, int32_t rank);

// The phase for which the process of `rank` in `phase` was launched.
uint32_t lead_launch_phase(const struct node *node, uint32_t phase, int32_t rank);

// The host of the process of `rank` in `phase`; "": no node has launched it yet.
const char *lead_rank_host(const struct node *node, uint32_t phase, int32_t rank);

// Adds "rank 3 on oak01", or "rank 3" if the host is not known.
void lead_describe_rank(const struct node *node, uint32_t phase, int32_t rank, struct text *text);

// nodes.c: takes a change of the key agent/<id>.
int lead_take_node(struct node *node, const struct run_change *change, const char *id);
int lead_check_gpus(const struct lead *lead); // UNSUPPORTED: two nodes of one host use one GPU, and do not share it
uint32_t lead_slots(const struct lead *lead); // slots of all nodes that are present
// if other agents may come: shows which phases need them, and how they are started
void lead_show_needs(struct node *node);
void lead_show_missing(struct node *node, uint32_t slots); // shows how to start an agent that brings so many slots
void lead_show_waiting(struct node *node, uint32_t here);
void lead_forget_nodes(struct node *node);
int lead_lose_missing(struct node *node); // calls lead_lose_node() for the nodes that lead_missing_nodes() names
// Adds the names of the missing nodes to the text; returns their number.
uint32_t lead_missing_nodes(const struct node *node, struct text *text);
// Informs the other nodes of the end, and waits until they have ended, so that none of them loses the store before.
void lead_dismiss(struct node *node, int status, const char *error);

// losses.c: handles the end of other agents if the run goes on without them (--agents elastic). The agent has ended, or
// leaves: its slots do not count any more, and its ranks are lost. PEER_LOST: the run cannot go on without them.
int lead_lose_node(struct node *node, uint32_t number, bool leaves);
// Whether a report about the rank's process that was launched for phase `launched` is a consequence of such a loss.
bool lead_expects_end(const struct node *node, uint32_t launched, int32_t rank);
// Takes an agent's last report, from the key fail/agent-<number>; false: its end ends the run.
bool lead_take_last_word(struct node *node, const char *number, const json_t *report);
// Writes how the rank was lost in the phase into a row of the results; false: it was not lost.
bool lead_describe_loss(const struct node *node, uint32_t phase, struct results_rank *row);

// phase.c. Makes the phase continue (with fewer ranks, if the run has lost some): the whole phase is measured again.
void lead_resume_phase(struct node *node);
int lead_gather_slots(struct node *node, uint32_t phase); // begins the phase, or waits for nodes that bring the slots
int lead_begin_phase(struct node *node, uint32_t phase);
int lead_run_phase(struct node *node); // ends the phase when all ranks have completed it, and begins the next one
int lead_end_run(struct node *node);   // after the last phase: `end.over` when every process has ended
uint64_t lead_late_ns(const struct node *node);

// root_cause.c: evaluates a reason from fail/ or exit/.
void lead_record_report(struct node *node, const json_t *report);
void lead_note_exit(struct node *node, const json_t *exit);
// Returns the failure once it is decided, else 0.
int lead_failed(const struct node *node);

// standstill.c
void lead_take_still(struct node *node, struct seat *seat, const json_t *still);
// If the run ends because something did not arrive, ranks that stand still are the cause: the error names them first.
// Returns `err`.
int lead_blame_standing(const struct node *node, int err);

// stalls.c
// the rank was present before the phase, and after it
bool lead_is_survivor(const struct node *node, uint32_t phase, int32_t rank);
void lead_fill_stall(const struct node *node, struct results_transition *change);

// times.c: when phases began and ended, and changes took effect.
void lead_fill_phase_times(const struct node *node, struct results_phase *phase);
// `view`: the view with which a join or departure took effect, as a rank of the host `boot` saw it; NULL: none.
double lead_change_time(const struct node *node, const struct results_transition *change, const struct run_view *view,
                        const char *boot);

// processors.c: records which processors the ranks shared. NOMEM.
int lead_fill_processors(const struct node *node, struct results *results);

// bound.c: writes the bound of the hardware into the configuration, if ranks moved anything. The phases must be filled
// before.
void lead_fill_bound(struct results *results);

// results.c: writes results.json and the report. `error`: why the run ended early, or "".
int lead_finish(struct node *node, int status, const char *error);
// For a run that ended before it began, without a phase: with --json prints the results, and writes the files of --html
// and --prometheus, since those of an earlier run would be taken for its own. The node needs its plan.
int lead_finish_unopened(struct node *node, int status, const char *error);

#endif
