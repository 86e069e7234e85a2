// The directories of a batch. They contain scripts that run as this user, and environments, which may have secrets. So
// they must belong to this user, and no other user may write to them.
#ifndef SLURM_FOLDER_DIRECTORY_H
#define SLURM_FOLDER_DIRECTORY_H

#include <stddef.h>

// Makes the absolute `path` and its parents with mode 0700, and checks directories that exist already. From the first
// `own` bytes of `path` on it checks them as slurm_directory_check() does, and also that no other user can replace
// them. INVALID: the error says what is wrong.
int slurm_directory_make(const char *path, size_t own);

// INVALID: it belongs to another user, others may write to it, or it is a link. SYSTEM: it cannot be examined.
int slurm_directory_check(const char *path);

#endif
