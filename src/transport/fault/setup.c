// Finds or makes the table for a name of the transport. open() and probe() do not get the table that they belong to. So
// there is a fixed number of set-ups, each with functions of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/fault/fault.h"
#include "transport/fault/worker.h"

enum { MAX_SETUPS = 16, MAX_NAME = 192 };

static struct fault_setup setups[MAX_SETUPS];
static char names[MAX_SETUPS][MAX_NAME];
static uint32_t num_setups;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define FUNCTIONS(n)                                                                                                   \
  static int probe_##n(char *why, size_t cap) {                                                                        \
    return setups[n].inner->probe(why, cap);                                                                           \
  }                                                                                                                    \
  static int open_##n(const struct transport_options *options, struct transport_worker **worker) {                     \
    return fault_open(&setups[n], options, worker);                                                                    \
  }
EACH(FUNCTIONS)
#define PROBE(n) probe_##n,
#define OPEN(n)  open_##n,
static int (*const probes[MAX_SETUPS])(char *, size_t) = {EACH(PROBE)};
static int (*const opens[MAX_SETUPS])(const struct transport_options *, struct transport_worker **) = {EACH(OPEN)};

static int make(const char *name, fault_find_fn find, struct fault_setup *setup) {
  const char *seed = name + strlen("fault:"), *script = strchr(seed, ':');
  const char *inner = script ? strchr(++script, ':') : NULL;
  char *end = NULL;
  setup->seed = strtoull(seed, &end, 0);
  if (!inner || end == seed || *end != ':' || strlen(name) >= MAX_NAME || strncmp(inner + 1, "fault", 5) == 0)
    return fail(WEFT_ERR_INVALID, "\"%.100s\" is not of the form fault:SEED:SCRIPT:TRANSPORT", name);
  int rc = fault_script_read(&setup->script, script, (size_t)(inner - script));
  return rc ? rc : find(inner + 1, &setup->inner);
}

static int find_or_make(const char *name, fault_find_fn find, const struct transport **transport) {
  for (uint32_t i = 0; i < num_setups; i++) {
    if (strcmp(names[i], name) == 0) {
      *transport = &setups[i].table;
      return 0;
    }
  }
  struct fault_setup setup = {.seed = 0};
  int rc = make(name, find, &setup);
  if (rc == 0 && num_setups == MAX_SETUPS)
    rc = fail(WEFT_ERR_LIMIT, "a process has %u different transports with faults at most", (unsigned)MAX_SETUPS);
  if (rc != 0)
    return rc;
  uint32_t own = num_setups++;
  snprintf(names[own], MAX_NAME, "%s", name);
  fault_table(&setup);
  setup.table.name = names[own];
  setup.table.probe = probes[own];
  setup.table.open = opens[own];
  setups[own] = setup;
  *transport = &setups[own].table;
  return 0;
}

int transport_fault_find(const char *name, fault_find_fn find, const struct transport **transport) {
  pthread_mutex_lock(&lock);
  int rc = find_or_make(name, find, transport);
  pthread_mutex_unlock(&lock);
  return rc;
}
