// A node of a run: one process of `weft elastic`, which users know as an agent (--num-agents). One thread, one poll()
// loop; nodes and ranks speak with each other through the store only, so the lead does the same for its own ranks as
// for those of a follower.
#ifndef RUN_NODE_NODE_H
#define RUN_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

#include "base/text/text.h"
#include "plan/plan.h"
#include "run/common/config.h"
#include "run/common/current.h"
#include "run/common/keys.h"
#include "run/common/phase_record.h"
#include "run/common/progress.h"
#include "run/common/store_json.h"
#include "run/common/store_writer.h"
#include "run/directory/run_directory.h"
#include "run/node/gpus.h"
#include "run/node/metrics.h"
#include "run/node/probe.h"
#include "run/process/process.h"
#include "secure/secret.h"

#define RUN_DEFAULT_JOB "elastic"

enum {
  RUN_DEFAULT_PORT = 9999,
  RUN_LEASE_TTL_S = 10,
  RUN_RENEW_MS = RUN_LEASE_TTL_S * 250, // a request that was lost leaves the time for two more
};

struct lead;
struct node;

// How a launch stands: which node has claimed it.
struct launch {
  bool claimed;
  bool asked; // this node has asked for it and has no answer: the claim that shows may be its own
  uint32_t node;
};

// What a node does as the lead of a run, or as a follower. Functions that return int fail with a reason of the run's.
struct node_role {
  int (*open)(struct node *node);                                  // when the store is there, before the loop
  int (*take)(struct node *node, const struct run_change *change); // one change in the store
  int (*step)(struct node *node);                                  // goes on as far as it can; may set `end.over`
  uint64_t (*deadline)(const struct node *node);                   // when step() has something to do even without news
  void (*forget_nodes)(struct node *node); // the store is read again: each node is to show itself
  uint32_t (*missing)(const struct node *node, struct text *text); // adds the nodes that are missed; returns how many
  int (*lose_missing)(struct node *node); // has the run go on without those, where it can: else an error
  void (*close)(struct node *node);       // after an error of open(), and without it, too
};

// Putting the run back into a store that has forgotten it (restore.c).
enum restore_stage {
  RESTORE_NONE,
  RESTORE_WRITE,  // the reporter writes everything again
  RESTORE_GATHER, // the lead waits for the other nodes, they wait for the lead's word
};

struct node_restore {
  bool look; // find out what the store has
  enum restore_stage stage;
  uint64_t deadline_ns;
  bool forgot;        // the store did not have the run
  int64_t done_lease; // the run's lease when the lead said that all is back
};

// The store, and whether it answers.
struct node_store {
  weft_store_server_t *server; // of a lead without a store
  weft_store_t *client;
  char *endpoints;
  bool of_lead; // of a follower: it is the one inside the lead
  char version[64];
  int64_t run_lease, own_lease; // the same for the lead; 0: none yet
  uint64_t renew_ns;            // when the lease is to be renewed next
  uint64_t silent_ns;           // since when the store has not answered; 0: it does
  uint64_t wary_ns;             // until then, a lease that ran out may have run out because the store was away
};

// Of a follower: whether it has one of the places that the lead keeps for nodes.
struct node_place {
  uint32_t expected; // nodes that the lead expects
  bool taken;
};

struct node_phase {
  bool begun;       // a phase has begun
  uint32_t current; // which; num_phases: the end
};

// Of a follower whose leaving costs the run nothing but its ranks (--agents elastic).
struct node_leave {
  bool asked; // by SIGTERM: it launches nothing any more
  bool told;  // the store has it, so the lead does
  uint64_t deadline_ns;
};

struct node_end {
  bool over;       // the loop ends
  int status;      // exit status then
  char error[900]; // of a follower: why the lead ended the run before its time
};

struct node {
  struct run_config config;           // as given; a follower's shared part comes from the lead
  char made_token[SECRET_DIGITS + 1]; // of a lead with a store of its own, when none was given; "": none was made
  const char *job;
  char run[RUN_UUID_SIZE];
  struct run_keys keys;
  struct plan *plan;         // as it is now: what the run has lost is out of it
  json_t *plan_given;        // as it was given here; NULL: it was not
  struct run_current losses; // those that `plan` has no more; the phase is not used

  char host[64], boot[RUN_BOOT_SIZE];
  bool leads;
  const struct node_role *role;
  struct lead *lead; // of the lead's role
  uint32_t id, slots;
  struct run_gpus gpus;
  struct node_probe probe; // of the lead
  struct node_place place;

  struct node_store store;
  struct run_inbox *inbox;
  struct run_reporter *reporter;
  struct node_restore restore;
  uint64_t retry_ns; // when something is to be tried again; CLOCK_NEVER: nothing is
  uint64_t look_ns;  // when the rank processes are looked at next; 0: when there are some

