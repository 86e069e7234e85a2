// Creates the run directory and its parents. It walks from one directory's descriptor to the next, and checks each
// directory.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "run/directory/run_directory.h"

enum { HOLD = O_PATH | O_DIRECTORY | O_CLOEXEC };

// The position of the walk: in the directory `at`, before the name from path + begin to path + end.
struct walk {
  struct run_directory *directory;
  char *name;
  int at;
  size_t begin, end;
};

static bool is_last(const struct walk *walk) {
  return walk->directory->path[walk->end] == '\0';
}

static int cannot_make(const struct walk *walk, int error) {
  const char *path = walk->directory->path;
  return is_last(walk) ? fail_errno(error, "cannot make the run directory %s (" RUN_DIRECTORY_OTHER ")", path)
                       : fail_errno(error, "cannot make the run directory %s (" RUN_DIRECTORY_OTHER "): %.*s", path,
                                    (int)walk->end, path);
}

// Refuses a parent in which other users may rename entries: they could put another directory in the place of ours.
static int check_parent(const struct walk *walk) {
  const char *path = walk->directory->path;
  struct stat status;
  if (fstat(walk->at, &status) != 0)
    return cannot_make(walk, errno);
  if (!(status.st_mode & S_IWOTH) || (status.st_mode & S_ISVTX))
    return 0;
  return fail(WEFT_ERR_INVALID,
              "the run directory %s: any user may write to %.*s, which has no sticky bit, and put another directory in "
              "its place; chmod o-w it, or want a directory elsewhere (" RUN_DIRECTORY_OTHER ")",
              path, walk->begin ? (int)walk->begin : 1, walk->begin ? path : ".");
}

static int check_own(const struct walk *walk) {
  const char *path = walk->directory->path;
  struct stat status;
  if (fstat(walk->at, &status) != 0)
    return cannot_make(walk, errno);
  if (status.st_uid != geteuid())
    return fail(WEFT_ERR_INVALID,
                "the run directory %s belongs to user %u, not to this one, %u: want a directory of your own "
                "(" RUN_DIRECTORY_OTHER ")",
                path, (unsigned)status.st_uid, (unsigned)geteuid());
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return fail(
        WEFT_ERR_INVALID,
        "others may write to the run directory %s (mode %04o): chmod go-w it, or want a directory that does not "
        "exist yet (" RUN_DIRECTORY_OTHER ")",
        path, (unsigned)(status.st_mode & 07777));
  return 0;
}

// Handles a name that is no directory. A link to a parent is followed if this user or root made it.
static int follow(const struct walk *walk, int error, int *next) {
  const char *path = walk->directory->path;
  struct stat status;
  if (fstatat(walk->at, walk->name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(status.st_mode))
    return cannot_make(walk, error);
  if (is_last(walk))
    return fail(WEFT_ERR_INVALID,
                "the run directory %s is a symbolic link: want the directory itself (" RUN_DIRECTORY_OTHER ")", path);
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return fail(WEFT_ERR_INVALID,
                "the run directory %s: %.*s is a symbolic link of user %u: want a path without it (" RUN_DIRECTORY_OTHER
                ")",
                path, (int)walk->end, path, (unsigned)status.st_uid);
  *next = openat(walk->at, walk->name, HOLD);
  return *next < 0 ? cannot_make(walk, errno) : 0;
}

// Creates the directory of that name, if it does not exist, and enters it.
static int enter(struct walk *walk) {
  struct run_directory *directory = walk->directory;
  int err = check_parent(walk), next = -1;
  if (err)
    return err;
  if (mkdirat(walk->at, walk->name, 0700) == 0) {
    if (directory->base < 0) {
      directory->base = fcntl(walk->at, F_DUPFD_CLOEXEC, 0);
      directory->made = walk->begin;
    }
  } else if (errno != EEXIST) {
    return cannot_make(walk, errno);
  }
  next = openat(walk->at, walk->name, HOLD | O_NOFOLLOW);
  err = next < 0 ? follow(walk, errno, &next) : 0;
  if (err)
    return err;
  close(walk->at);
  walk->at = next;
  return 0;
}

int run_directory_make(struct run_directory *directory) {
  struct walk walk = {.directory = directory};
  const char *path = directory->path;
  directory->fd = directory->base = -1;
  walk.at = open(path[0] == '/' ? "/" : ".", HOLD);
  int err = walk.at < 0 ? cannot_make(&walk, errno) : 0;
  while (!err && path[walk.begin += strspn(path + walk.begin, "/")]) {
    walk.end = walk.begin + strcspn(path + walk.begin, "/");
    walk.name = strndup(path + walk.begin, walk.end - walk.begin);
    err = walk.name ? enter(&walk) : fail(WEFT_ERR_NOMEM, "no memory for the run directory's path");
    free(walk.name);
    walk.begin = walk.end;
  }
  if (!err)
    err = check_own(&walk);
  if (!err)
    directory->fd = walk.at;
  else if (walk.at >= 0)
    close(walk.at);
  return err;
}

// Removes the created directories that are empty.
void run_directory_unmake(struct run_directory *directory) {
  if (directory->base < 0)
    return;
  char *made = directory->path + directory->made;
  while (*made && (unlinkat(directory->base, made, AT_REMOVEDIR) == 0 || errno == ENOENT)) {
    char *slash = strrchr(made, '/');
    *(slash ? slash : made) = '\0';
  }
  close(directory->base);
  directory->base = -1;
}
