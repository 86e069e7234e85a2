// The activation rule in an exhaustive search: members run the real decisions (ep/core/activation.h) over windows that
// hold what the real ones hold, and do in every order what the owners' threads do, with deaths between any two writes.
//
// What a member does is cut into steps where another could see a difference:
//   send      the headers of the next operation, up to the first peer that has not taken what lay in its place
//   receive   catches up with an adopted view, sends the empty headers that are missing
//   collect   when every header is there: closes the operation, tells joiners, answers
//   adopt, pass over, end, begin (a joiner), learn of a view, and the commits of the store
// Headers stay until they are taken and are hence read as late as can be; that is the partial-order reduction: a read
// earlier, or a write later, is the same as another order of these steps. There is no reduction by symmetry.
//
// A death is known to all at once and closes the links: whoever would have known it later acts later instead.
#ifndef TESTS_MODEL_ACTIVE_H
#define TESTS_MODEL_ACTIVE_H

#include "model/support/explore.h"

enum active_mutation {
  ACTIVE_RIGHT,
  ACTIVE_NO_CATCH_UP, // an operation that was sent before an adoption stays in the old view
  ACTIVE_NO_TELL,     // only who decides tells joiners
  ACTIVE_NO_PASS,     // a peer that counts us from later on is waited for
  ACTIVE_NO_MISS,     // a peer that has been sent a later operation as its first is counted in this one
  ACTIVE_NO_ADOPTION, // a newer view in a header is not taken over
  ACTIVE_TELL_ANY,    // a newer view in place of the decided one is told to its joiners by a rank that is not in it
  ACTIVE_KEEP_LINKS,  // a joiner keeps its links to ranks of the view it joined that are not in its first
  ACTIVE_EARLY_CLOSE, // a peer whose header has not come is not waited for
  ACTIVE_MUTATIONS,
};

struct active_options {
  uint32_t founders, joiners; // together 4 at most
  uint32_t leavers;           // of the founders, the highest
  uint32_t last;              // operations in which something may happen, then 5 in which it calms down
  uint32_t crashes, gives_up, gaps;
  bool early;      // the view with the joiners is agreed on when the story begins; nobody has heard of it
  bool whole;      // goes on to the last operation when nothing can differ any more
  bool down;       // the store does not answer: nobody is put out
  bool one_by_one; // no operation is sent before the one before it has ended
  uint8_t mortal;  // the members that may die, as bits; 0: all
  uint32_t differ; // operations that may end in different views
  bool marks;
  enum active_mutation mutation;
  uint32_t states; // limit, 0: none
  bool quiet;
};

struct active_result {
  struct explore_result explore;
  uint32_t differ; // operations at most that survivors ended in different views, in one story
  uint32_t apart;  // operations at most between which survivors learnt the mark, in one story
};

struct active_result active_run(const struct active_options *options);

#endif
