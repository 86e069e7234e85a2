// Writes the reports of a process about its run to the store, in a separate thread, so that operations do not wait for
// the store. It keeps all reports, and writes them again to a store that has forgotten the run.
#ifndef RUN_COMMON_STORE_WRITER_H
#define RUN_COMMON_STORE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

struct run_reporter;

struct run_reporter_options {
  weft_store_t *store;
  int64_t lease; // lease to which all keys are bound
  // The key /weft/<job>/run, from which the reporter reads a new lease of the run, and the run that this key has to
  // name. NULL: the reporter never looks for a new lease.
  const char *live, *run;
  // Called on the reporter's thread after the run's lease was found again in the store. After an error it is called
  // again. NULL: nothing has to be done.
  int (*renewed)(void *arg);
  void *arg;
};

int run_reporter_open(struct run_reporter **reporter, const struct run_reporter_options *options);

// Writes the queued reports until the deadline, and ends the thread. NULL is legal.
void run_reporter_close(struct run_reporter *reporter, uint64_t deadline_ns);

// Queues a put and takes over `json`; NULL is ignored. Puts are written in order. Each is repeated while the store does
// not answer. [any]
void run_reporter_put(struct run_reporter *reporter, const char *key, json_t *json);

// The same for a report that the store already has. [any]
void run_reporter_keep(struct run_reporter *reporter, const char *key, json_t *json);

// To be called if the store may have forgotten the run. The reporter finds the run's lease and, if that is a new lease,
// writes all reports again. [any, callback too]
void run_reporter_renew(struct run_reporter *reporter);

// Whether everything is written. [any]
bool run_reporter_is_idle(struct run_reporter *reporter);

#endif
