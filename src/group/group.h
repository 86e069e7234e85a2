// A group on a store: rank claims, leases, incarnations, agreed views, suspicion, barriers.
//
// Keys under the group's prefix P, each on a lease:
//   P rank/<r>              a rank claim: JSON {"incarnation", "address"}; on the claimer's lease
//   P view                  the agreed view: JSON {"epoch", "members": [[rank, incarnation], ...]}; on the group's
//                           lease, which the first members of the view keep alive
//   P barrier/<name>/<r>    "rank r has come": its incarnation; on r's lease, until its next barrier is complete
//   P offer/<r>             "rank r may be taken into a view": its incarnation and how far it is; on r's lease
//   P ticket/<incarnation>  who wants any rank stands in line: the i-th takes the i-th free rank; on its own lease
// A view changes only by a transaction that compares the key's mod_revision, so all agree on the order of views. The
// transaction that removes a member from the view deletes its rank claim too (comparing its create_revision), so that
// the rank is free again at once. Incarnations are 64 bit, as strings of 16 hexadecimal digits in JSON.
//
// The decisions are made by a state machine without I/O (machine.h); driver.c drives it with a thread.
// Thread rule of every function: [any], unless it says otherwise. Deadlines are CLOCK_MONOTONIC nanoseconds. A deadline
// that passes while the store does not answer is UNREACHABLE instead of TIMEOUT; both say what was waited for. Waits
// for views also end with CLOSED (this rank has left), FENCED, or PROTOCOL (the view's key holds a malformed value).
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/store.h>

struct group;

enum { GROUP_ADDRESS_SIZE = 512 };

struct group_member {
  int32_t rank;
  uint64_t incarnation;
};

// An agreed view; immutable, counted references.
struct group_view {
  uint64_t epoch; // from 1
  uint32_t count;
  struct group_member members[]; // [count], by rank, ascending
};

// How far a rank is that wants to be taken into a view. Any two such ranks have a link before both are ready: the one
// that announced itself later calls the other. So each calls the members and all who announced themselves before it.
enum group_offer_stage {
  GROUP_OFFER_NONE,
  GROUP_OFFER_COMING, // it has announced itself, and is making its links
  GROUP_OFFER_READY,  // it has them
  GROUP_OFFER_TAKEN,  // a view with it was agreed on
};

// One view is to follow that has `add`, which are ready, and has not `remove`.
struct group_change {
  const int32_t *add, *remove;
  uint32_t num_add, num_remove; // at most GROUP_CHANGES each
};

enum { GROUP_CHANGES = 60 }; // etcd takes 128 comparisons and operations in a transaction

// A rank claim as the store has it.
struct group_peer {
  int32_t rank;
  uint64_t incarnation;
  char address[GROUP_ADDRESS_SIZE]; // what the claimer gave as group_options.address
};

enum group_event_kind {
  GROUP_EVENT_VIEW,       // a new view is agreed on: `view`; in order, none twice, newest last; to one that was in none
                          // yet it may have a lower epoch, of a group that was founded anew after all had died
  GROUP_EVENT_GONE,       // rank claim of `rank`, `incarnation` has gone from the store (released, expired or removed)
  GROUP_EVENT_FENCED,     // the new `view` is without this rank, which was in the one before and did not ask to leave,
                          // or this rank's claim is held by somebody else
  GROUP_EVENT_STORE_LOST, // the store does not answer: the view stays, changes wait
  GROUP_EVENT_STORE_BACK,
};

struct group_event {
  enum group_event_kind kind;
  const struct group_view *view; // VIEW, FENCED; group_view_ref() to keep it
  int32_t rank;                  // GONE
  uint64_t incarnation;          // GONE
};

// [callback] on the group's thread: return soon; may call group_view, group_find, group_suspect, nothing that waits.
typedef void (*group_event_fn)(void *arg, const struct group_event *event);

struct group_options {
  weft_store_t *store;     // outlives the group
  const char *prefix;      // ends in '/'
  int32_t rank;            // -1: the lowest free one
  uint32_t capacity;       // ranks are below it
  const int32_t *founders; // ranks of the first view; copied
  uint32_t num_founders;   // 0: this rank alone founds the group when there is no view
  bool join_only; // there is a group: a store without a view has lost it, and has a lease's time to get it back
  uint32_t lease_ttl_s;
  const char *address; // how peers reach this rank: text for the layer above; errors show its first word only
  group_event_fn on_event;
  // Whether a call that waits is to end with CANCELED; asked before each sleep, with a lock held. NULL: never.
  bool (*interrupted)(void *arg);
  void *event_arg; // of both
};

