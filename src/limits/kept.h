// The file in which a host's measured bounds are kept between runs.
#ifndef LIMITS_KEPT_H
#define LIMITS_KEPT_H

#include "limits/hardware/hardware.h"
#include "limits/table/table.h"

enum { KEPT_VERSION = 1, KEPT_PATH = 4096, KEPT_TIME = 32 };

// Where it is: $XDG_CACHE_HOME/weft, else $HOME/.cache/weft. `make`: makes the folders that are missing. Into path.
// UNSUPPORTED: neither variable names a folder. SYSTEM names what cannot be made.
int limits_kept_path(const struct limits_hardware *hardware, bool make, char path[KEPT_PATH]);

// Writes what was measured, whole or not at all. Errors name the file.
int limits_kept_save(const char *path, const struct limits_hardware *hardware, const struct limits_table *table);

// Reads it, if it is of this host and hardware. NOT_FOUND: there is none; PROTOCOL: it is no such file, and the member
// that is wrong; VERSION: of another format; UNSUPPORTED: of another host or other hardware, and what differs.
// `when`: it was measured, RFC 3339.
int limits_kept_load(const char *path, const struct limits_hardware *hardware, struct limits_table *table,
                     char when[KEPT_TIME]);

#endif
