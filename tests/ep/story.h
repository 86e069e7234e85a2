// What befalls some ranks of a group, and what the others must make of it: processes, and real signals. The ranks found
// a group and operate; at a place in an operation the victims are struck. The survivors' operation must list just what
// the victims did not bring, judged by the oracle; then comes the view without them, with nothing of them left mapped
// or open; then each victim rejoins, as a new process or, if it was only stopped, after it has found itself FENCED; and
// in the end the store holds no key of the group.
#ifndef TESTS_EP_STORY_H
#define TESTS_EP_STORY_H

#include "place.h"
#include "processes.h"

enum { STORY_RANKS = 5 };

enum story_blow {
  STORY_KILL,
  STORY_STOP, // woken when the others have gone on without it; it then sends rubbish
};

struct story {
  struct setup setup;
  uint32_t ranks;   // founders, from rank 0
  uint32_t victims; // bit r: rank r is one; struck in the same operation
  enum place place;
  enum story_blow blow;
};

// Ends the test on failure.
void story_tell(const struct story *story);

#endif
