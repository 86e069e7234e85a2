// A node of a run: one process of `weft elastic`, which users know as an agent (--num-agents). It has one thread with
// one poll() loop. Nodes and ranks communicate only through the store, so the lead treats its own ranks like those of a
// follower.
#ifndef RUN_NODE_NODE_H
#define RUN_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

#include "base/text/output_queue.h"
#include "base/text/text.h"
#include "limits/uses.h"
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
  RUN_RENEW_MS = RUN_LEASE_TTL_S * 250, // if one request is lost, there is time for two more
};

struct lead;
struct node;

// The state of a launch: which node has claimed it.
struct launch {
  bool claimed;
  bool asked; // this node has requested the claim and got no answer: a claim in the store may be its own
  uint32_t node;
};

// The functions of a node's role, as the lead of a run or as a follower. An error of a function that returns int ends
// the run with this reason.
struct node_role {
  int (*open)(struct node *node);                                  // called when the store is open, before the loop
  int (*take)(struct node *node, const struct run_change *change); // one change in the store
  int (*step)(struct node *node);                                  // proceeds as far as possible; may set `end.over`
  uint64_t (*deadline)(const struct node *node);                   // when step() has to be called even without news
  void (*forget_nodes)(struct node *node); // the store is read again: each node has to appear again
  // adds the missing nodes to the text; returns their number
  uint32_t (*missing)(const struct node *node, struct text *text);
  int (*lose_missing)(struct node *node); // lets the run go on without them, if possible; otherwise an error
  void (*close)(struct node *node);       // also called after an error of open(), or without open()
};

// Stages of writing the run again into a store that has forgotten it (restore.c).
enum restore_stage {
  RESTORE_NONE,
  RESTORE_WRITE,  // the reporter writes everything again
  RESTORE_GATHER, // the lead waits for the other nodes; they wait for the lead's done_lease
};

struct node_restore {
  bool look; // the node has to find out what the store contains
  enum restore_stage stage;
  uint64_t deadline_ns;
  bool forgot;        // the store did not have the run
  int64_t done_lease; // the run's lease at the time when the lead reported that everything is restored
};

// The store, and its state.
struct node_store {
  weft_store_server_t *server; // the embedded store of a lead that was given no store
  weft_store_t *client;
  char *endpoints;
  bool of_lead; // of a follower: the store is embedded in the lead
  char version[64];
  int64_t run_lease, own_lease; // for the lead both are the same; 0: no lease yet
  uint64_t renew_ns;            // when the lease has to be renewed next
  uint64_t silent_ns;           // since when the store has not answered; 0: it answers
  uint64_t lease_grace_ns;      // until this time an expired lease may have expired because the store did not answer
};

// For a follower: its place among the nodes for which the lead has places.
struct node_place {
  uint32_t expected; // nodes that the lead expects
  bool taken;
};

struct node_phase {
  bool begun;       // a phase has begun
  uint32_t current; // the phase; num_phases: the end
};

// For a follower that may leave, so that the run loses only its ranks (--agents elastic).
struct node_leave {
  bool asked;     // SIGTERM was received: the node launches nothing any more
  bool published; // the store, and so the lead, has been informed
  uint64_t deadline_ns;
};

struct node_end {
  bool over;       // the loop ends
  int status;      // exit status if `over`
  char error[900]; // of a follower: why the lead ended the run early
};

struct node {
  struct run_config config; // as given; a follower's shared part comes from the lead
  // of a lead with an embedded store, if no token was given; "": no token was made
  char made_token[SECRET_DIGITS + 1];
  const char *job;
  char run[RUN_UUID_SIZE];
  struct run_keys keys;
  struct plan *plan;         // the current plan, without the ranks that the run has lost
  json_t *plan_given;        // the plan as given to this node; NULL: none was given
  struct run_current losses; // the losses that have been removed from `plan`; the phase is not used

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
  uint64_t retry_ns; // when something has to be tried again; CLOCK_NEVER: nothing
  uint64_t look_ns;  // when the rank processes are checked next; 0: as soon as there are any

  struct run_directory directory;
  struct progress progress;
  struct output_queue lines; // of ranks; a reader that stops reading must not stop the node
  struct node_metrics metrics;
  struct limits_uses uses;    // what the ranks of a lead use for other hosts
  struct run_child *children; // [slots]
  uint32_t num_started;       // ranks that this node has started
  struct launch *launches;    // [num_phases][plan->ranks.count]
  struct node_phase phase;
  struct node_leave leave;

  int signal_fd;
  int signal_number; // signal that requested the stop; 0: none
  struct node_end end;
};

