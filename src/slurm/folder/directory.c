// Directories that only this user can write to.
#include "slurm/folder/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

#define OTHER "--output-dir or --name chooses another"

int slurm_directory_check(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0)
    return fail_errno(errno, "cannot look at the directory %s", path);
  if (S_ISLNK(status.st_mode))
    return fail(WEFT_ERR_INVALID, "%s is a symbolic link: want the directory itself (" OTHER ")", path);
  if (!S_ISDIR(status.st_mode))
    return fail(WEFT_ERR_INVALID, "%s is not a directory (" OTHER ")", path);
  if (status.st_uid != geteuid())
    return fail(WEFT_ERR_INVALID,
                "the directory %s belongs to user %u, not to this one, %u, whose jobs run what is in it: want a "
                "directory of your own (" OTHER ")",
                path, (unsigned)status.st_uid, (unsigned)geteuid());
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return fail(WEFT_ERR_INVALID,
                "others may write to the directory %s (mode %04o), and your jobs run what is in it: chmod go-w it, or "
                "want a directory that does not exist yet (" OTHER ")",
                path, (unsigned)(status.st_mode & 07777));
  return 0;
}

// Refuses a parent in which other users may rename entries, since they could replace our directory by another one.
static int check_parent(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0)
    return fail_errno(errno, "cannot look at the directory %s", path);
  if (!(status.st_mode & S_IWOTH) || (status.st_mode & S_ISVTX))
    return 0;
  return fail(WEFT_ERR_INVALID,
              "any user may write to %s, which has no sticky bit, and replace your directory by another one; chmod o-w "
              "it, or want a directory elsewhere (" OTHER ")",
              path);
}

int slurm_directory_make(const char *path, size_t own) {
  char *copy = strdup(path);
  int err = copy ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a path");
  for (char *at = copy; !err && at && *at;) {
    at += strspn(at, "/");
    at += strcspn(at, "/");
    char end = *at;
    *at = '\0';
    if (mkdir(copy, 0700) != 0 && errno != EEXIST)
      err = fail_errno(errno, "cannot make the directory %s", copy);
    else
      err = (size_t)(at - copy) < own ? check_parent(copy) : slurm_directory_check(copy);
    *at = end;
  }
  free(copy);
  return err;
}
