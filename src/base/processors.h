// The number of processors that this process may use, by its affinity and by the limits of its control groups.
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

#include <stddef.h>

// At least 1; a fraction of a processor counts as one. `list`: the processors on which it may run, in sysfs's format
// "0-3,8", cut to `cap` bytes. `root`: where proc/ and sys/ are, for tests; NULL: "". [any]
unsigned processors_usable(const char *root, char *list, size_t cap);

#endif
