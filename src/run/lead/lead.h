// What the lead knows of the whole run, from the store.
#ifndef RUN_LEAD_LEAD_H
#define RUN_LEAD_LEAD_H

#include "run/node/node.h"

enum { LEAD_ERROR_SIZE = 1024 };

// One rank in one phase.
struct seat {
  bool started;    // came through the transition into the phase
  bool has_record; // has done its part of it
  struct run_record record;
  bool ended, planned;      // the process launched for this phase has ended, as the plan has it
  uint64_t kill_ns;         // when it died as planned; 0: it did not
  char boot[RUN_BOOT_SIZE]; // of the host whose clock that is
};

struct seen_agent {
  bool here;
  uint32_t slots;
  char host[64];
  json_t *gpus; // names of those that it uses
  bool shares_gpus;
};

enum lead_state { LEAD_GATHERS, LEAD_RUNS, LEAD_ENDS };

// Why the run ends. A consequence ("rank 3 was lost") waits a moment for its cause ("rank 3 was ended by signal 11").
struct lead_failure {
  int weight; // 0: none yet; the heaviest counts, and of those the first
  int err;
  bool gave_reason[WEFT_EP_MAX_CAPACITY]; // the rank has given one: that others lost it is a consequence
  char text[LEAD_ERROR_SIZE];
  uint64_t decide_ns;
};

struct lead {
  char started[32]; // RFC 3339
  uint64_t started_ns;
  enum lead_state state;
  uint64_t deadline_ns; // of the state, or of the phase's start
  bool showed_token;
  bool all_started;          // of the phase in progress
  struct seat *seats;        // [num_phases][plan->ranks.count]
  struct seen_agent *agents; // [num_agents]
  uint32_t num_agents;
  struct lead_failure failure;
};

// NULL: the plan never names the rank, or has no such phase.
struct seat *lead_seat(const struct agent *agent, uint32_t phase, int32_t rank);

// The phase for which the process was launched that is `rank` in `phase`.
uint32_t lead_launch_phase(const struct agent *agent, uint32_t phase, int32_t rank);

// root_cause.c: weighs a reason from fail/ or exit/.
void lead_note_report(struct agent *agent, const json_t *report);
void lead_note_exit(struct agent *agent, const json_t *exit);
// The failure once it is decided on, else 0.
int lead_failed(const struct agent *agent);

#endif
