// Finds the known name that is nearest to a misspelt one.
#ifndef BASE_TEXT_NEAREST_H
#define BASE_TEXT_NEAREST_H

#include <stddef.h>

struct nearest {
  const char *wanted; // what was written
  const char *best;   // NULL while nothing is near enough
  size_t distance;    // of `best`
};

// Offers `name`; `nearest->best` is then the nearest of those offered so far, by letters inserted, deleted, replaced or
// swapped with their neighbour. A name further than a third of what was written (at least 2) is not near; one that
// begins with what was written is.
void nearest_offer(struct nearest *nearest, const char *name);

#endif
