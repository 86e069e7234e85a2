// Finds transports by name: built-in transports, and plug-ins.
#include "transport/plugin.h"

#include <pthread.h>
#include <string.h>

#include "base/fail.h"
#include "base/plugin.h"
#include "transport/fault/fault.h"
#include "transport_builtins.h"

#define DECLARE(name) extern const struct transport transport_##name;
TRANSPORT_BUILTINS(DECLARE)
#undef DECLARE

static const struct transport *const builtins[] = {
#define ENTRY(name) &transport_##name,
    TRANSPORT_BUILTINS(ENTRY)
#undef ENTRY
        NULL,
};

enum plugin_name { PLUGIN_UCX, PLUGIN_OFI, NUM_PLUGINS };

static const struct {
  const char *name;
  struct plugin plugin;
} plugins[NUM_PLUGINS] = {
#define PLUGIN(called_, variable_)                                                                                     \
  {                                                                                                                    \
    called_, {                                                                                                         \
      .file = "libweft_" called_ ".so.0", .called = called_ " plug-in", .package = "libweft_" called_,                 \
      .variable = variable_, .symbol = TRANSPORT_PLUGIN_SYMBOL                                                         \
    }                                                                                                                  \
  }
    [PLUGIN_UCX] = PLUGIN("ucx", "WEFT_UCX_PLUGIN"),
    [PLUGIN_OFI] = PLUGIN("ofi", "WEFT_OFI_PLUGIN"),
#undef PLUGIN
};

const char *const *transport_names(void) {
  static const char *const names[] = {"shm", "cuda", "ucx", "ofi", "file", "object", NULL};
  return names;
}

static int check(void *arg, void *symbol, const char *path) {
  const struct transport_plugin *found = symbol;
  if (found->abi != TRANSPORT_ABI)
    return fail(WEFT_ERR_UNSUPPORTED,
                "the transport %s is of another version (its interface has number %u, this library's %u): install the "
                "plug-in and the library of one build",
                path, found->abi, (unsigned)TRANSPORT_ABI);
  found->share(fail_detail);
  *(const struct transport **)arg = found->transport;
  return 0;
}

// Keeps a plug-in that was found. A missing plug-in is searched for again, since it may have been installed meanwhile.
static int load(enum plugin_name name, const struct transport **transport) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const struct transport *loaded[NUM_PLUGINS];
  pthread_mutex_lock(&lock);
  int rc = loaded[name] ? 0 : plugin_open(&plugins[name].plugin, check, &loaded[name]);
  if (rc == 0)
    *transport = loaded[name];
  pthread_mutex_unlock(&lock);
  return rc;
}

int transport_find(const char *name, const struct transport **transport) {
  if (strncmp(name, "fault:", 6) == 0)
    return transport_fault_find(name, transport_find, transport);
  for (const struct transport *const *one = builtins; *one; one++) {
    if (strcmp((*one)->name, name) == 0) {
      *transport = *one;
      return 0;
    }
  }
  for (int i = 0; i < NUM_PLUGINS; i++) {
    if (strcmp(plugins[i].name, name) == 0)
      return load((enum plugin_name)i, transport);
  }
  for (const char *const *known = transport_names(); *known; known++) {
    if (strcmp(*known, name) == 0)
      return fail(WEFT_ERR_UNSUPPORTED, "the transport %s is not in this build", name);
  }
  return fail(WEFT_ERR_NOT_FOUND, "there is no transport %s: shm, cuda, ucx, ofi, file and object are", name);
}
