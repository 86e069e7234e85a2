// Watches on etcd, which begin again where they were cut off.
#include "store/client/watch.h"

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include <stdlib.h>
#include <string.h>

void client_watch_deliver(struct client_watch *watch, const struct weft_store_event *event) {
  struct client_watcher *watcher = watch->watcher;
  pthread_mutex_lock(&watcher->lock);
  bool closed = watch->closed;
  watcher->calling = closed ? NULL : watch;
  pthread_mutex_unlock(&watcher->lock);
  if (closed)
    return;
  watch->fn(watch->arg, event);
  pthread_mutex_lock(&watcher->lock);
  watcher->calling = NULL;
  if (watch->closed) // a closing thread waits for this call's end
    pthread_cond_broadcast(&watcher->changed);
  pthread_mutex_unlock(&watcher->lock);
}

// Takes the released watches, or all of them, out of the list.
static struct client_watch *take_out(struct client_watcher *watcher, bool all) {
  struct client_watch *out = NULL;
  pthread_mutex_lock(&watcher->lock);
  for (struct client_watch **link = &watcher->watches; *link;) {
    struct client_watch *watch = *link;
    if (all || watch->released) {
      *link = watch->next_watch;
      watch->next_watch = out;
      out = watch;
    } else {
      link = &watch->next_watch;
    }
  }
  pthread_mutex_unlock(&watcher->lock);
  return out;
}

// Ends watches; the owners keep the handles that they have not closed.
static void end_watches(struct client_watch *watch) {
  while (watch) {
    struct client_watch *next = watch->next_watch;
    client_follow_end(watch);
    if (watch->released) // it is final now: a watch still open at the thread's end has a closing store
      client_watch_free(&watch->base);
    else
      watch->base.store = NULL;
    watch = next;
  }
}

// The first watch of the list, and whether to continue. New watches are put before it, so that the list can be followed
// without the lock.
static bool read_list(struct client_watcher *watcher, struct client_watch **first) {
  pthread_mutex_lock(&watcher->lock);
  bool stopping = watcher->stopping;
  *first = watcher->watches;
  pthread_mutex_unlock(&watcher->lock);
  return !stopping;
}

static void take_done(struct client_watcher *watcher) {
  int left;
  for (CURLMsg *message; (message = curl_multi_info_read(watcher->multi, &left));) {
    if (message->msg != CURLMSG_DONE)
      continue;
    CURLcode code = message->data.result; // gone once the handle is removed
    struct client_watch *watch = NULL;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &watch);
    client_follow_done(watch, code);
  }
}

static void *carry_watches(void *arg) {
  struct client_watcher *watcher = arg;
  struct client_watch *first;
  int running;
  while (read_list(watcher, &first)) {
    end_watches(take_out(watcher, false));
    read_list(watcher, &first);
    curl_multi_perform(watcher->multi, &running);
    uint64_t due_ns = CLOCK_NEVER;
    for (struct client_watch *watch = first; watch; watch = watch->next_watch)
      client_follow_step(watch, clock_ns());
    take_done(watcher);
    for (struct client_watch *watch = first; watch; watch = watch->next_watch)
      due_ns = watch->due_ns < due_ns ? watch->due_ns : due_ns;
    curl_multi_poll(watcher->multi, NULL, 0, clock_left_ms(due_ns), NULL); // calls that open or close a watch wake it
  }
  end_watches(take_out(watcher, true));
  return NULL;
}

static void free_watcher(struct client_watcher *watcher) {
  curl_multi_cleanup(watcher->multi);
  pthread_cond_destroy(&watcher->changed);
  pthread_mutex_destroy(&watcher->lock);
  free(watcher);
}

static int start_thread(struct client_watcher *watcher) {
  int error = thread_create(&watcher->thread, NULL, carry_watches, watcher);
  return error ? fail_thread(error, "the thread of the store's watches") : 0;
}

static int create_watcher(struct client *client, struct client_watcher **out) {
  struct client_watcher *watcher = calloc(1, sizeof *watcher);
  if (!watcher)
    return fail(WEFT_ERR_NOMEM, "no memory for a watch");
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&watcher->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&watcher->lock, NULL);
  watcher->client = client;
  client_http_init();
  watcher->multi = curl_multi_init();
  int err = watcher->multi ? start_thread(watcher) : fail(WEFT_ERR_NOMEM, "no memory for a watch");
  if (err)
    free_watcher(watcher);
  else
    *out = watcher;
  return err;
}

