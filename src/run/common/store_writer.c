// The reporter: a thread that writes values to the store in order, and writes them again if the store has forgotten
// them.
#include "run/common/store_writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "run/common/store_json.h"

enum { RETRY_MS = 100 };

struct entry {
  char *key;
  json_t *json;
  bool written;
  struct entry *next;
};

struct run_reporter {
  struct run_reporter_options options;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int64_t lease;
  struct entry *first, **last; // in the order of their puts; only the thread removes entries
  bool renewing;
  bool closing;
  uint64_t deadline_ns; // while closing
};

static void free_entry(struct entry *entry) {
  free(entry->key);
  json_decref(entry->json);
  free(entry);
}

static bool gives_up(const struct run_reporter *reporter) {
  return reporter->closing && clock_passed(reporter->deadline_ns);
}

// Called and returns with the mutex held, like the next ones.
static void pause_a_moment(struct run_reporter *reporter) {
  struct timespec until = clock_timespec(clock_deadline_ms(RETRY_MS));
  pthread_cond_timedwait(&reporter->changed, &reporter->mutex, &until);
}

// Removes older values of this key, which never have to be written again.
static void forget_older(struct run_reporter *reporter, const struct entry *newest) {
  struct entry **link = &reporter->first;
  while (*link != newest) {
    struct entry *entry = *link;
    if (strcmp(entry->key, newest->key) == 0) {
      *link = entry->next;
      free_entry(entry);
    } else {
      link = &entry->next;
    }
  }
}

static void write_entry(struct run_reporter *reporter, struct entry *entry) {
  int64_t lease = reporter->lease;
  pthread_mutex_unlock(&reporter->mutex);
  int err = run_storage_put(reporter->options.store, entry->key, json_incref(entry->json), lease);
  pthread_mutex_lock(&reporter->mutex);
  bool forgotten = err == WEFT_ERR_NOT_FOUND && reporter->options.live;
  if ((forgotten || run_storage_may_pass(err)) && !gives_up(reporter)) {
    reporter->renewing |= forgotten;
    pause_a_moment(reporter);
    return;
  }
  if (err)
    log_warn("cannot write %s to the store: %s", entry->key, weft_last_error());
  entry->written = true;
  forget_older(reporter, entry);
}

static int find_lease(const struct run_reporter_options *options, int64_t *lease) {
  json_t *live = NULL;
  int err = run_storage_get(options->store, options->live, &live);
  const char *run = json_string_value(json_object_get(live, "run"));
  if (!err && (!run || strcmp(run, options->run) != 0))
    err = fail(WEFT_ERR_NOT_FOUND, "the store does not have run %s", options->run);
  if (!err)
    *lease = (int64_t)json_integer_value(json_object_get(live, "lease"));
  json_decref(live);
  return err;
}

static void renew(struct run_reporter *reporter) {
  int64_t lease = 0;
  reporter->renewing = false; // a request that arrives from here on starts another renewal
  pthread_mutex_unlock(&reporter->mutex);
  int err = find_lease(&reporter->options, &lease);
  if (!err && reporter->options.renewed)
    err = reporter->options.renewed(reporter->options.arg);
  pthread_mutex_lock(&reporter->mutex);
  if (err) {
    reporter->renewing = true;
    pause_a_moment(reporter);
    return;
  }
  bool forgotten = lease != reporter->lease; // each lease gets a new random number
  reporter->lease = lease;
  for (struct entry *entry = reporter->first; forgotten && entry; entry = entry->next)
    entry->written = false;
}

static struct entry *unwritten(const struct run_reporter *reporter) {
  struct entry *entry = reporter->first;
  while (entry && entry->written)
    entry = entry->next;
  return entry;
}

static void *work(void *arg) {
  struct run_reporter *reporter = arg;
  pthread_mutex_lock(&reporter->mutex);
  for (;;) {
    struct entry *entry = unwritten(reporter);
    if (reporter->renewing && !gives_up(reporter))
      renew(reporter);
    else if (entry)
      write_entry(reporter, entry);
    else if (reporter->closing)
      break;
    else
      pthread_cond_wait(&reporter->changed, &reporter->mutex); // a put, a renewal and the close all signal
  }
  pthread_mutex_unlock(&reporter->mutex);
  return NULL;
}

static void init_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

int run_reporter_open(struct run_reporter **out, const struct run_reporter_options *options) {
  struct run_reporter *reporter = calloc(1, sizeof *reporter);
  if (!reporter)
    return fail(WEFT_ERR_NOMEM, "no memory for the reporter");
  reporter->options = *options;
  reporter->lease = options->lease;
  reporter->last = &reporter->first;
  pthread_mutex_init(&reporter->mutex, NULL);
  init_condition(&reporter->changed);
  int error = thread_create(&reporter->thread, NULL, work, reporter);
  if (error) {
    pthread_cond_destroy(&reporter->changed);
    pthread_mutex_destroy(&reporter->mutex);
    free(reporter);
    return fail_errno(error, "cannot start the reporter's thread");
  }
  *out = reporter;
  return 0;
}

static void add(struct run_reporter *reporter, const char *key, json_t *json, bool written) {
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
  entry->written = written;
  pthread_mutex_lock(&reporter->mutex);
  *reporter->last = entry;
  reporter->last = &entry->next;
  pthread_cond_signal(&reporter->changed);
  pthread_mutex_unlock(&reporter->mutex);
}

void run_reporter_put(struct run_reporter *reporter, const char *key, json_t *json) {
  add(reporter, key, json, false);
}

void run_reporter_keep(struct run_reporter *reporter, const char *key, json_t *json) {
  add(reporter, key, json, true);
}

void run_reporter_renew(struct run_reporter *reporter) {
  pthread_mutex_lock(&reporter->mutex);
  reporter->renewing = true;
  pthread_cond_signal(&reporter->changed);
  pthread_mutex_unlock(&reporter->mutex);
}

bool run_reporter_is_idle(struct run_reporter *reporter) {
  pthread_mutex_lock(&reporter->mutex);
  bool idle = !reporter->renewing && !unwritten(reporter);
  pthread_mutex_unlock(&reporter->mutex);
  return idle;
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
  for (struct entry *entry = reporter->first, *next; entry; entry = next) {
    next = entry->next;
    free_entry(entry);
  }
  pthread_cond_destroy(&reporter->changed);
  pthread_mutex_destroy(&reporter->mutex);
  free(reporter);
}
