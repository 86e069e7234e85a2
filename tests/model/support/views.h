// The agreement on views in an exhaustive search: the real machines of a group (group/machine.h), each loaded from the
// state that is searched and saved to it, on a store that keeps etcd's rules for what they ask: transactions that
// compare revisions, leases, a history and watches. It is not the store's own core, whose maps and rings would have to
// be copied for every step; tests/model/views.c holds it against that core, answer by answer.
//
// Steps: a request is carried out (a transaction is answered by a step of its own), one event or all there are is
// delivered, a timer fires, a lease of a dead member runs out; and as faults, each within its bound: a death, an answer
// or a request that is lost, or comes late, a watch that is cut, a lease that runs out though its owner lives, a store
// that comes back empty. Members join and leave when they like. With `offers` joiners do not join by themselves, they
// offer themselves, and member 0 wishes one change that takes all of them in; it may give up, as at a deadline.
//
// Time is not counted. The short timers (milliseconds: turns, retries) fire at any time. The long ones keep to the
// order that they are made for: a grace ends when all live members of the view have got their claims back, a lease is
// kept alive as long as it is no fault that it is not. A keepalive that succeeds changes nothing and is left out.
// Revisions and leases are renumbered in order, and incarnations stand for members: no other symmetry is used.
#ifndef TESTS_MODEL_VIEWS_H
#define TESTS_MODEL_VIEWS_H

#include "model/support/explore.h"

enum views_mutation {
  VIEWS_RIGHT,
  VIEWS_NO_VIEW_COMPARE,  // a change of the view does not compare the view's revision
  VIEWS_NO_CLAIM_COMPARE, // nor its proposer's and the removed ones' claims
  VIEWS_NO_FREE_COMPARE,  // a claim does not compare that the rank is free
  VIEWS_NO_GRACE,         // a claim that has gone is taken for a death at once
  VIEWS_NO_OFFER_COMPARE, // a change does not compare the offers of those whom it takes in
  VIEWS_MUTATIONS,
};

struct views_options {
  uint32_t founders, joiners; // together 4 at most
  bool founding;              // begins before the first view; else all founders are in it
  bool any_rank;              // joiners take the lowest free rank
  bool heir;                  // joiners want rank 0, which its holder has to lose first; else the next free ones
  uint32_t leavers;           // of the founders, the highest
  bool offers;                // joiners offer themselves, and member 0 changes the view by all of them
  bool puts_out;              // and the change puts out the highest founder
  uint32_t withdrawals;       // offers that are taken back
  uint32_t gives_up;          // 1: the change may be given up
  uint32_t crashes, losses, cuts, expiries, empties;
  enum views_mutation mutation;
  uint32_t states;
  bool quiet;
};

struct explore_result views_run(const struct views_options *options);

#endif
