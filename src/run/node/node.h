// What the files of the node agent share. One thread, one poll() loop; everything that agents and ranks tell each other
// goes through the store, so the lead does the same for its own ranks as for those of a follower.
#ifndef RUN_NODE_NODE_H
#define RUN_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

#include "base/text/text.h"
#include "plan/plan.h"
#include "run/common/config.h"
#include "run/common/keys.h"
#include "run/common/phase_record.h"
#include "run/common/store_json.h"
#include "run/common/store_writer.h"
#include "run/node/gpus.h"
#include "run/node/process.h"
#include "run/node/run_directory.h"
#include "run/node/terminal.h"
#include "secure/secret.h"

#define RUN_DEFAULT_JOB "elastic"

enum {
  RUN_DEFAULT_PORT = 9999,
  RUN_LEASE_TTL_S = 10,
  RUN_RENEW_MS = RUN_LEASE_TTL_S * 250, // a request that was lost leaves the time for two more
};

struct lead;

// How a launch stands: who has claimed it, and what is known of its process.
struct launch {
  bool claimed;
  bool asked; // this agent has asked for it and has no answer: the claim that shows may be its own
  uint32_t agent;
};

// Putting the run back into a store that has forgotten it (restore.c).
enum restore_stage {
  RESTORE_NONE,
  RESTORE_WRITE,  // the reporter writes everything again
  RESTORE_GATHER, // the lead waits for the other agents, they wait for the lead's word
};

struct agent_restore {
  bool look; // find out what the store has
  enum restore_stage stage;
  uint64_t deadline_ns;
  bool forgot;        // the store did not have the run
  int64_t done_lease; // the run's lease when the lead said that all is back
};

struct agent {
  struct run_config config;           // as given; a follower's shared part comes from the lead
  char made_token[SECRET_DIGITS + 1]; // of a lead with a store of its own, when none was given; "": none was made
  const char *job;
  char run[RUN_UUID_SIZE];
  struct run_keys keys;
  struct plan *plan;
  char host[64], boot[RUN_BOOT_SIZE];
  bool leads;
  uint32_t id, slots;
  struct run_gpus gpus;
  uint32_t num_places; // of a follower: agents that the lead expects
  bool registered;     // of a follower: it has one of them

  weft_store_server_t *server; // of a lead without a store
  weft_store_t *store;
  char *endpoints;
  char store_version[64];
  int64_t run_lease, own_lease; // the same for the lead; 0: none yet
  uint64_t renew_ns;            // when the lease is to be renewed next
  uint64_t silent_ns;           // since when the store has not answered; 0: it does
  uint64_t wary_ns;             // until then, a lease that ran out may have run out because the store was away
  uint64_t retry_ns;            // when something is to be tried again; CLOCK_NEVER: nothing is
  struct run_inbox *inbox;
  struct run_reporter *reporter;
  struct agent_restore restore;

  struct run_directory directory;
  struct progress progress;
  struct run_child *children; // [slots]
  struct launch *launches;    // [num_phases][plan->ranks.count]
  bool begun;                 // a phase has begun
  uint32_t current;           // which; num_phases: the end
  struct lead *lead;          // of the lead

  int signal_fd;
  int signal_number;   // that asked to stop; 0: none
  bool over;           // the loop ends
  int status;          // exit status then
  char end_error[900]; // of a follower: why the lead ended the run before its time
};

// open.c: finds or makes the run: store, role, run directory. After an error, too, close with agent_close(),
// which leaves the signals blocked and signal_fd open.
int agent_open(struct agent *agent);
void agent_close(struct agent *agent);

// INVALID: no other agents are expected, and the plan needs more slots than this one is told to have.
int agent_check_slots(const struct agent *agent);

// Settles which memory the run uses (run/node/gpus.h) and with it, on GPUs, how many ranks this agent has room for.
// Before the run or this agent is told to anybody.
int agent_choose_memory(struct agent *agent);

// Waits for up to `ms` or until a signal asks to stop; CANCELED then. For the waits before the loop.
int agent_pause(struct agent *agent, int ms);

// rendezvous.c: opens the store and decides who leads; a follower has the lead's configuration and plan then.
int agent_rendezvous(struct agent *agent);
// Makes a step of the beginning, again and again for as long as the store, which has answered once, does not. A step is
// such that it may be made when it was carried out before.
int agent_insist(struct agent *agent, int (*step)(struct agent *agent));
int agent_grant_lease(struct agent *agent);
int agent_register(struct agent *agent, bool *created);                           // the key agent/<id>
int agent_create_run(struct agent *agent, bool *created);                         // the key of the live run
int agent_refuse(const struct agent *agent, const json_t *live, const char *why); // BUSY: the job is run by another

// loop.c: until the run is over.
int agent_run(struct agent *agent);
// Ends every child: asks, waits, kills. Returns when they are gone.
void agent_end_children(struct agent *agent);

// How long the store may be away, or not have the run, before that ends the run.
uint32_t agent_patience_s(const struct agent *agent);
// Looks at everything again a little later.
void agent_retry(struct agent *agent);

// restore.c: the store has forgotten something, or may have.
void agent_restore_begin(struct agent *agent);
bool agent_restore_is_on(const struct agent *agent);
int agent_restore_step(struct agent *agent);
// The agents that the lead misses, in words; returns how many.
uint32_t agent_restore_missing(const struct agent *agent, struct text *text);

// launch.c
struct launch *agent_launch_of(const struct agent *agent, uint32_t phase, int32_t rank); // NULL: the plan has none
uint32_t agent_free_slots(const struct agent *agent);
// Claims and starts what `phase` adds, as far as there are free slots and others have not.
int agent_launch(struct agent *agent, uint32_t phase);
// Tells the store how a child ended.
void agent_tell_exit(struct agent *agent, const struct run_child *child, int status);

// lead/lead.c
int lead_open(struct agent *agent);
void lead_close(struct agent *agent);
int lead_take(struct agent *agent, const struct run_news *news); // one change in the store
int lead_step(struct agent *agent);                // goes on as far as it can; sets `over` when the run has ended
uint64_t lead_deadline(const struct agent *agent); // when lead_step() has something to do even without news

// lead/results.c: writes results.json and the report. `error`: why the run ended early, or "".
int lead_finish(struct agent *agent, int status, const char *error);

#endif
