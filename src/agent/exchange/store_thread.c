#include "agent/exchange/store_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "store/limit.h"

enum { LEAVE_MS = 2000 }; // for a store that does not answer when the agent closes

void keeper_key(const struct agent_keeper *keeper, const char *name, char out[KEEPER_MAX_KEY]) {
  snprintf(out, KEEPER_MAX_KEY, "%s%s", keeper->prefix, name);
}

void keeper_poke(struct agent_keeper *keeper) {
  keeper->news = true;
  pthread_cond_broadcast(&keeper->changed);
}

static void wait_until(struct agent_keeper *keeper, uint64_t due_ns) {
  struct timespec until = clock_timespec(due_ns);
  if (due_ns == UINT64_MAX)
    pthread_cond_wait(&keeper->changed, &keeper->lock);
  else
    pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
}

void keeper_pause(struct agent_keeper *keeper, uint64_t deadline_ns) {
  uint64_t until = clock_deadline_ms(KEEPER_RETRY_MS);
  until = until < deadline_ns ? until : deadline_ns;
  pthread_mutex_lock(&keeper->lock);
  while (!keeper->stop && !clock_passed(until))
    wait_until(keeper, until);
  pthread_mutex_unlock(&keeper->lock);
}

static void *run(void *arg) {
  struct agent_keeper *keeper = arg;
  bool stop = false;
  store_limit_thread(&keeper->limit_ns);
  while (!stop) {
    pthread_mutex_lock(&keeper->publishing);
    uint64_t due = publish_tend(keeper, clock_ns());
    pthread_mutex_unlock(&keeper->publishing);
    uint64_t also = fetch_tend(keeper, clock_ns());
    due = also < due ? also : due;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stop && !keeper->news && (due == UINT64_MAX || !clock_passed(due)))
      wait_until(keeper, due);
    keeper->news = false;
    stop = keeper->stop;
    pthread_mutex_unlock(&keeper->lock);
  }
  return NULL;
}

static struct agent_keeper *make(weft_agent_t *agent) {
  struct agent_keeper *keeper = calloc(1, sizeof *keeper);
  if (!keeper)
    return NULL;
  keeper->meta = agent->meta;
  keeper->agent = agent;
  keeper->store = agent->options.store;
  atomic_init(&keeper->limit_ns, CLOCK_NEVER);
  snprintf(keeper->prefix, sizeof keeper->prefix, "%sagents/", agent->options.prefix);
  STAILQ_INIT(&keeper->todo);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&keeper->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&keeper->lock, NULL);
  pthread_mutex_init(&keeper->publishing, NULL);
  return keeper;
}

static void unmake(struct agent_keeper *keeper) {
  pthread_cond_destroy(&keeper->changed);
  pthread_mutex_destroy(&keeper->lock);
  pthread_mutex_destroy(&keeper->publishing);
  free(keeper);
}

static int start(weft_agent_t *agent, struct agent_keeper **out) {
  struct agent_keeper *keeper = make(agent);
  if (!keeper)
    return fail(WEFT_ERR_NOMEM, "no memory for the store of agent %s", agent->name);
  int error = pthread_create(&keeper->thread, NULL, run, keeper);
  if (error) {
    unmake(keeper);
    return fail_thread(error, "the thread that keeps an agent in the store");
  }
  keeper->has_thread = true;
  *out = keeper;
  return 0;
}

int keeper_get(weft_agent_t *agent, struct agent_keeper **keeper) {
  struct agent_meta *meta = agent->meta;
  if (!agent->options.store)
    return fail(WEFT_ERR_INVALID, "agent %s was opened without a store", agent->name);
  if (strlen(agent->options.prefix) + WEFT_AGENT_MAX_NAME + sizeof "agents/" > KEEPER_MAX_KEY)
    return fail(WEFT_ERR_INVALID, "the prefix of agent %s has %zu bytes: too long for keys of %d", agent->name,
                strlen(agent->options.prefix), KEEPER_MAX_KEY);
  pthread_mutex_lock(&meta->keeper_lock);
  int err = meta->keeper ? 0 : start(agent, &meta->keeper);
  *keeper = meta->keeper;
  pthread_mutex_unlock(&meta->keeper_lock);
  return err;
}

void keeper_update(struct agent_meta *meta) {
  pthread_mutex_lock(&meta->keeper_lock);
  struct agent_keeper *keeper = meta->keeper;
  if (keeper) {
    pthread_mutex_lock(&keeper->lock);
    keeper->must_put = true;
    keeper_poke(keeper);
    pthread_mutex_unlock(&keeper->lock);
  }
  pthread_mutex_unlock(&meta->keeper_lock);
}

void keeper_leave(struct agent_meta *meta) {
  struct agent_keeper *keeper = meta->keeper;
  if (!keeper || !keeper->has_thread)
    return;
  pthread_mutex_lock(&keeper->lock);
  keeper->stop = true;
  keeper_poke(keeper);
  pthread_mutex_unlock(&keeper->lock);
  atomic_store(&keeper->limit_ns, clock_deadline_ms(LEAVE_MS));
  pthread_join(keeper->thread, NULL);
  keeper->has_thread = false;
  weft_store_watch_close(keeper->watch);
  keeper->watch = NULL;
  store_limit_thread(&keeper->limit_ns);
  publish_leave(keeper);
  store_limit_thread(NULL);
}

void keeper_close(struct agent_meta *meta) {
  keeper_leave(meta);
  if (!meta->keeper)
    return;
  fetch_free(meta->keeper);
  unmake(meta->keeper);
  meta->keeper = NULL;
}
