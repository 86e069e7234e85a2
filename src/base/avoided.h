// What Weft does not ask of some versions of the libraries that it uses, since they end the process there. One table,
// which the transports follow, `weft doctor` and `weft info` tell, and docs/versions.md explains.
#ifndef BASE_AVOIDED_H
#define BASE_AVOIDED_H

#include <stdbool.h>
#include <stdint.h>

enum avoided_id { AVOIDED_UCX_POSIX, AVOIDED_OFI_SHM, AVOIDED_OFI_CLOSE };

#define AVOIDED_VERSION(major, minor) ((uint32_t)(major)*1000 + (uint32_t)(minor))
#define AVOIDED_ALL                   UINT32_MAX // no version is known that does better

struct avoided {
  const char *library;
  uint32_t since, before; // AVOIDED_VERSION(); since 0: from the oldest on
  const char *what;       // is left out
  const char *why;
  const char *instead;
};

// Whether that version of its library is one of those.
bool avoided_in(enum avoided_id id, unsigned major, unsigned minor);

const struct avoided *avoided_row(enum avoided_id id);

// The rows of a library in that version, "1.18.1", one after the other: the first behind `after`, or of all with NULL.
// NULL: there is no other.
const struct avoided *avoided_next(const char *library, const char *version, const struct avoided *after);

#endif
