// Looks for a plug-in, checks that no other user could have written it, and loads it.
#include "base/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

#ifndef PLUGIN_FOLDER // from the folder of a program to that of the libraries, in an installation
#define PLUGIN_FOLDER "../lib"
#endif
#ifndef PLUGIN_INSTALLED // the folder of the libraries, for a program that holds this code and lies elsewhere
#define PLUGIN_INSTALLED "/usr/local/lib"
#endif

enum { MAX_NAME = 64, MAX_FOLDER = PATH_MAX + sizeof PLUGIN_FOLDER, MAX_LINE = PATH_MAX + 128 };

// The file from which this code was mapped, by the kernel: the dynamic linker's name of it may be relative to a working
// directory that has changed since.
static bool mapped_file(const void *here, char path[PATH_MAX]) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[MAX_LINE];
  bool found = false;
  while (maps && !found && fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    const char *name = strchr(line, '/');
    if (!name || sscanf(line, "%lx-%lx", &begin, &end) != 2)
      continue;
    found = (unsigned long)here >= begin && (unsigned long)here < end && strlen(name) < PATH_MAX;
    if (found)
      snprintf(path, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
  }
  if (maps)
    fclose(maps);
  return found;
}

// The file that holds this code, by the dynamic linker's list; the program itself has no name there.
static bool own_file(char file[PATH_MAX]) {
  static const char here;
  char mapped[PATH_MAX];
  Dl_info info;
  struct link_map *map = NULL;
  if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
    return false;
  const char *name = map->l_name && map->l_name[0] ? map->l_name : "/proc/self/exe";
  if (*name != '/')
    name = mapped_file(&here, mapped) ? mapped : NULL;
  return name && realpath(name, file);
}

// --- the owner of a file ---

// The file that has this code. A plug-in's file must be protected at least as well; whoever can write this one controls
// this process anyway.
struct trust {
  struct stat own;
  bool strict; // in a program that has more rights than its caller, only files of root and of its own are accepted
};

// NULL: only users that can also change this process can change the file.
static const char *find_writer(const struct trust *trust, const struct stat *what) {
  const struct stat *own = &trust->own;
  mode_t shared = trust->strict ? 0 : own->st_mode;
  if (what->st_uid != 0 && what->st_uid != geteuid() && (trust->strict || what->st_uid != own->st_uid))
    return "belongs to another user";
  if (what->st_mode & S_IWOTH && !(shared & S_IWOTH))
    return "can be written by everybody";
  bool own_group = !trust->strict && (what->st_gid == getegid() || (shared & S_IWGRP && what->st_gid == own->st_gid));
  // A group that root lets write is root's choice (Debian's /usr/local belongs to the group staff).
  if (what->st_mode & S_IWGRP && what->st_uid != 0 && !own_group)
    return "can be written by another group";
  return NULL;
}

// `with_folder`: also checks the folder, since a user who can write it could replace the file.
static int check_file(const struct plugin *plugin, const struct trust *trust, const char *path, bool with_folder) {
  char real[PATH_MAX];
  struct stat info;
  if (!realpath(path, real) || stat(real, &info) != 0)
    return fail(WEFT_ERR_UNSUPPORTED, "cannot load the %s %s: %s", plugin->called, path, strerror(errno));
  const char *why = find_writer(trust, &info), *what = "it";
  if (!why && (with_folder || trust->strict)) {
    *strrchr(real, '/') = '\0';
    what = "its folder";
    if (stat(*real ? real : "/", &info) != 0)
      return fail(WEFT_ERR_UNSUPPORTED, "cannot load the %s %s: %s", plugin->called, path, strerror(errno));
    if (info.st_mode & S_ISVTX) // users that may write there cannot replace another user's file
      info.st_mode &= ~(mode_t)(S_IWOTH | S_IWGRP);
    why = find_writer(trust, &info);
  }
  return why ? fail(
                   WEFT_ERR_UNSUPPORTED,
                   "the %s %s is not loaded: %s %s; want a file of root's or of this user's that nobody else can write",
                   plugin->called, path, what, why)
             : 0;
}

// --- loading ---

static int take(const struct plugin *plugin, void *file, const char *path, plugin_check_fn check, void *arg) {
  void *symbol = dlsym(file, plugin->symbol);
  int rc = symbol ? check(arg, symbol, path)
                  : fail(WEFT_ERR_UNSUPPORTED, "%s is not the %s of Weft: it has no %s", path, plugin->called,
                         plugin->symbol);
  if (rc != 0)
    dlclose(file);
  return rc;
}

