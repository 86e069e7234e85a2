// The table of functions that Weft does not use in some versions of libraries.
#include "base/avoided.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct avoided rows[] = {
    [AVOIDED_UCX_POSIX] = {"UCX", AVOIDED_VERSION(1, 16), AVOIDED_VERSION(1, 19), "its POSIX shared memory",
                           "it ends the process when a peer of this host goes while the two connect (\"endpoint "
                           "reconfiguration not supported yet\")",
                           "where its shared memory is named, System V segments and what else there is carry it"},
    [AVOIDED_OFI_SHM] = {"libfabric", 0, AVOIDED_ALL, "its provider shm",
                         "it ends the process when an endpoint is closed under an operation",
                         "it is refused; Weft's own transport shm joins the processes of a host"},
    [AVOIDED_OFI_CLOSE] = {"libfabric", 0, AVOIDED_VERSION(1, 18),
                           "its way to close a TCP connection on which the answer to a read is coming in",
                           "it lets go of that read twice, which ends the process",
                           "the connection is broken first, and with it those of this process's other workers to the "
                           "same peer"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool is_in(const struct avoided *row, uint32_t version) {
  return version >= row->since && version < row->before;
}

bool avoided_in(enum avoided_id id, unsigned major, unsigned minor) {
  return is_in(&rows[id], AVOIDED_VERSION(major, minor));
}

const struct avoided *avoided_row(enum avoided_id id) {
  return &rows[id];
}

const struct avoided *avoided_next(const char *library, const char *version, const struct avoided *after) {
  unsigned major, minor;
  if (sscanf(version, "%u.%u", &major, &minor) != 2)
    return NULL;
  for (const struct avoided *row = after ? after + 1 : rows; row < rows + ROWS; row++) {
    if (strcmp(row->library, library) == 0 && is_in(row, AVOIDED_VERSION(major, minor)))
      return row;
  }
  return NULL;
}