  struct run_directory directory;
  struct progress progress;
  struct node_metrics metrics;
  struct run_child *children; // [slots]
  uint32_t num_started;       // ranks, by this node
  struct launch *launches;    // [num_phases][plan->ranks.count]
  struct node_phase phase;
  struct node_leave leave;

  int signal_fd;
  int signal_number; // that asked to stop; 0: none
  struct node_end end;
};

// open.c: finds or makes the run: store, role, run directory. `lead`: the role of a node that leads. After an error,
// too, close with node_close(), which leaves the signals blocked and signal_fd open.
int node_open(struct node *node, const struct node_role *lead);
void node_close(struct node *node);

// follower.c
extern const struct node_role node_follower;

// signals.c
int node_open_signals(struct node *node);
void node_take_signal(struct node *node);                        // into signal_number, when signal_fd is readable
int node_interrupted(const struct node *node);                   // CANCELED, with the reason that signal_number gives
void node_add_phase(const struct node *node, struct text *text); // where a run ends, behind the reason; or nothing
// Waits for up to `ms` or until a signal asks to stop; CANCELED then. For the waits before the loop.
int node_pause(struct node *node, int ms);

// capacity.c. Where nobody said how many nodes there are: too few slots here mean that others will come, up to one for
// each slot that is missing.
void node_expect_others(struct node *node);
// INVALID: no other nodes are expected, and the plan needs more slots than this one is told to have.
int node_check_slots(const struct node *node);
// How many nodes the run has places for, the lead among them. Where they come and go, one that has gone keeps its place
// for the life of a lease, and another may be there already.
uint32_t node_places(const struct node *node);
// Settles which memory the run uses (run/node/gpus.h) and with it, on GPUs, how many ranks this node has room for.
// Before the run or this node is published.
int node_choose_memory(struct node *node);
// probe.c: for throughput and packed rows: which of what a run checks the library has. What it lacks goes into
// config.left_out and node->probe; UNSUPPORTED where the run needs it. Before there is a thread, and before
// node_choose_memory().
int node_probe(struct node *node);
int node_make_room(struct node *node); // allocates `children` and `launches`

// find_lead.c
int node_open_client(struct node *node, const char *endpoints, weft_store_t **client); // as the configuration has it
// Of a node that follows: finds the live run, in the store that it is given or the one inside the lead, and opens that
// store. TIMEOUT: none has it; UNREACHABLE: no store answered; INVALID: it is in one for which there is no token.
int node_find_lead(struct node *node, json_t **live);

// rendezvous.c: opens the store and decides who leads; a follower has the lead's configuration and plan then.
int node_rendezvous(struct node *node);
// Makes a step of the beginning, again and again for as long as the store, which has answered once, does not. A step is
// such that it may be made when it was carried out before.
int node_insist(struct node *node, int (*step)(struct node *node));
int node_grant_lease(struct node *node);
int node_register(struct node *node, bool *created);                           // the key agent/<id>
int node_publish_leaving(struct node *node);                                   // the same, when it leaves
int node_create_run(struct node *node, bool *created);                         // the key of the live run
int node_refuse(const struct node *node, const json_t *live, const char *why); // BUSY: the job is run by another

// loop.c: until the run is over.
int node_run(struct node *node);

// children.c: reads what the rank processes say, and publishes the ends of those that have ended.
void node_serve_children(struct node *node);
// Ends every child: asks, waits, kills. Returns when they are gone.
void node_end_children(struct node *node);

// standstill.c: looks now and then whether rank processes stand still. One that does is named on the screen once, and
// under still/ in the store, until it goes on.
void node_watch_children(struct node *node);
uint64_t node_look_ns(const struct node *node); // when it wants to look again

// store_health.c
// The store did not answer, and is waited for so long; said once until it does.
void node_store_silent(struct node *node, uint32_t wait_limit_s);
void node_store_answered(struct node *node); // it did. What ran out meanwhile has the time of a lease to come back
// How long the store may be away, or not have the run, before that ends the run.
uint32_t node_store_timeout_s(const struct node *node);
// Looks at everything again a little later.
void node_retry(struct node *node);

// restore.c: the store has forgotten something, or may have.
void node_restore_begin(struct node *node);
bool node_restore_is_on(const struct node *node);
int node_restore_step(struct node *node);

// launch.c
struct launch *node_launch_of(const struct node *node, uint32_t phase, int32_t rank); // NULL: the plan has none
uint32_t node_free_slots(const struct node *node);
// Claims and starts what `phase` adds, as far as there are free slots and others have not.
int node_launch(struct node *node, uint32_t phase);
// Publishes in the store how a child ended.
void node_publish_exit(struct node *node, const struct run_child *child, int status);

#endif
