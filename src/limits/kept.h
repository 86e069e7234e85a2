// The file in which a host's measured bounds are kept between runs.
#ifndef LIMITS_KEPT_H
#define LIMITS_KEPT_H

#include "limits/hardware/hardware.h"
#include "limits/table/table.h"

enum { KEPT_VERSION = 1, KEPT_PATH = 4096, KEPT_TIME = 32 };

// Writes the path of the file to `path`: it is in $XDG_CACHE_HOME/weft, else in $HOME/.cache/weft. `make`: also makes
// missing folders. UNSUPPORTED: neither variable names a folder. SYSTEM: the error names the folder that cannot be
// made.
int limits_kept_path(const struct limits_hardware *hardware, bool make, char path[KEPT_PATH]);

// Writes the measurements; the file is written completely or not at all. Errors name the file.
int limits_kept_save(const char *path, const struct limits_hardware *hardware, const struct limits_table *table);

// Reads the file, if it is of this host and hardware. NOT_FOUND: there is no file; PROTOCOL: it is not such a file, and
// the error names the member that is wrong; VERSION: it has another format; UNSUPPORTED: it is of another host or other
// hardware, and the error says what differs. `when`: time of the measurement, RFC 3339.
int limits_kept_load(const char *path, const struct limits_hardware *hardware, struct limits_table *table,
                     char when[KEPT_TIME]);

#endif