// Grants a lease and claims the rank under a new incarnation, by one transaction; waits until `deadline_ns` for a rank
// that is held (EXISTS then names the holder's incarnation and address). Starts the thread; events begin before the
// return. LIMIT: rank -1 and none is free.
int group_open(struct group **group, const struct group_options *options, uint64_t deadline_ns);

// Releases the claim and the lease (a member that is still in the view is taken out of it by this), ends the thread.
// Gives up on a store that does not answer within about five seconds: the lease does the rest. NULL is legal. Not from
// a callback.
void group_close(struct group *group);

// Has calls that wait look again, whether they are interrupted too.
void group_wake(struct group *group);

int32_t group_rank(const struct group *group);
uint64_t group_incarnation(const struct group *group);

// The newest agreed view with a reference for the caller, NULL while there is none. It does not wait.
const struct group_view *group_view(struct group *group);
// Whether there is one, and any of its members has its claim. A group whose members have all died leaves its view
// behind until the lease ends; founders found it anew then. It does not wait.
bool group_lives(struct group *group);
const struct group_view *group_view_ref(const struct group_view *view);
void group_view_unref(const struct group_view *view); // NULL is legal
// The view's member of that rank, or NULL.
const struct group_member *group_view_find(const struct group_view *view, int32_t rank);

// The claim of `rank` as last seen. NOT_FOUND. It does not wait.
int group_find(struct group *group, int32_t rank, struct group_peer *peer);

// Waits until each of `ranks` is claimed. TIMEOUT names those that are not.
int group_wait_ranks(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);
// The same for founders: one without a claim is not waited for when this rank is in a view without it. NOT_FOUND: there
// is a group that lives, without this rank.
int group_wait_founders(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);

// Waits until a view with this rank and incarnation is agreed on, or `epoch` (whichever is asked: epoch 0 = own
// membership). FENCED when this rank is put out instead.
int group_wait_view(struct group *group, uint64_t epoch, uint64_t deadline_ns);

// Founders: waits until every founder has claimed its rank; the lowest one creates view 1. Returns when a view is
// there. If it has not this rank in it, and the group lives, that had been founded before: NOT_FOUND, join it. TIMEOUT
// names who is missing.
int group_found(struct group *group, uint64_t deadline_ns);

// Proposes `base` with this rank added. CONFLICT: `base` is no longer the newest view (look at the new one, try again).
int group_join(struct group *group, const struct group_view *base, uint64_t deadline_ns);

// Announces this rank, which wants to be taken into a view. It does not wait. group_offer_end() takes it back.
void group_offer_begin(struct group *group);
void group_offer_end(struct group *group);
// Waits until the announcement is seen. `peers` [capacity]: with whom this rank needs a link before it is ready, the
// members of `*view` (a reference) among them. NOT_CONNECTED: it was taken back meanwhile.
int group_offer_peers(struct group *group, uint64_t deadline_ns, struct group_member *peers, uint32_t *count,
                      const struct group_view **view);
// This rank has them: waits until all can see so.
int group_offer_ready(struct group *group, uint64_t deadline_ns);
// Waits until a view with this rank is agreed on. NOT_CONNECTED: it is in none, and offers itself no more.
int group_wait_taken(struct group *group, uint64_t deadline_ns);
// Takes back the offer of `rank`. NOT_FOUND: there is none. CONFLICT: it was taken into a view.
int group_withdraw(struct group *group, int32_t rank, uint64_t deadline_ns);

// Proposes the newest view with the change, all of it or none, until it is agreed on. TIMEOUT names who of `add` is not
// ready, and nothing was proposed. UNREACHABLE, CANCELED: it may have been. NOT_CONNECTED: this rank is in no view, and
// does not add itself alone. LIMIT: too many.
int group_change(struct group *group, const struct group_change *change, uint64_t deadline_ns);

// Proposes the newest view without `ranks` until a view without them is agreed on; those not in it are no error. Asking
// for its own rank is leaving: no FENCED event follows, unless that failed and this rank is put out later.
int group_remove(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);

// This peer is dead or silent: proposes the view without it, in the background, until a view without that incarnation
// is agreed on or the store has it otherwise. Of a group that is not in the view itself it counts for nothing. Returns
// at once. [any, callbacks too]
void group_suspect(struct group *group, int32_t rank, uint64_t incarnation, const char *cause);

// Waits until every member of the newest view has called it with this name. A name serves once: EXISTS. One that ended
// otherwise than complete may be tried again. NOT_CONNECTED:
// this rank is in no view. A member that is put out of the view while others wait is waited for no longer. TIMEOUT
// names the ranks that are missing.
int group_barrier(struct group *group, const char *name, uint64_t deadline_ns);

#endif
