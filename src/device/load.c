// Loads the plug-in libweft_cuda, once.
#include "device/device.h"

#include "base/fail.h"
#include "base/plugin.h"

#include <pthread.h>
#include <string.h>

// Checks that the plug-in has this library's interface.
static int check(void *arg, void *symbol, const char *path) {
  const struct device_api **api = arg;
  device_api_fn *function;
  memcpy(&function, &symbol, sizeof function); // ISO C does not convert an object pointer to a function pointer
  const struct device_api *found = function();
  if (found->abi != DEVICE_ABI)
    return fail(WEFT_ERR_UNSUPPORTED,
                "the CUDA plug-in %s is of another version (its interface has number %u, this library needs %u): "
                "install the plug-in and the library of the same build",
                path, found->abi, (unsigned)DEVICE_ABI);
  *api = found;
  return 0;
}

int device_load(const struct device_api **api) {
  static const struct plugin plugin = {.file = "libweft_cuda.so.0",
                                       .called = "CUDA plug-in",
                                       .package = "libweft_cuda",
                                       .variable = "WEFT_CUDA_PLUGIN",
                                       .symbol = "weft_cuda_api"};
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const struct device_api *loaded; // never unloaded: CUDA's threads run its code
  pthread_mutex_lock(&lock);
  int rc = loaded ? 0 : plugin_open(&plugin, check, &loaded);
  if (rc == 0)
    *api = loaded;
  pthread_mutex_unlock(&lock);
  return rc;
}

int device_fail(int rc, const char *what, const char *why) {
  return fail(rc, "%s: %s", what, why);
}