// The client's watcher, made by the first watch.
static int get_watcher(struct client *client, struct client_watcher **watcher) {
  pthread_mutex_lock(&client->lock);
  int err = client->watcher ? 0 : create_watcher(client, &client->watcher);
  *watcher = client->watcher;
  pthread_mutex_unlock(&client->lock);
  return err;
}

void client_watcher_stop(struct client_watcher *watcher) {
  if (!watcher)
    return;
  pthread_mutex_lock(&watcher->lock);
  watcher->stopping = true;
  pthread_mutex_unlock(&watcher->lock);
  curl_multi_wakeup(watcher->multi);
  pthread_join(watcher->thread, NULL);
  free_watcher(watcher);
}

static struct client_watch *create_watch(struct client_watcher *watcher, const char *prefix, int64_t from,
                                         weft_store_watch_fn fn, void *arg) {
  struct client_watch *watch = calloc(1, sizeof *watch);
  char *copy = strdup(prefix);
  if (!watch || !copy) {
    free(watch);
    free(copy);
    return NULL;
  }
  struct weft_store *store = &watcher->client->base;
  watch->base = (struct weft_store_watch){.ops = store->ops, .store = store, .opened = store->opened};
  watch->watcher = watcher;
  watch->prefix = copy;
  watch->fn = fn;
  watch->arg = arg;
  watch->backoff_ns = UINT64_C(10000000);
  watch->next = from;
  watch->seen = from ? from - 1 : 0; // the caller has read that revision
  return watch;
}

// Waits until the watch stands on the server.
static int await_established(struct client_watch *watch) {
  struct client_watcher *watcher = watch->watcher;
  uint32_t limit_ms = watcher->client->request_timeout_ms;
  struct timespec deadline = clock_timespec(clock_deadline_ms(limit_ms));
  int waited = 0;
  pthread_mutex_lock(&watcher->lock);
  while (!watch->established && !watch->failure && waited == 0)
    waited = pthread_cond_timedwait(&watcher->changed, &watcher->lock, &deadline);
  int err = 0;
  if (!watch->established)
    err = watch->failure ? fail(watch->failure, "%s", watch->failure_text)
                         : fail(WEFT_ERR_TIMEOUT, "store %s: watch of \"%s\" not established within %u ms",
                                weft_store_name(&watcher->client->base), watch->prefix, limit_ms);
  pthread_mutex_unlock(&watcher->lock);
  return err;
}

int client_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                      weft_store_watch_t **out) {
  struct client_watcher *watcher;
  int err = get_watcher((struct client *)store, &watcher);
  if (err)
    return err;
  struct client_watch *watch = create_watch(watcher, prefix, from, fn, arg);
  if (!watch)
    return fail(WEFT_ERR_NOMEM, "no memory for a watch");
  pthread_mutex_lock(&watcher->lock);
  watch->next_watch = watcher->watches;
  watcher->watches = watch;
  pthread_mutex_unlock(&watcher->lock);
  curl_multi_wakeup(watcher->multi);
  if (from == 0 && (err = await_established(watch)))
    client_watch_close(&watch->base);
  else
    *out = &watch->base;
  return err;
}

void client_watch_free(weft_store_watch_t *base) {
  struct client_watch *watch = (struct client_watch *)base;
  free(watch->prefix);
  free(watch);
}

void client_watch_close(weft_store_watch_t *base) {
  struct client_watch *watch = (struct client_watch *)base;
  struct client_watcher *watcher = watch->watcher;
  pthread_mutex_lock(&watcher->lock);
  watch->closed = true;
  while (watcher->calling == watch) // no deadline: it waits for the caller's own function
    pthread_cond_wait(&watcher->changed, &watcher->lock);
  watch->released = true; // not before: a new watch at the same address would look like this one
  pthread_mutex_unlock(&watcher->lock);
  curl_multi_wakeup(watcher->multi);
}
