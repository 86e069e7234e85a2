// Writes a rank's records to the store on a thread of its own: operations do not wait for the store.
#ifndef RUN_REPORTER_H
#define RUN_REPORTER_H

#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

struct run_reporter;

// Everything goes on `lease`.
int run_reporter_open(struct run_reporter **reporter, weft_store_t *store, int64_t lease);

// Writes what is queued, gives up at the deadline, and ends the thread. NULL is legal.
void run_reporter_close(struct run_reporter *reporter, uint64_t deadline_ns);

// Queues a put and takes `json` over; NULL is ignored. They are made in order, each tried again while the store does
// not answer. [any]
void run_reporter_put(struct run_reporter *reporter, const char *key, json_t *json);

#endif