// open.c: finds or creates the run: store, role, run directory. `lead`: the role of a node that leads. Also after an
// error the caller has to call node_close(), which leaves the signals blocked and signal_fd open.
int node_open(struct node *node, const struct node_role *lead);
void node_close(struct node *node);

// follower.c
extern const struct node_role node_follower;

// signals.c
int node_open_signals(struct node *node);
void node_take_signal(struct node *node);      // reads the signal into signal_number, when signal_fd is readable
int node_interrupted(const struct node *node); // CANCELED, with the reason that signal_number gives
// adds the phase in which the run ends after the reason, or nothing
void node_add_phase(const struct node *node, struct text *text);
// Waits for up to `ms`, or until a signal requests a stop (CANCELED). For waits before the loop.
int node_pause(struct node *node, int ms);

// capacity.c. If the number of nodes was not given and this node has too few slots, other nodes are expected: up to one
// for each missing slot.
void node_expect_others(struct node *node);
// INVALID: no other nodes are expected, and the plan needs more slots than this node was given.
int node_check_slots(const struct node *node);
// The number of nodes for which the run has places, including the lead. If nodes may come and go, a node that has gone
// keeps its place for the life of its lease, and its successor may already be there.
uint32_t node_places(const struct node *node);
// Decides which memory the run uses (run/node/gpus.h) and, on GPUs, for how many ranks this node has room. To be called
// before the run or this node is published.
int node_choose_memory(struct node *node);
// probe.c: for throughput and packed rows: finds which of the features that a run checks the library has. Missing
// features are recorded in config.left_out and node->probe; UNSUPPORTED: the run needs a missing one. To be called
// before there is a thread, and before node_choose_memory().
int node_probe(struct node *node);
int node_make_room(struct node *node); // allocates `children` and `launches`

// find_lead.c
// with the options of the configuration
int node_open_client(struct node *node, const char *endpoints, weft_store_t **client);
// For a follower: finds the live run, in the given store or in the store embedded in the lead, and opens that store.
// TIMEOUT: no store has the run; UNREACHABLE: no store answered; INVALID: the run is in a store for which there is no
// token.
int node_find_lead(struct node *node, json_t **live);

// rendezvous.c: opens the store and decides which node leads. A follower then has the lead's configuration and plan.
int node_rendezvous(struct node *node);
// Executes a step of the start, and repeats it as long as the store, which has answered before, does not answer. The
// step must be repeatable, since an earlier attempt may have succeeded.
int node_insist(struct node *node, int (*step)(struct node *node));
int node_grant_lease(struct node *node);
int node_register(struct node *node, bool *created);                           // the key agent/<id>
int node_publish_leaving(struct node *node);                                   // the same key, when the node leaves
int node_create_run(struct node *node, bool *created);                         // the key of the live run
int node_refuse(const struct node *node, const json_t *live, const char *why); // BUSY: another run has this job

// loop.c: runs the loop until the run is over.
int node_run(struct node *node);
// Prints text after all lines of ranks, and waits for its reader; a signal ends the wait. If a signal has ended the
// run, the reader gets some seconds. SYSTEM, LIMIT, CANCELED, TIMEOUT: something was not printed.
// `name` says in an error what the text is.
int node_print_last(struct node *node, const char *name, const char *text, size_t size);

// children.c: reads the messages of the rank processes, and publishes how processes have ended.
void node_serve_children(struct node *node);
// Ends every child: requests it, waits, then kills. Returns when all have ended.
void node_end_children(struct node *node);

// standstill.c: checks from time to time whether rank processes stand still. Such a process is named once on the
// screen, and under still/ in the store until it runs again.
void node_watch_children(struct node *node);
uint64_t node_look_ns(const struct node *node); // when the next check is due

// store_health.c. Reports, once, that the store does not answer, and for how long the node waits for it.
void node_store_silent(struct node *node, uint32_t wait_limit_s);
// the store has answered. Leases that expired meanwhile have the time of one lease to come back
void node_store_answered(struct node *node);
// How long the store may not answer, or not have the run, before this ends the run.
uint32_t node_store_timeout_s(const struct node *node);
// Schedules another check of everything a little later.
void node_retry(struct node *node);

// restore.c: to be called when the store has forgotten something, or may have.
void node_restore_begin(struct node *node);
bool node_restore_is_on(const struct node *node);
int node_restore_step(struct node *node);

// launch.c
// NULL: the plan has no such launch
struct launch *node_launch_of(const struct node *node, uint32_t phase, int32_t rank);
uint32_t node_free_slots(const struct node *node);
// Claims and starts the ranks that `phase` adds, as far as slots are free and other nodes have not claimed them.
int node_launch(struct node *node, uint32_t phase);
// Publishes in the store how a child ended.
void node_publish_exit(struct node *node, const struct run_child *child, int status);

#endif
