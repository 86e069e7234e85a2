// The agreement on views in an exhaustive search. The members are the real machines of a group (group/machine.h), and
// each step loads a machine from the searched state and saves it again. Their store follows etcd's rules for everything
// that they request: transactions that compare revisions, leases, a history and watches. It is not the real store's
// core, since each step would have to copy the core's maps and rings; tests/model/views.c compares the two stores,
// answer by answer.
//
// Steps: the store carries out a request (the answer to a transaction is a separate step), a watch delivers one event
// or all events, a timer fires, the lease of a dead member ends. Faults, each at most as often as the options allow: a
// member dies, a request or an answer is lost, a request arrives late, a watch is cut, a lease ends although its owner
// lives, the store comes back empty. Members join and leave at any time. With `offers`, joiners do not join by
// themselves: they offer themselves, and member 0 requests one change that takes in all of them. Member 0 may give the
// change up, as at a deadline.
//
// There is no time. The short timers (milliseconds: turns, retries) fire at any time. The long timers fire in the order
// that their lengths guarantee: a grace ends only after all live members of the view have their claims back, and a
// lease is kept alive unless its end is a fault. A successful keepalive changes nothing and is left out. Revisions and
// leases are renumbered in order, and an incarnation identifies a member; the search uses no other symmetry.
#ifndef TESTS_MODEL_VIEWS_H
#define TESTS_MODEL_VIEWS_H

#include "model/support/explore.h"

enum views_mutation {
  VIEWS_RIGHT,
  VIEWS_NO_VIEW_COMPARE,  // a change of the view does not compare the view's revision
  VIEWS_NO_CLAIM_COMPARE, // a change does not compare the claims of its proposer and of the removed members
  VIEWS_NO_FREE_COMPARE,  // a claim does not compare that the rank is free
  VIEWS_NO_GRACE,         // a claim that has gone counts as a death at once
  VIEWS_NO_OFFER_COMPARE, // a change does not compare the offers of the members that it takes in
  VIEWS_MUTATIONS,
};

struct views_options {
  uint32_t founders, joiners; // together 4 at most
  bool founding;              // begins before the first view; otherwise all founders are in it
  bool any_rank;              // joiners take the lowest free rank
  bool heir;                  // joiners claim rank 0, which its holder has to lose first; otherwise free ranks
  uint32_t leavers;           // of the founders, the highest
  bool offers;                // joiners offer themselves, and member 0 takes in all of them with one change
  bool puts_out;              // this change also puts out the highest founder
  uint32_t withdrawals;       // the most offers that joiners take back
  uint32_t gives_up;          // 1: the change may be given up
  uint32_t crashes, losses, cuts, expiries, empties;
  enum views_mutation mutation;
  uint32_t states;
  bool quiet;
};

struct explore_result views_run(const struct views_options *options);

#endif
