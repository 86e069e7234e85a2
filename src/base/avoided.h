// Functions that Weft does not use in some versions of libraries, since these versions then end the process. The
// transports follow this table, `weft doctor` and `weft info` print it, and docs/versions.md explains it.
#ifndef BASE_AVOIDED_H
#define BASE_AVOIDED_H

#include <stdbool.h>
#include <stdint.h>

enum avoided_id { AVOIDED_UCX_POSIX, AVOIDED_OFI_SHM, AVOIDED_OFI_CLOSE };

#define AVOIDED_VERSION(major, minor) ((uint32_t)(major)*1000 + (uint32_t)(minor))
#define AVOIDED_ALL                   UINT32_MAX // no version without the defect is known

struct avoided {
  const char *library;
  uint32_t since, before; // AVOIDED_VERSION(); `since` 0: from the oldest version on
  const char *what;       // the function that is not used
  const char *why;
  const char *instead;
};

// Whether the entry applies to that version of its library.
bool avoided_in(enum avoided_id id, unsigned major, unsigned minor);

const struct avoided *avoided_row(enum avoided_id id);

// Iterates over the rows that apply to a library in a version such as "1.18.1": returns the first row behind `after`,
// with NULL the first of all. NULL: there is no further row.
const struct avoided *avoided_next(const char *library, const char *version, const struct avoided *after);

#endif
