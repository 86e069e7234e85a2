// The thread that sends the state machine's requests to the store, and gives it answers, events and the time.
#include "group/driver.h"

#include <string.h>

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/limit.h"

void group_driver_poke(struct group *group) {
  group->poked = true;
  pthread_cond_signal(&group->input);
}

enum { LIMIT_MS = 5000 }; // of a request while the group closes

void group_driver_limit(struct group *group) {
  atomic_store(&group->limit_ns, clock_deadline_ms(LIMIT_MS));
}

static void on_watch(void *arg, const struct weft_store_event *event) {
  struct group *group = arg;
  pthread_mutex_lock(&group->lock);
  group_machine_watch(group->machine, clock_ns(), event);
  pthread_cond_broadcast(&group->changed);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
}

static int read_all(struct group *group, struct group_answer *answer, struct weft_store_list **list) {
  weft_store_watch_close(group->watch);
  group->watch = NULL;
  int err = weft_store_range(group->store, group->prefix, true, 0, list);
  if (!err)
    answer->list = *list;
  return err;
}

static int run_txn(struct group *group, const struct weft_store_txn *txn, struct group_answer *answer) {
  struct weft_store_txn_result *result;
  int err = weft_store_txn_commit(group->store, txn, &result);
  if (err)
    return err;
  answer->succeeded = result->succeeded;
  answer->revision = result->revision;
  weft_store_txn_result_free(result);
  return 0;
}

static int carry_out(struct group *group, const struct group_request *request, struct group_answer *answer,
                     struct weft_store_list **list) {
  switch (request->kind) {
  case GROUP_REQUEST_READ:
    return read_all(group, answer, list);
  case GROUP_REQUEST_WATCH:
    return weft_store_watch_open(group->store, group->prefix, request->revision, on_watch, group, &group->watch);
  case GROUP_REQUEST_GRANT:
    return weft_store_lease_grant(group->store, request->ttl_s, &answer->lease, NULL);
  case GROUP_REQUEST_KEEPALIVE:
    return weft_store_lease_keepalive(group->store, request->lease, NULL);
  case GROUP_REQUEST_REVOKE:
    return weft_store_lease_revoke(group->store, request->lease);
  case GROUP_REQUEST_TXN:
    return run_txn(group, request->txn, answer);
  }
  return fail(WEFT_ERR_INVALID, "a store request of unknown kind %d", (int)request->kind);
}

// Carries the request out without the lock, and hands the answer in with it.
static void serve(struct group *group, const struct group_request *request) {
  struct group_answer answer = {0};
  struct weft_store_list *list = NULL;
  if (atomic_load(&group->limit_ns) != CLOCK_NEVER)
    group_driver_limit(group);
  pthread_mutex_unlock(&group->lock);
  answer.err = carry_out(group, request, &answer, &list);
  if (answer.err)
    answer.reason = weft_last_error();
  pthread_mutex_lock(&group->lock);
  group_machine_answer(group->machine, clock_ns(), &answer);
  pthread_cond_broadcast(&group->changed);
  weft_store_list_free(list);
}

// Reports events to the layer above, without the lock.
static bool deliver(struct group *group) {
  struct group_event event;
  if (!group_machine_event(group->machine, &event))
    return false;
  pthread_mutex_unlock(&group->lock);
  if (group->on_event)
    group->on_event(group->event_arg, &event);
  group_view_unref(event.view);
  pthread_mutex_lock(&group->lock);
  return true;
}

static void sleep_until(struct group *group, uint64_t wake_ns) {
  if (wake_ns == UINT64_MAX) {
    pthread_cond_wait(&group->input, &group->lock); // every new task comes with an input
  } else {
    struct timespec wake = clock_timespec(wake_ns);
    pthread_cond_timedwait(&group->input, &group->lock, &wake);
  }
}

static void *run(void *arg) {
  struct group *group = arg;
  store_limit_thread(&group->limit_ns);
  pthread_mutex_lock(&group->lock);
  while (!group_machine_closed(group->machine)) {
    struct group_request request;
    uint64_t wake_ns;
    group->poked = false;
    if (deliver(group))
      continue;
    if (group_machine_request(group->machine, clock_ns(), &request, &wake_ns))
      serve(group, &request);
    else if (!group->poked && !group_machine_closed(group->machine))
      sleep_until(group, wake_ns);
  }
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
  weft_store_watch_close(group->watch);
  group->watch = NULL;
  return NULL;
}

int group_driver_start(struct group *group) {
  atomic_store(&group->limit_ns, CLOCK_NEVER);
  int error = thread_create(&group->thread, NULL, run, group);
  return error ? fail_thread(error, "a group's thread") : 0;
}
