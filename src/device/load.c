#include "device/device.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "libweft_cuda.so.0"
#define SYMBOL    "weft_cuda_api"
#ifndef DEVICE_PLUGIN_FOLDER // from the folder of a program to that of the libraries, in an installation
#define DEVICE_PLUGIN_FOLDER "../lib"
#endif

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

// `path` has been opened: is it of this version?
static int take(void *file, const char *path, const struct device_api **api) {
  device_api_fn *function;
  void *symbol = dlsym(file, SYMBOL);
  memcpy(&function, &symbol, sizeof function); // ISO C does not convert one to the other
  const struct device_api *found = function ? function() : NULL;
  if (found && found->abi == DEVICE_ABI) {
    *api = found;
    return 0;
  }
  int rc;
  if (found)
    rc = fail(WEFT_ERR_UNSUPPORTED,
              "the CUDA plug-in %s is of another version (its interface has number %u, this library's %u): install the "
              "plug-in and the library of one build",
              path, found->abi, (unsigned)DEVICE_ABI);
  else
    rc = fail(WEFT_ERR_UNSUPPORTED, "%s is no CUDA plug-in of Weft: it has no " SYMBOL, path);
  dlclose(file);
  return rc;
}

static int cannot_load(const char *path, const char *named_by) {
  const char *why = dlerror();
  return fail(WEFT_ERR_UNSUPPORTED, "cannot load the CUDA plug-in %s%s: %s", path, named_by, why ? why : "no reason");
}

// A file that is there is the one that is meant: if it cannot be loaded, nothing else is tried. NOT_FOUND: it is not.
static int try_file(const char *path, const struct device_api **api) {
  if (access(path, F_OK) != 0)
    return WEFT_ERR_NOT_FOUND;
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return file ? take(file, path, api) : cannot_load(path, "");
}

// Beside this code, in the installation's folder of libraries, and where the dynamic linker looks.
static int search(const struct device_api **api) {
  char folder[PATH_MAX], path[2][PATH_MAX + sizeof DEVICE_PLUGIN_FOLDER + sizeof FILE_NAME + 2];
  path[0][0] = path[1][0] = '\0';
  if (own_folder(folder)) {
    snprintf(path[0], sizeof path[0], "%s/" FILE_NAME, folder);
    snprintf(path[1], sizeof path[1], "%s/" DEVICE_PLUGIN_FOLDER "/" FILE_NAME, folder);
    for (int i = 0; i < 2; i++) {
      int rc = try_file(path[i], api);
      if (rc != WEFT_ERR_NOT_FOUND)
        return rc;
    }
  }
  void *file = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
  if (file)
    return take(file, FILE_NAME, api);
  const char *why = dlerror();
  return fail(WEFT_ERR_UNSUPPORTED,
              "the CUDA plug-in is not installed: looked for %s, %s and where the dynamic linker looks (%s). Install "
              "libweft_cuda, or name the file in WEFT_CUDA_PLUGIN",
              path[0], path[1], why ? why : "no reason");
}

int device_load(const struct device_api **api) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const struct device_api *loaded; // never unloaded: CUDA's threads run its code
  pthread_mutex_lock(&lock);
  int rc = 0;
  if (!loaded) {
    const char *named = secure_getenv("WEFT_CUDA_PLUGIN");
    if (!named || !named[0]) {
      rc = search(&loaded);
    } else {
      void *file = dlopen(named, RTLD_NOW | RTLD_LOCAL);
      rc = file ? take(file, named, &loaded) : cannot_load(named, " (from WEFT_CUDA_PLUGIN)");
    }
  }
  if (rc == 0)
    *api = loaded;
  pthread_mutex_unlock(&lock);
  return rc;
}

int device_fail(int rc, const char *what, const char *why) {
  return fail(rc, "%s: %s", what, why);
}
