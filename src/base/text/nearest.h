// Finds the known name that is nearest to a misspelt one.
#ifndef BASE_TEXT_NEAREST_H
#define BASE_TEXT_NEAREST_H

#include <stddef.h>

struct nearest {
  const char *wanted; // the name that was written
  const char *best;   // NULL while nothing is near enough
  size_t distance;    // of `best`
};

// Offers `name`; `nearest->best` is then the nearest of the names offered so far. The distance counts letters that are
// inserted, deleted, replaced or swapped with their neighbour. A name whose distance is more than a third of the length
// of `wanted` (at least 2) is not near; a name that begins with `wanted` always is.
void nearest_offer(struct nearest *nearest, const char *name);

#endif
