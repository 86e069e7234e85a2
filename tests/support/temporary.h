// Names of files and folders of a test: in $TMPDIR, where test.sh searches for leftovers.
#ifndef SUPPORT_TEMPORARY_H
#define SUPPORT_TEMPORARY_H

#include <stdio.h>
#include <stdlib.h>

// Writes a template for mkdtemp() and mkstemp() into `path`.
static inline void support_temporary(char *path, size_t size, const char *name) {
  const char *folder = getenv("TMPDIR");
  snprintf(path, size, "%s/%s-XXXXXX", folder && *folder ? folder : "/tmp", name);
}

#endif
