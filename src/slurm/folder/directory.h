// The directories of a batch, which hold what runs under this user's name: scripts, and environments, which may have
// secrets. So they are this user's, and nobody else writes there.
#ifndef SLURM_FOLDER_DIRECTORY_H
#define SLURM_FOLDER_DIRECTORY_H

#include <stddef.h>

// Makes `path`, absolute, with its parents, mode 0700, and checks what is there already: of the first `own` bytes on as
// slurm_directory_check(), and that nobody can put another in the place of these. INVALID says what is wrong.
int slurm_directory_make(const char *path, size_t own);

// INVALID: it is another user's, others may write to it, or it is a link. SYSTEM: it cannot be looked at.
int slurm_directory_check(const char *path);

#endif
