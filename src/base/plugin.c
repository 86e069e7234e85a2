#include "base/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#ifndef PLUGIN_FOLDER // from the folder of a program to that of the libraries, in an installation
#define PLUGIN_FOLDER "../lib"
#endif

enum { MAX_NAME = 64, MAX_PATH = PATH_MAX + sizeof PLUGIN_FOLDER + MAX_NAME };

// Whose it is by the dynamic linker's list; the program itself has no name there.
static bool own_folder(char folder[PATH_MAX]) {
  static const char here;
  Dl_info info;
  struct link_map *map = NULL;
  if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
    return false;
  const char *file = map->l_name && map->l_name[0] ? map->l_name : "/proc/self/exe";
  if (!realpath(file, folder))
    return false;
  char *slash = strrchr(folder, '/');
  *slash = '\0';
  return true;
}

static int take(const struct plugin *plugin, void *file, const char *path, plugin_check_fn check, void *arg) {
  void *symbol = dlsym(file, plugin->symbol);
  int rc = symbol
               ? check(arg, symbol, path)
               : fail(WEFT_ERR_UNSUPPORTED, "%s is no %s of Weft: it has no %s", path, plugin->called, plugin->symbol);
  if (rc != 0)
    dlclose(file);
  return rc;
}

static int cannot_load(const struct plugin *plugin, const char *path, const char *variable) {
  const char *why = dlerror();
  return fail(WEFT_ERR_UNSUPPORTED, "cannot load the %s %s%s%s%s: %s", plugin->called, path, variable ? " (from " : "",
              variable ? variable : "", variable ? ")" : "", why ? why : "no reason");
}

// What a library does when it is loaded must not change how this process takes signals: libpsm_infinipath, which comes
// with Debian's libfabric, installs handlers for SIGTERM, SIGSEGV and others.
static void *open_file(const char *path) {
  struct sigaction before[NSIG], after;
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
  return file;
}

// NOT_FOUND: the file is not there.
static int try_file(const struct plugin *plugin, const char *path, plugin_check_fn check, void *arg) {
  if (access(path, F_OK) != 0)
    return WEFT_ERR_NOT_FOUND;
  void *file = open_file(path);
  return file ? take(plugin, file, path, check, arg) : cannot_load(plugin, path, NULL);
}

static int search(const struct plugin *plugin, plugin_check_fn check, void *arg) {
  char folder[PATH_MAX], path[2][MAX_PATH];
  path[0][0] = path[1][0] = '\0';
  if (own_folder(folder)) {
    snprintf(path[0], sizeof path[0], "%s/%s", folder, plugin->file);
    snprintf(path[1], sizeof path[1], "%s/" PLUGIN_FOLDER "/%s", folder, plugin->file);
    for (int i = 0; i < 2; i++) {
      int rc = try_file(plugin, path[i], check, arg);
      if (rc != WEFT_ERR_NOT_FOUND)
        return rc;
    }
  }
  void *file = open_file(plugin->file);
  if (file)
    return take(plugin, file, plugin->file, check, arg);
  const char *why = dlerror();
  return fail(WEFT_ERR_UNSUPPORTED,
              "the %s is not installed: looked for %s, %s and where the dynamic linker looks (%s). Install %s, or name "
              "the file in %s",
              plugin->called, path[0], path[1], why ? why : "no reason", plugin->package, plugin->variable);
}

int plugin_open(const struct plugin *plugin, plugin_check_fn check, void *arg) {
  const char *named = secure_getenv(plugin->variable);
  if (!named || !named[0])
    return search(plugin, check, arg);
  void *file = open_file(named);
  return file ? take(plugin, file, named, check, arg) : cannot_load(plugin, named, plugin->variable);
}
