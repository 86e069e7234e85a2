// How many processors this process may use: those that it may run on, and of them what its control groups grant.
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

#include <stddef.h>

// At least 1; part of a processor counts as one. `list`: those that it may run on as sysfs writes them, "0-3,8", cut to
// `cap` bytes. `root`: where proc/ and sys/ are, for tests; NULL: "". [any]
unsigned processors_usable(const char *root, char *list, size_t cap);

#endif
