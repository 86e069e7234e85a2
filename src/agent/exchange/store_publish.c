// Publishes this agent's metadata in the store, and puts it again when it changes or the store has lost it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/exchange/store_thread.h"
#include "agent/memory/region_index.h"
#include "agent/metadata/describe.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "store/limit.h"

enum { LEASE_SLACK_MS = 1500 }; // leases are given in whole seconds

// Takes regions that have gone since out of a selection.
static void forget_gone(weft_agent_t *agent, struct store_publication *publication) {
  uint32_t kept = 0;
  pthread_mutex_lock(&agent->lock);
  for (uint32_t i = 0; i < publication->num_regions; i++)
    if (agent_ranges_get(&agent->self.regions, publication->regions[i]))
      publication->regions[kept++] = publication->regions[i];
  pthread_mutex_unlock(&agent->lock);
  publication->num_regions = kept;
}

static int publish_once(struct agent_store_thread *store_thread, const struct store_publication *publication,
                        int64_t *other_lease) {
  char key[STORE_THREAD_MAX_KEY];
  store_thread_key(store_thread, publication->name, key);
  return store_key_put(store_thread, key, publication, other_lease);
}

static bool is_passing(int err) {
  return err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_NOT_FOUND ||
         err == WEFT_ERR_CONFLICT;
}

// The obstacle to a publication: the lease of another agent's key, and how long it would last without a renewal.
struct obstacle {
  int64_t lease;
  int64_t least_s;   // the least time that it was seen to have
  uint64_t until_ns; // by then it would have run out
  char why[256];
};

// Whether the lease's owner lives: the rest of a dead owner's lease only gets shorter.
static bool is_renewed(struct agent_store_thread *store_thread, int64_t lease, struct obstacle *obstacle) {
  int64_t left_s;
  snprintf(obstacle->why, sizeof obstacle->why, "%s", weft_last_error());
  if (lease == 0)
    return true; // it stays for ever
  if (weft_store_lease_ttl(store_thread->store, lease, &left_s) != 0)
    return false;
  if (lease != obstacle->lease) {
    obstacle->lease = lease;
    obstacle->least_s = left_s;
    obstacle->until_ns = clock_deadline_ms((uint64_t)(left_s < 0 ? 0 : left_s) * 1000 + LEASE_SLACK_MS);
  }
  if (left_s < obstacle->least_s)
    obstacle->least_s = left_s;
  return left_s > obstacle->least_s || clock_passed(obstacle->until_ns);
}

static void free_publication(struct store_publication *publication) {
  free(publication->regions);
  free(publication);
}

// NULL: there is none of that name. [publishing]
static struct store_publication *find_publication(struct agent_store_thread *store_thread, const char *name) {
  struct store_publication *found;
  SLIST_FOREACH(found, &store_thread->publications, next)
  if (strcmp(found->name, name) == 0)
    break;
  return found;
}

// Keeps it, in the place of one of the same name. [publishing]
static void keep(struct agent_store_thread *store_thread, struct store_publication *publication) {
  struct store_publication *before = find_publication(store_thread, publication->name);
  if (before) {
    SLIST_REMOVE(&store_thread->publications, before, store_publication, next);
    free_publication(before);
  }
  SLIST_INSERT_HEAD(&store_thread->publications, publication, next);
}

static int publish_locked(struct agent_store_thread *store_thread, struct store_publication *publication,
                          uint64_t deadline_ns, int64_t *other_lease) {
  int err = store_thread_lock(store_thread, deadline_ns);
  if (err)
    return err;
  err = publish_once(store_thread, publication, other_lease);
  if (!err)
    keep(store_thread, publication);
  store_thread_unlock(store_thread);
  return err;
}

static int publish_until(struct agent_store_thread *store_thread, struct store_publication *publication,
                         uint64_t deadline_ns) {
  struct obstacle obstacle = {0};
  for (;;) {
    int64_t lease = 0;
    int err = publish_locked(store_thread, publication, deadline_ns, &lease);
    bool taken = err == WEFT_ERR_EXISTS;
    if (taken && (is_renewed(store_thread, lease, &obstacle) || clock_passed(deadline_ns)))
      return fail(err, "%s", obstacle.why);
    if (!taken && !is_passing(err))
      return err;
    if (clock_passed(deadline_ns)) // with the reason that was found before time ran out
      return *obstacle.why ? fail(WEFT_ERR_EXISTS, "%s", obstacle.why) : err;
    store_thread_pause(store_thread, deadline_ns);
  }
}

