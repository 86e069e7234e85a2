// Finds the known name that is nearest to a misspelt one.
#ifndef CLI_OPTION_NEAREST_H
#define CLI_OPTION_NEAREST_H

#include <stddef.h>

struct cli_nearest {
  const char *wanted; // what was written
  const char *best;   // NULL while nothing is near enough
  size_t distance;    // of `best`
};

// Offers `name`; `nearest->best` is then the nearest of those offered so far, by letters inserted, deleted, replaced or
// swapped with their neighbour. A name further than a third of what was written (at least 2) is not near; one that
// begins with what was written is.
void cli_nearest_offer(struct cli_nearest *nearest, const char *name);

#endif