// Blocks signals from outside, but not those that errors of this thread itself raise.
static void block_signals(sigset_t *before) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t blocked;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    sigdelset(&blocked, own[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, before);
}

// The load of a library must not change how this process handles signals: libpsm_infinipath, which Debian's libfabric
// includes, installs handlers for SIGTERM, SIGSEGV and others, which end the process with status 1. A signal that
// arrives meanwhile waits for the original handlers.
static void *open_file(const char *path) {
  struct sigaction before[NSIG], after;
  sigset_t mask;
  block_signals(&mask);
  for (int i = 1; i < NSIG; i++) {
    if (sigaction(i, NULL, &before[i]) != 0)
      before[i].sa_handler = SIG_ERR; // the C library's own
  }
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (int i = 1; i < NSIG; i++) {
    if (before[i].sa_handler != SIG_ERR && sigaction(i, NULL, &after) == 0 &&
        after.sa_sigaction != before[i].sa_sigaction)
      sigaction(i, &before[i], NULL);
  }
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  return file;
}

// `variable`: names it; NULL: it was found.
static int load(const struct plugin *plugin, const char *path, const char *variable, plugin_check_fn check, void *arg) {
  void *file = open_file(path);
  if (file)
    return take(plugin, file, path, check, arg);
  const char *why = dlerror();
  return fail(WEFT_ERR_UNSUPPORTED, "cannot load the %s %s%s%s%s: %s", plugin->called, path, variable ? " (from " : "",
              variable ? variable : "", variable ? ")" : "", why ? why : "no reason");
}

// The possible places of the file, the best first. The name is never passed without a path: the dynamic linker would
// then also search the folders of the environment, which may include the working directory.
static int search(const struct plugin *plugin, const struct trust *trust, const char *own, plugin_check_fn check,
                  void *arg) {
  char folders[3][MAX_FOLDER] = {"", "", PLUGIN_INSTALLED}, path[MAX_FOLDER + MAX_NAME];
  int length = own ? (int)(strrchr(own, '/') - own) : 0;
  if (own) {
    snprintf(folders[0], MAX_FOLDER, "%.*s", length, own);
    snprintf(folders[1], MAX_FOLDER, "%.*s/" PLUGIN_FOLDER, length, own);
  }
  for (int i = own ? 0 : 2; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folders[i], plugin->file);
    if (access(path, F_OK) != 0)
      continue;
    int rc = check_file(plugin, trust, path, i > 0);
    return rc == 0 ? load(plugin, path, NULL, check, arg) : rc;
  }
  // The advice comes first, since the folders' names may be longer than the room for the error text.
  return fail(
      WEFT_ERR_UNSUPPORTED,
      "the %s is not installed: install %s, or name its file by the whole path in %s; there is no %s in %s%s%s%s%s",
      plugin->called, plugin->package, plugin->variable, plugin->file, folders[0], own ? ", " : "", folders[1],
      own ? " and " : "", folders[2]);
}

static int load_named(const struct plugin *plugin, const struct trust *trust, const char *named, plugin_check_fn check,
                      void *arg) {
  if (*named != '/')
    return fail(
        WEFT_ERR_UNSUPPORTED,
        "%s names \"%s\", which means a different file in each working directory: want a path that begins with /",
        plugin->variable, named);
  if (access(named, F_OK) != 0)
    return fail(WEFT_ERR_UNSUPPORTED, "cannot load the %s %s (from %s): %s", plugin->called, named, plugin->variable,
                strerror(errno));
  int rc = check_file(plugin, trust, named, true);
  return rc == 0 ? load(plugin, named, plugin->variable, check, arg) : rc;
}

int plugin_open(const struct plugin *plugin, plugin_check_fn check, void *arg) {
  char own[PATH_MAX];
  struct trust trust = {.strict = getauxval(AT_SECURE) != 0};
  bool found = own_file(own) && stat(own, &trust.own) == 0;
  if (!found) // root's, and written by nobody else
    trust.own = (struct stat){.st_mode = 0};
  const char *named = secure_getenv(plugin->variable);
  if (named && *named)
    return load_named(plugin, &trust, named, check, arg);
  return search(plugin, &trust, found ? own : NULL, check, arg);
}
