// A group on a store: rank claims, leases, incarnations, agreed views, suspicion, barriers.
//
// Keys under the group's prefix P, each on a lease:
//   P rank/<r>              a rank claim: JSON {"incarnation", "address"}; on the claimer's lease
//   P view                  the agreed view: JSON {"epoch", "members": [[rank, incarnation], ...]}; on the group's
//                           lease, which the first members of the view keep alive
//   P barrier/<name>/<r>    "rank r has arrived": its incarnation; on r's lease, until its next barrier is complete
//   P offer/<r>             "rank r may be taken into a view": its incarnation and its stage; on r's lease
//   P ticket/<incarnation>  a queue of processes that want any rank: the i-th takes the i-th free rank; on its own
//                           lease
// A view changes only by a transaction that compares the key's mod_revision, so all agree on the order of views. The
// transaction that removes a member from the view deletes its rank claim too (comparing its create_revision), so that
// the rank is free again at once. Incarnations are 64 bit, as strings of 16 hexadecimal digits in JSON.
//
// The decisions are made by a state machine without I/O (machine.h); driver.c drives it with a thread. Thread rule of
// every function: [any], unless it says otherwise; but of group_found(), group_join() and group_withdraw() only one
// call at a time, since a member has one wish of each kind. Deadlines are CLOCK_MONOTONIC nanoseconds. If a deadline
// passes while the store does not answer, the error is UNREACHABLE instead of TIMEOUT; the texts of both say what was
// waited for. Waits for views also end with CLOSED (this rank has left), FENCED, or PROTOCOL (the view's key holds a
// malformed value).
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

// An agreed view; immutable, reference-counted.
struct group_view {
  uint64_t epoch; // begins with 1
  uint32_t count;
  struct group_member members[]; // [count], by rank, ascending
};

// The stage of a rank that wants to be taken into a view. Any two such ranks have a link before both are ready: the
// rank that announced itself later connects to the other. So each rank connects to the members and to all ranks that
// announced themselves before it.
enum group_offer_stage {
  GROUP_OFFER_NONE,
  GROUP_OFFER_COMING, // it has announced itself, and makes its links
  GROUP_OFFER_READY,  // it has its links
  GROUP_OFFER_TAKEN,  // a view with it was agreed on
};

// A wanted change: one view that has the ranks `add`, which are ready, and does not have the ranks `remove`.
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
  GROUP_EVENT_VIEW, // a new view is agreed on: `view`. Each view is reported at most once, in order, the newest last. A
                    // rank that was in no view yet may get a lower epoch, of a group that was founded anew after all
                    // its members had died
  GROUP_EVENT_GONE, // the rank claim of `rank`, `incarnation` has gone from the store (released, expired or removed)
  GROUP_EVENT_FENCED,     // the new `view` does not have this rank, which was in the last view and did not request to
                          // leave; or another process holds this rank's claim
  GROUP_EVENT_STORE_LOST, // the store does not answer: the view stays, changes wait
  GROUP_EVENT_STORE_BACK,
};

struct group_event {
  enum group_event_kind kind;
  const struct group_view *view; // of VIEW, FENCED; call group_view_ref() to keep it
  int32_t rank;                  // GONE
  uint64_t incarnation;          // GONE
};

// [callback] Called on the group's thread. It has to return soon; it may call group_view, group_find and group_suspect,
// but nothing that waits.
typedef void (*group_event_fn)(void *arg, const struct group_event *event);

struct group_options {
  weft_store_t *store;     // the store has to outlive the group
  const char *prefix;      // ends in '/'
  int32_t rank;            // -1: the lowest free one
  uint32_t capacity;       // ranks are less than this
  const int32_t *founders; // ranks of the first view; copied
  uint32_t num_founders;   // 0: this rank alone founds the group when there is no view
  bool join_only; // the group exists: a store without a view has lost it, and has a lease's time to get it back
  uint32_t lease_ttl_s;
  const char *address; // where peers reach this rank: a text for the layer above; errors show only its first word
  group_event_fn on_event;
  // Whether a call that waits should end with CANCELED; called before each sleep, with a lock held. NULL: never.
  bool (*interrupted)(void *arg);
  void *event_arg; // argument of both functions
};

// Makes a lease and claims the rank under a new incarnation, by one transaction. If another process holds the rank, it
// waits until `deadline_ns` (EXISTS then names the holder's incarnation and address). Starts the thread; events may
// come before the return. LIMIT: rank is -1, and no rank is free.
int group_open(struct group **group, const struct group_options *options, uint64_t deadline_ns);

