// The interface of the plug-in libweft_topology.
#include "topology/served/served.h"

#include <pthread.h>
#include <stdlib.h>

// WEFT_NICS may name devices that cannot be opened: the user's choice is not corrected.
static int look(const struct topology_ask *ask, struct topology_choice **out) {
  const struct topology_choice_options options = {.root = ask->root};
  const char *wished = getenv("WEFT_NICS");
  struct topology_choice *choice = NULL;
  int rc = topology_choose(&choice, &options);
  if (rc == 0 && !(wished && *wished))
    rc = topology_keep_openable(choice, ask->openable);
  if (rc == 0)
    *out = choice;
  else
    topology_choice_free(choice);
  return rc;
}

// hwloc takes tens of milliseconds to look at a host.
static int serve(const struct topology_ask *ask, struct topology_served *served) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct topology_choice *choice;
  pthread_mutex_lock(&lock);
  int rc = choice ? 0 : look(ask, &choice);
  if (rc == 0)
    topology_served_by(choice, ask, served);
  pthread_mutex_unlock(&lock);
  return rc;
}

extern const struct topology_plugin weft_topology_plugin;

__attribute__((visibility("default"))) const struct topology_plugin weft_topology_plugin = {
    .abi = TOPOLOGY_SERVE_ABI,
    .share = fail_share,
    .serve = serve,
};
