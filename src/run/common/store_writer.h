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
  // The key /weft/<job>/run and the run that it has to name: where the run's lease is found anew. NULL: never.
  const char *live, *run;
  // Called on the reporter's thread when the store stands again with the run's lease; an error that may pass
  // (UNREACHABLE, TIMEOUT) has it called again. NULL: nothing is to be done.
  int (*renewed)(void *arg);
  void *arg;
};

int run_reporter_open(struct run_reporter **reporter, const struct run_reporter_options *options);

// Writes the queued reports until the deadline, and ends the thread. NULL is legal.
void run_reporter_close(struct run_reporter *reporter, uint64_t deadline_ns);

// Queues a put and takes `json` over; NULL is ignored. They are made in order, each tried again while the store does
// not answer. [any]
void run_reporter_put(struct run_reporter *reporter, const char *key, json_t *json);

// The same for a report that the store already has. [any]
void run_reporter_keep(struct run_reporter *reporter, const char *key, json_t *json);

// The store may have forgotten the run: finds the run's lease and, if it is another, writes everything again.
// [any, callback too]
void run_reporter_renew(struct run_reporter *reporter);

// Whether everything is written. [any]
bool run_reporter_is_idle(struct run_reporter *reporter);

#endif