// Releases the claim and the lease (which also takes a member out of the view if it is still in it), and ends the
// thread. If the store does not answer within about five seconds, it gives up: the claim goes when the lease expires.
// NULL is legal. Not from a callback.
void group_close(struct group *group);

// Makes calls that wait check again, also whether they are interrupted.
void group_wake(struct group *group);

int32_t group_rank(const struct group *group);
uint64_t group_incarnation(const struct group *group);

// The newest agreed view with a reference for the caller; NULL: there is none yet. Does not wait.
const struct group_view *group_view(struct group *group);
// Whether there is a view, and any of its members has its claim. If all members of a group die, its view stays in the
// store until the lease ends; founders then found the group anew. Does not wait.
bool group_lives(struct group *group);
const struct group_view *group_view_ref(const struct group_view *view);
void group_view_unref(const struct group_view *view); // NULL is legal
// The view's member of that rank, or NULL.
const struct group_member *group_view_find(const struct group_view *view, int32_t rank);

// The last known claim of `rank`. NOT_FOUND: there is none. Does not wait.
int group_find(struct group *group, int32_t rank, struct group_peer *peer);

// Waits until each of `ranks` is claimed. TIMEOUT names those that are not.
int group_wait_ranks(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);
// The same for founders. It does not wait for a founder without a claim if this rank is in a view that does not have
// that founder. NOT_FOUND: a living group exists without this rank.
int group_wait_founders(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);

// Waits until the view `epoch` is agreed on, or with epoch 0 until a view with this rank and incarnation is. FENCED:
// this rank was removed instead.
int group_wait_view(struct group *group, uint64_t epoch, uint64_t deadline_ns);

// Founders: waits until every founder has claimed its rank; the lowest one creates view 1. Returns when there is a
// view. NOT_FOUND: the view does not have this rank, and the group lives: it had been founded before, and this rank has
// to join it. TIMEOUT names the ranks that are missing.
int group_found(struct group *group, uint64_t deadline_ns);

// Proposes `base` with this rank added. CONFLICT: `base` is not the newest view any more (read the new one, and try
// again).
int group_join(struct group *group, const struct group_view *base, uint64_t deadline_ns);

// Announces this rank, which wants to be taken into a view. Does not wait. group_offer_end() withdraws the
// announcement.
void group_offer_begin(struct group *group);
void group_offer_end(struct group *group);
// Waits until the announcement is in the store, or a view has this rank already. `peers` [capacity]: the ranks to which
// this rank needs a link before it is ready; the members of `*view` (a reference) are among them. NOT_CONNECTED: the
// announcement was withdrawn meanwhile.
int group_offer_peers(struct group *group, uint64_t deadline_ns, struct group_member *peers, uint32_t *count,
                      const struct group_view **view);
// This rank has its links: announces that, and waits until it is in the store.
int group_offer_ready(struct group *group, uint64_t deadline_ns);
// Waits until a view with this rank is agreed on. NOT_CONNECTED: this rank is in no view, and does not offer itself any
// more.
int group_wait_taken(struct group *group, uint64_t deadline_ns);
// Withdraws the offer of `rank`. NOT_FOUND: there is no offer. CONFLICT: the rank was taken into a view.
int group_withdraw(struct group *group, int32_t rank, uint64_t deadline_ns);

// Proposes the newest view with the whole change, until such a view is agreed on. TIMEOUT names the ranks of `add` that
// are not ready; then nothing was proposed. UNREACHABLE, CANCELED: the change may have been proposed. NOT_CONNECTED:
// this rank is in no view, and the change does more than add this rank. LIMIT: too many ranks. BUSY: another thread is
// in this call.
int group_change(struct group *group, const struct group_change *change, uint64_t deadline_ns);

// Proposes the newest view without `ranks` until a view without them is agreed on. A rank that is not in the view is no
// error. A member that removes its own rank leaves: no FENCED event follows, unless the call failed and others remove
// this rank later.
int group_remove(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns);

// Reports that this peer is dead or silent. The group proposes the view without it, in the background, until a view
// without that incarnation is agreed on, or the store shows a different state. If this member itself is not in the
// view, the call has no effect. Returns at once. [any, callbacks too]
void group_suspect(struct group *group, int32_t rank, uint64_t incarnation, const char *cause);

// Waits until every member of the newest view has called this function with this name. Each name can be used once:
// EXISTS. A barrier that ended incomplete may be tried again. NOT_CONNECTED: this rank is in no view. If a member is
// removed from the view while others wait, they do not wait for it any more. TIMEOUT names the ranks that are missing.
int group_barrier(struct group *group, const char *name, uint64_t deadline_ns);

#endif
