// The activation rule in an exhaustive search. Members run the real decisions (ep/core/activation.h) over windows with
// the contents of the real ones. The search runs the steps of their owners' threads in every order, with deaths between
// any two writes.
//
// The work of a member is cut into steps where another member could see a difference:
//   send      the headers of the next operation, up to the first peer that has not taken the earlier one in its place
//   receive   catches up with an adopted view, sends the empty headers that are missing
//   collect   when every header is there: closes the operation, notifies joiners, answers
//   adopt, pass over, end, begin (a joiner), learn of a view, and the commits of the store
// Headers stay until they are taken, so they are read as late as possible. That is the partial-order reduction: an
// earlier read, or a later write, equals another order of these steps. There is no reduction by symmetry.
//
// All members know a death at once, and it closes the links. A member that would have known it later acts later
// instead.
#ifndef TESTS_MODEL_ACTIVE_H
#define TESTS_MODEL_ACTIVE_H

#include "model/support/explore.h"

enum active_mutation {
  ACTIVE_RIGHT,
  ACTIVE_NO_CATCH_UP, // an operation that was sent before an adoption stays in the old view
  ACTIVE_NO_NOTIFY,   // only the rank that decides notifies joiners
  ACTIVE_NO_PASS,     // a peer that counts this rank only from a later operation on is waited for
  ACTIVE_NO_MISS,     // a peer that has been sent a later operation as its first is counted in this one
  ACTIVE_NO_ADOPTION, // a newer view in a header is not adopted
  ACTIVE_NOTIFY_ANY,  // a rank that is not in a newer view notifies its joiners of it instead of the decided one
  ACTIVE_KEEP_LINKS,  // a joiner keeps its links to ranks of the view it joined that are not in its first
  ACTIVE_EARLY_CLOSE, // a peer whose header has not come is not waited for
  ACTIVE_MUTATIONS,
};

struct active_options {
  uint32_t founders, joiners; // together 4 at most
  uint32_t leavers;           // of the founders, the highest
  uint32_t last;              // faults may happen in so many operations; 5 more follow without any
  uint32_t crashes, gives_up, gaps;
  bool early;      // the view with the joiners is agreed on at the start; no member knows it yet
  bool whole;      // runs to the last operation even when nothing can differ any more
  bool down;       // the store does not answer: nobody is put out
  bool one_by_one; // no operation is sent before the previous one has ended
  uint8_t mortal;  // the members that may die, as bits; 0: all
  uint32_t differ; // operations that may end in different views
  uint32_t step;   // operations of a step, which run in one view; 0: there are no steps
  bool marks;
  enum active_mutation mutation;
  uint32_t states; // limit, 0: none
  bool quiet;
};

struct active_result {
  struct explore_result explore;
  uint32_t differ; // most operations in one scenario that survivors ended in different views
  uint32_t apart;  // most operations in one scenario between which survivors learnt the mark
};

struct active_result active_run(const struct active_options *options);

#endif
