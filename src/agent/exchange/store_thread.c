// The store thread: started on first use, it serves publishing and fetching until the agent leaves.
#include "agent/exchange/store_thread.h"
#include "agent/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/limit.h"

enum { LEAVE_MS = 2000 }; // for a store that does not answer when the agent closes

void store_thread_key(const struct agent_store_thread *store_thread, const char *name, char out[STORE_THREAD_MAX_KEY]) {
  snprintf(out, STORE_THREAD_MAX_KEY, "%s%s", store_thread->prefix, name);
}

int store_thread_name(const char *agent, const char *label, char out[STORE_THREAD_MAX_NAME]) {
  if (!label) {
    snprintf(out, STORE_THREAD_MAX_NAME, "%s", agent);
    return 0;
  }
  bool plain = *label && strlen(label) < WEFT_AGENT_MAX_LABEL;
  for (const char *at = label; *at; at++)
    plain &= (unsigned char)*at >= ' ' && *at != 0x7F;
  if (!plain)
    return fail(WEFT_ERR_INVALID, "a label has 1 to %d bytes, and no control characters", WEFT_AGENT_MAX_LABEL - 1);
  snprintf(out, STORE_THREAD_MAX_NAME, "%s%c%s", agent, STORE_THREAD_SEPARATOR, label);
  return 0;
}

void store_thread_wake(struct agent_store_thread *store_thread) {
  store_thread->news = true;
  pthread_cond_broadcast(&store_thread->changed);
}

static void wait_until(struct agent_store_thread *store_thread, uint64_t due_ns) {
  struct timespec until = clock_timespec(due_ns);
  if (due_ns == UINT64_MAX)
    pthread_cond_wait(&store_thread->changed, &store_thread->lock);
  else
    pthread_cond_timedwait(&store_thread->changed, &store_thread->lock, &until);
}

void store_thread_pause(struct agent_store_thread *store_thread, uint64_t deadline_ns) {
  uint64_t until = clock_deadline_ms(STORE_THREAD_RETRY_MS);
  until = until < deadline_ns ? until : deadline_ns;
  pthread_mutex_lock(&store_thread->lock);
  while (!store_thread->stop && !clock_passed(until))
    wait_until(store_thread, until);
  pthread_mutex_unlock(&store_thread->lock);
}

int store_thread_lock(struct agent_store_thread *store_thread, uint64_t deadline_ns) {
  pthread_mutex_lock(&store_thread->lock);
  while (store_thread->publishing && (deadline_ns == UINT64_MAX || !clock_passed(deadline_ns)))
    wait_until(store_thread, deadline_ns);
  bool taken = !store_thread->publishing;
  store_thread->publishing = true;
  pthread_mutex_unlock(&store_thread->lock);
  if (taken)
    return 0;
  return fail(WEFT_ERR_TIMEOUT, "the store %s has not answered an earlier request",
              weft_store_name(store_thread->store));
}

void store_thread_unlock(struct agent_store_thread *store_thread) {
  pthread_mutex_lock(&store_thread->lock);
  store_thread->publishing = false;
  pthread_cond_broadcast(&store_thread->changed);
  pthread_mutex_unlock(&store_thread->lock);
}

static void *run(void *arg) {
  struct agent_store_thread *store_thread = arg;
  bool stop = false;
  store_limit_thread(&store_thread->limit_ns);
  while (!stop) {
    store_thread_lock(store_thread, UINT64_MAX);
    uint64_t due = publish_progress(store_thread, clock_ns());
    store_thread_unlock(store_thread);
    uint64_t also = fetch_progress(store_thread, clock_ns());
    due = also < due ? also : due;
    pthread_mutex_lock(&store_thread->lock);
    while (!store_thread->stop && !store_thread->news && (due == UINT64_MAX || !clock_passed(due)))
      wait_until(store_thread, due);
    store_thread->news = false;
    stop = store_thread->stop;
    pthread_mutex_unlock(&store_thread->lock);
  }
  return NULL;
}

static struct agent_store_thread *make(weft_agent_t *agent) {
  struct agent_store_thread *store_thread = calloc(1, sizeof *store_thread);
  if (!store_thread)
    return NULL;
  store_thread->services = agent->services;
  store_thread->agent = agent;
  store_thread->store = agent->options.store;
  atomic_init(&store_thread->limit_ns, CLOCK_NEVER);
  snprintf(store_thread->prefix, sizeof store_thread->prefix, "%sagents/", agent->options.prefix);
  STAILQ_INIT(&store_thread->todo);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&store_thread->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&store_thread->lock, NULL);
  return store_thread;
}

static void unmake(struct agent_store_thread *store_thread) {
  pthread_cond_destroy(&store_thread->changed);
  pthread_mutex_destroy(&store_thread->lock);
  free(store_thread);
}

static int start(weft_agent_t *agent, struct agent_store_thread **out) {
  struct agent_store_thread *store_thread = make(agent);
  if (!store_thread)
    return fail(WEFT_ERR_NOMEM, "no memory for the store of agent %s", agent->name);
  int error = thread_create(&store_thread->thread, NULL, run, store_thread);
  if (error) {
    unmake(store_thread);
    return fail_thread(error, "the thread that keeps an agent in the store");
  }
  store_thread->has_thread = true;
  *out = store_thread;
  return 0;
}

int store_thread_get(weft_agent_t *agent, struct agent_store_thread **store_thread) {
  struct agent_services *services = agent->services;
  if (!agent->options.store)
    return fail(WEFT_ERR_INVALID, "agent %s was opened without a store", agent->name);
  if (strlen(agent->options.prefix) + STORE_THREAD_MAX_NAME + sizeof "agents/" > STORE_THREAD_MAX_KEY)
    return fail(WEFT_ERR_INVALID, "the prefix of agent %s has %zu bytes: too long for keys of %d", agent->name,
                strlen(agent->options.prefix), STORE_THREAD_MAX_KEY);
  pthread_mutex_lock(&services->store_thread_lock);
  int err = services->store_thread ? 0 : start(agent, &services->store_thread);
  *store_thread = services->store_thread;
  pthread_mutex_unlock(&services->store_thread_lock);
  return err;
}

void store_thread_update(struct agent_services *services) {
  pthread_mutex_lock(&services->store_thread_lock);
  struct agent_store_thread *store_thread = services->store_thread;
  if (store_thread) {
    pthread_mutex_lock(&store_thread->lock);
    store_thread->must_put = true;
    store_thread_wake(store_thread);
    pthread_mutex_unlock(&store_thread->lock);
  }
  pthread_mutex_unlock(&services->store_thread_lock);
}

void store_thread_leave(struct agent_services *services) {
  struct agent_store_thread *store_thread = services->store_thread;
  if (!store_thread || !store_thread->has_thread)
    return;
  pthread_mutex_lock(&store_thread->lock);
  store_thread->stop = true;
  store_thread_wake(store_thread);
  pthread_mutex_unlock(&store_thread->lock);
  atomic_store(&store_thread->limit_ns, clock_deadline_ms(LEAVE_MS));
  pthread_join(store_thread->thread, NULL);
  store_thread->has_thread = false;
  weft_store_watch_close(store_thread->watch);
  store_thread->watch = NULL;
  store_limit_thread(&store_thread->limit_ns);
  publish_leave(store_thread);
  store_limit_thread(NULL);
}

void store_thread_close(struct agent_services *services) {
  store_thread_leave(services);
  if (!services->store_thread)
    return;
  fetch_free(services->store_thread);
  publish_free(services->store_thread);
  unmake(services->store_thread);
  services->store_thread = NULL;
}
