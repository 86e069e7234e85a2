#include "run/reporter.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "run/storage.h"

enum { RETRY_MS = 100 };

struct entry {
  char *key;
  json_t *json;
  struct entry *next;
};

struct run_reporter {
  weft_store_t *store;
  int64_t lease;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct entry *first, **last;
  bool closing;
  uint64_t deadline_ns; // while closing
};

static void free_entry(struct entry *entry) {
  free(entry->key);
  json_decref(entry->json);
  free(entry);
}

// Whether an error may go away by itself.
static bool passes(int err) {
  return err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT;
}

// Called and returns with the mutex held.
static void write_entry(struct run_reporter *reporter, struct entry *entry) {
  for (;;) {
    pthread_mutex_unlock(&reporter->mutex);
    int err = run_storage_put(reporter->store, entry->key, json_incref(entry->json), reporter->lease);
    pthread_mutex_lock(&reporter->mutex);
    if (!err)
      return;
    if (!passes(err) || (reporter->closing && clock_passed(reporter->deadline_ns))) {
      log_warn("cannot write %s to the store: %s", entry->key, weft_last_error());
      return;
    }
    struct timespec until = clock_timespec(clock_deadline_ms(RETRY_MS));
    pthread_cond_timedwait(&reporter->changed, &reporter->mutex, &until);
  }
}

static void *work(void *arg) {
  struct run_reporter *reporter = arg;
  pthread_mutex_lock(&reporter->mutex);
  for (;;) {
    while (!reporter->first && !reporter->closing)
      pthread_cond_wait(&reporter->changed, &reporter->mutex);
    struct entry *entry = reporter->first;
    if (!entry)
      break;
    write_entry(reporter, entry);
    reporter->first = entry->next;
    if (!reporter->first)
      reporter->last = &reporter->first;
    free_entry(entry);
  }
  pthread_mutex_unlock(&reporter->mutex);
  return NULL;
}

int run_reporter_open(struct run_reporter **out, weft_store_t *store, int64_t lease) {
  struct run_reporter *reporter = calloc(1, sizeof *reporter);
  if (!reporter)
    return fail(WEFT_ERR_NOMEM, "no memory for the reporter");
  reporter->store = store;
  reporter->lease = lease;
  reporter->last = &reporter->first;
  pthread_mutex_init(&reporter->mutex, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&reporter->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  int error = pthread_create(&reporter->thread, NULL, work, reporter);
  if (error) {
    pthread_cond_destroy(&reporter->changed);
    pthread_mutex_destroy(&reporter->mutex);
    free(reporter);
    return fail_errno(error, "cannot start the reporter's thread");
  }
  *out = reporter;
  return 0;
}

void run_reporter_put(struct run_reporter *reporter, const char *key, json_t *json) {
  struct entry *entry = json ? calloc(1, sizeof *entry) : NULL;
  if (entry && !(entry->key = strdup(key))) {
    free(entry);
    entry = NULL;
  }
  if (!entry) {
    log_error("no memory for a report of %s", key);
    json_decref(json);
    return;
  }
  entry->json = json;
  pthread_mutex_lock(&reporter->mutex);
  *reporter->last = entry;
  reporter->last = &entry->next;
  pthread_cond_signal(&reporter->changed);
  pthread_mutex_unlock(&reporter->mutex);
}

void run_reporter_close(struct run_reporter *reporter, uint64_t deadline_ns) {
  if (!reporter)
    return;
  pthread_mutex_lock(&reporter->mutex);
  reporter->closing = true;
  reporter->deadline_ns = deadline_ns;
  pthread_cond_signal(&reporter->changed);
  pthread_mutex_unlock(&reporter->mutex);
  pthread_join(reporter->thread, NULL);
  pthread_cond_destroy(&reporter->changed);
  pthread_mutex_destroy(&reporter->mutex);
  free(reporter);
}