static int make_publication(weft_agent_t *agent, const char *label, const struct weft_metadata_options *given,
                            struct store_publication **out) {
  static const struct weft_metadata_options defaults = WEFT_METADATA_OPTIONS_INIT;
  struct weft_metadata_options copy;
  const struct weft_metadata_options *options = given ? given : &defaults;
  options = SIZED_READ(options, &copy, regions, "weft_metadata_options");
  if (!options)
    return sized_refusal(given, sizeof copy);
  struct store_publication *made = calloc(1, sizeof *made);
  uint32_t count = options->regions ? options->num_regions : 0;
  weft_region_t *regions = calloc(count + 1, sizeof *regions);
  struct agent_description *description = NULL; // nothing of it but whether it can be made
  int err = made && regions ? store_thread_name(agent->name, label, made->name)
                            : fail(WEFT_ERR_NOMEM, "no memory to publish %u regions", count);
  if (!err)
    err = agent_describe_chosen(agent, options, &description);
  if (!err)
    free(description);
  if (err) {
    free(regions);
    free(made);
    return err;
  }
  if (count > 0)
    memcpy(regions, options->regions, count * sizeof *regions);
  made->flags = options->flags;
  made->num_regions = count;
  made->regions = regions;
  *out = made;
  return 0;
}

int weft_agent_publish(weft_agent_t *agent, const char *label, const struct weft_metadata_options *options,
                       uint32_t timeout_ms) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  _Atomic uint64_t deadline = clock_wait_deadline(timeout_ms);
  struct agent_store_thread *store_thread;
  struct store_publication *publication = NULL;
  int err = store_thread_get(agent, &store_thread);
  if (!err)
    err = make_publication(agent, label, options, &publication);
  if (err)
    return err;
  store_limit_thread(&deadline);
  err = publish_until(store_thread, publication, deadline);
  store_limit_thread(NULL);
  if (err) {
    free_publication(publication);
    return fail_context(err, "agent %s cannot be published", agent->name);
  }
  pthread_mutex_lock(&store_thread->lock); // the thread renews the lease from now on
  store_thread_wake(store_thread);
  pthread_mutex_unlock(&store_thread->lock);
  return 0;
}

// Nobody puts the key again while it is deleted, since this thread holds `publishing`.
int weft_agent_unpublish(weft_agent_t *agent, const char *label, uint32_t timeout_ms) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  _Atomic uint64_t deadline = clock_wait_deadline(timeout_ms);
  struct agent_store_thread *store_thread;
  char name[STORE_THREAD_MAX_NAME], key[STORE_THREAD_MAX_KEY];
  int err = store_thread_get(agent, &store_thread);
  if (!err)
    err = store_thread_name(agent->name, label, name);
  if (err)
    return err;
  store_thread_key(store_thread, name, key);
  err = store_thread_lock(store_thread, deadline);
  if (err)
    return err;
  store_limit_thread(&deadline);
  struct store_publication *publication = find_publication(store_thread, name);
  err = publication ? store_key_delete(store_thread, key)
                    : fail(WEFT_ERR_NOT_FOUND, "agent %s has published nothing under %s%s", agent->name,
                           label ? "the label " : "its name", label ? label : "");
  if (!err) {
    SLIST_REMOVE(&store_thread->publications, publication, store_publication, next);
    free_publication(publication);
  }
  store_thread_unlock(store_thread);
  store_limit_thread(NULL);
  return err;
}

// Puts all of them again. [publishing]
static int publish_all(struct agent_store_thread *store_thread) {
  struct store_publication *publication;
  int64_t lease;
  int err = 0;
  SLIST_FOREACH(publication, &store_thread->publications, next) {
    forget_gone(store_thread->agent, publication);
    int one = publish_once(store_thread, publication, &lease);
    err = err ? err : one;
  }
  return err;
}

uint64_t publish_progress(struct agent_store_thread *store_thread, uint64_t now_ns) {
  pthread_mutex_lock(&store_thread->lock);
  bool put = store_thread->must_put, check = store_thread->must_renew;
  store_thread->must_put = store_thread->must_renew = false;
  pthread_mutex_unlock(&store_thread->lock);
  if (SLIST_EMPTY(&store_thread->publications))
    return UINT64_MAX;
  int err = check || store_thread->lease == 0 || now_ns >= store_thread->renew_ns
                ? store_key_renew_lease(store_thread, now_ns, &put)
                : 0;
  if (!err && put)
    err = publish_all(store_thread);
  if (!err)
    return store_thread->renew_ns;
  log_info("agent %s: its key in the store waits: %s", store_thread->agent->name, weft_last_error());
  pthread_mutex_lock(&store_thread->lock);
  store_thread->must_put |= put;
  store_thread->must_renew = true;
  pthread_mutex_unlock(&store_thread->lock);
  return now_ns + (uint64_t)STORE_THREAD_RETRY_MS * 1000000u;
}

void publish_leave(struct agent_store_thread *store_thread) {
  if (store_thread->lease != 0)
    weft_store_lease_revoke(store_thread->store, store_thread->lease); // else it runs out
  store_thread->lease = 0;
  publish_free(store_thread);
}

void publish_free(struct agent_store_thread *store_thread) {
  struct store_publication *publication;
  while ((publication = SLIST_FIRST(&store_thread->publications))) {
    SLIST_REMOVE_HEAD(&store_thread->publications, next);
    free_publication(publication);
  }
}
