// The state of the simulation, which its parts share (sim.h).
#ifndef TESTS_SIM_STATE_H
#define TESTS_SIM_STATE_H

#include <uthash.h>

#include "base/random.h"
#include "group/codec.h"
#include "group/machine.h"
#include "group/view.h"
#include "sim/support/queue.h"
#include "sim/support/sim.h"
#include "store/core/core.h"

#define SIM_PREFIX "/weft/sim/"

// A request on its way, with copies of its arguments: it may arrive after its sender has given it up or has died.
struct sim_request {
  struct group_request request; // `txn` is not kept
  struct core_txn txn;
  struct core_compare *compares;
  struct core_op *ops;
  char *strings;
  uint32_t parties; // how many still refer to it: the store, the sender
  bool executed, lost_answer;
  uint64_t store_number; // number of the store's life in which it was carried out
  struct group_answer answer;
  struct weft_store_list list;
  struct weft_store_kv *kvs; // what `list` points to
  struct core_result result; // the records that `list` points into
};

enum { SIM_GROWN = 4 }; // the most members that one change takes in

// A change in one step. It is kept until the simulation ends, since events may refer to it at any time.
struct sim_grow {
  struct sim_grow *next;
  int32_t add[SIM_GROWN], goes;
  uint64_t incarnation[SIM_GROWN], removed;
  struct group_change change;
  bool taken; // the view with this change was written to the store just now
};

struct sim_member {
  struct group_machine *machine; // NULL: dead
  uint64_t incarnation;
  uint32_t index; // in sim->live
  int32_t rank;   // last known
  bool refused;   // its deadline has passed once
  bool founder, leaving, closing, fenced, accused;
  uint64_t died;         // time of its death; 0: it lives
  uint64_t since;        // since when it wants to be in the view, or to leave; 0: it has what it wants
  uint64_t wanted_base;  // epoch of the view on which it asked to join
  bool thinking;         // it will soon act on a new view
  uint64_t offers_until; // until then it offers itself, and joins by itself only later; 0: it joins at once
  bool offers;
  struct sim_grow *grow; // the change that it requests
  uint64_t paused_until, cut_until;
  uint64_t trouble_until; // the end of its last fault
  // Its request, its timer, its watch.
  struct sim_request *request;
  uint64_t wake_at;
  bool watching, connected, delivering, reported_lost;
  uint64_t watch_number, store_number; // of this watch; of the store's life that it began in
  int64_t watch_from;
  struct core_watch watch;
  // The newest view that it got, and since when its state is wrong (0: it is not).
  size_t log_position; // of its newest view in the judge's log, +1
  uint64_t outside_since, unclaimed_since;
  UT_hash_handle hh; // by incarnation, of all members that ever lived
};

struct sim_server {
  struct core *core;
  struct core_limits limits;
  uint64_t number;     // number of the store's life, from 1
  uint64_t down_until; // 0: it is up
  bool stopped;        // its clock is stopped, too
  uint64_t expiry_at;  // time of the next check of the leases
};

struct sim_judge {
  struct core_watch watch; // of everything under the prefix
  bool woken;
  const struct group_view **log; // every view that was written to the store, in order
  size_t log_count, log_room;
  uint64_t *claims; // [capacity] incarnation that holds the rank
  uint64_t top;     // the highest epoch so far
  bool present;     // the store has a view
  bool forgetful;   // it has lost a view: an older one may come back, until a view has a new highest epoch
};

struct sim {
  struct sim_options options;
  uint64_t now, random;
  struct sim_queue queue;
  struct sim_server server;
  struct sim_judge judge;
  struct sim_member **live;
  uint32_t num_live, room_live;
  struct sim_member *ever;
  struct sim_grow *grows;
  struct sim_counts counts;
  uint64_t trouble_until; // the end of the store's last fault
  char broken[512];
};

static inline void sim_at(struct sim *sim, uint64_t at_ns, struct sim_event event) {
  event.at_ns = at_ns > sim->now ? at_ns : sim->now;
  sim_queue_add(&sim->queue, event);
}

uint64_t sim_latency(struct sim *sim); // of one way to the store or back

// server.c
void sim_server_open(struct sim *sim);
void sim_server_close(struct sim *sim);
bool sim_server_is_up(const struct sim *sim);
struct sim_request *sim_request_new(const struct group_request *request);
void sim_request_drop(struct sim_request *request); // drops a party's reference
void sim_server_execute(struct sim *sim, struct sim_request *request);
void sim_server_expire(struct sim *sim);  // ends leases whose time is over; plans the next check
void sim_server_changed(struct sim *sim); // called after every change, which the judge checks

// member.c
struct sim_member *sim_member_new(struct sim *sim, int32_t rank, uint32_t founders);
void sim_member_end(struct sim *sim, struct sim_member *member);
void sim_member_pump(struct sim *sim, struct sim_member *member);   // after any input
void sim_member_limit(struct sim *sim, struct sim_member *member);  // sets the deadline of its call
void sim_member_refuse(struct sim *sim, struct sim_member *member); // refuses its call: it closes
void sim_watch_end(struct sim *sim, struct sim_member *member);
void sim_watch_cut(struct sim *sim, struct sim_member *member); // reconnects by itself

// grow.c
bool sim_grow_wish(struct sim *sim, struct sim_member *member); // false: it waits to be taken in, and does not join yet
void sim_grow_look(struct sim *sim, int32_t rank, const struct core_record *record); // an offer was written
void sim_grow_judge(struct sim *sim);                                                // after a change of the store
void sim_grows_free(struct sim *sim);

// judge.c
void sim_judge_open(struct sim *sim);
void sim_judge_watch(struct sim *sim, bool on); // the store begins or ends
void sim_judge_look(struct sim *sim);
void sim_judge_view(struct sim *sim, struct sim_member *member, const struct group_view *view); // it got this view
void sim_judge_tick(struct sim *sim, const struct sim_event *event); // finds wrong states that last
void sim_judge_close(struct sim *sim);
const struct group_view *sim_judge_newest(const struct sim *sim); // newest view of the log, or NULL

#endif
