// Watches on the store of one process, and the thread that delivers their events.
#include "store/local/local.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include <stdlib.h>
#include <string.h>

enum {
  BATCH = 64,           // events of one watch before the next one's turn
  RETRY_NS = 100000000, // after memory ran out
};

static void queue(struct local_watch *watch) {
  struct local *local = (struct local *)watch->base.store;
  if (watch->queued)
    return;
  watch->queued = true;
  TAILQ_INSERT_TAIL(&local->ready, watch, ready);
  pthread_cond_signal(&local->work);
}

static void wake(struct core_watch *core) {
  queue((struct local_watch *)((char *)core - offsetof(struct local_watch, core)));
}

int local_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                     weft_store_watch_t **watch) {
  struct local *local = (struct local *)store;
  size_t size = strlen(prefix) + 1;
  struct local_watch *opened = calloc(1, sizeof *opened);
  char *bounds = malloc(2 * size);
  if (!opened || !bounds) {
    free(opened);
    free(bounds);
    return fail(WEFT_ERR_NOMEM, "no memory for a watch of '%s'", prefix);
  }
  memcpy(bounds, prefix, size);
  opened->base = (struct weft_store_watch){.ops = store->ops, .store = store, .opened = store->opened};
  opened->fn = fn;
  opened->arg = arg;
  opened->bounds = bounds;
  opened->core.range = local_range(bounds, true, bounds + size);
  opened->core.wake = wake;
  *watch = &opened->base; // before the first callback, which may want it
  pthread_mutex_lock(&local->lock);
  LIST_INSERT_HEAD(&local->watches, opened, all);
  opened->ahead = from > core_revision(local->core) + 1;
  core_watch_add(local->core, &opened->core, opened->ahead ? 0 : from);
  queue(opened);
  pthread_mutex_unlock(&local->lock);
  return 0;
}

void local_watch_end(struct local_watch *closed) {
  struct local *local = (struct local *)closed->base.store;
  atomic_store(&closed->closing, true);
  pthread_mutex_lock(&local->lock);
  LIST_REMOVE(closed, all);
  core_watch_remove(local->core, &closed->core);
  while (local->delivering == closed) // ends with the callback that runs now
    pthread_cond_wait(&local->idle, &local->lock);
  if (closed->queued)
    TAILQ_REMOVE(&local->ready, closed, ready);
  closed->base.store = NULL;
  pthread_mutex_unlock(&local->lock);
}

void local_watch_free(weft_store_watch_t *watch) {
  free(((struct local_watch *)watch)->bounds);
  free(watch);
}

void local_watch_close(weft_store_watch_t *watch) {
  local_watch_end((struct local_watch *)watch);
  local_watch_free(watch);
}

static void deliver_kind(struct local_watch *watch, enum weft_store_event_kind kind, int64_t revision) {
  watch->fn(watch->arg, &(struct weft_store_event){.kind = kind, .revision = revision});
}

static void deliver(struct local_watch *watch, const struct core_events *events) {
  for (size_t i = 0; i < events->count && !atomic_load(&watch->closing); i++) {
    const struct core_event *from = &events->items[i];
    struct weft_store_kv kv;
    struct weft_store_event event = {.kind = WEFT_STORE_EVENT_PUT, .kv = &kv, .revision = from->revision};
    if (from->now) {
      kv = local_kv(from->now);
    } else {
      event.kind = WEFT_STORE_EVENT_DELETE;
      kv = (struct weft_store_kv){
          .key = from->prev->data, .key_len = from->prev->key_size, .value = "", .mod_revision = from->revision};
    }
    watch->fn(watch->arg, &event);
  }
}

// Delivers one batch of the watch at the head of the queue; the lock is held, but not while callbacks run.
static void serve(struct local *local) {
  struct local_watch *watch = TAILQ_FIRST(&local->ready);
  TAILQ_REMOVE(&local->ready, watch, ready);
  watch->queued = false;
  enum core_status status = core_watch_take(local->core, &watch->core, BATCH, &local->events);
  int64_t revision = core_revision(local->core);
  bool first = !watch->started;
  watch->started = true;
  bool reset = status == CORE_COMPACTED || (first && watch->ahead);
  if (status == CORE_COMPACTED) { // it continues from now
    core_watch_remove(local->core, &watch->core);
    core_watch_add(local->core, &watch->core, 0);
  }
  local->delivering = watch;
  pthread_mutex_unlock(&local->lock);

  if (reset)
    deliver_kind(watch, WEFT_STORE_EVENT_RESET, revision);
  else if (first)
    deliver_kind(watch, WEFT_STORE_EVENT_RESUMED, revision);
  deliver(watch, &local->events);
  core_events_drop(&local->events);

  pthread_mutex_lock(&local->lock);
  local->delivering = NULL;
  if (watch->core.pending && !atomic_load(&watch->closing))
    queue(watch);
  pthread_cond_broadcast(&local->idle);
}

void local_note_pause(struct local *local) {
  uint64_t late_ns = core_lease_note_pause(local->core, clock_ns());
  if (late_ns > 0)
    log_info("local store: no lease could be renewed for %.1f s: they are extended by that time",
             (double)late_ns / 1e9);
}

// Returns when to do so again.
static uint64_t expire_leases(struct local *local) {
  local_note_pause(local);
  enum core_status status = core_lease_expire(local->core, clock_ns());
  uint64_t next = core_lease_next_check(local->core, clock_ns());
  if (status == CORE_OK)
    return next;
  log_warn("no memory to delete the keys of an expired lease; trying again");
  return clock_ns() + RETRY_NS;
}

void *local_thread(void *arg) {
  struct local *local = arg;
  pthread_mutex_lock(&local->lock);
  while (!local->stopping) {
    uint64_t wait_until = expire_leases(local);
    if (!TAILQ_EMPTY(&local->ready)) {
      serve(local);
    } else if (wait_until == UINT64_MAX) {
      pthread_cond_wait(&local->work, &local->lock);
    } else {
      struct timespec until = clock_timespec(wait_until);
      pthread_cond_timedwait(&local->work, &local->lock, &until);
    }
  }
  pthread_mutex_unlock(&local->lock);
  return NULL;
}
