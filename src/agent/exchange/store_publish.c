// This agent's own key in the store: made only where there is none, on a lease, and put again when it changes.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/exchange/store_thread.h"
#include "agent/memory/region_index.h"
#include "agent/metadata/describe.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "store/limit.h"

enum {
  TRIES = 8,             // while others change the key
  LEASE_SLACK_MS = 1500, // leases are given in whole seconds
};

static uint32_t ttl_s(const struct agent_store_thread *store_thread) {
  return store_thread->agent->options.lease_ttl_s;
}

// Of a selection, regions that have gone since are left out.
static void forget_gone(weft_agent_t *agent, struct store_publication *publication) {
  uint32_t kept = 0;
  pthread_mutex_lock(&agent->lock);
  for (uint32_t i = 0; i < publication->num_regions; i++)
    if (agent_ranges_get(&agent->self.regions, publication->regions[i]))
      publication->regions[kept++] = publication->regions[i];
  pthread_mutex_unlock(&agent->lock);
  publication->num_regions = kept;
}

static int make_blob(weft_agent_t *agent, const struct store_publication *publication, void **blob, size_t *size) {
  struct weft_metadata_options options = WEFT_METADATA_OPTIONS_INIT;
  options.flags = publication->flags;
  options.num_regions = publication->num_regions;
  options.regions = publication->regions;
  struct agent_description *description;
  int err = agent_describe_chosen(agent, &options, &description);
  if (err)
    return err;
  *size = 0;
  agent_blob_write(description, agent_seal(agent), NULL, size);
  *blob = malloc(*size);
  err = *blob ? agent_blob_write(description, agent_seal(agent), *blob, size)
              : fail(WEFT_ERR_NOMEM, "no memory for metadata");
  free(description);
  if (err)
    free(*blob);
  return err;
}

static int need_lease(struct agent_store_thread *store_thread) {
  if (store_thread->lease != 0)
    return 0;
  int64_t granted = ttl_s(store_thread);
  int err = weft_store_lease_grant(store_thread->store, ttl_s(store_thread), &store_thread->lease, &granted);
  store_thread->renew_ns = clock_deadline_ms((uint64_t)granted * 1000 / 3);
  return err;
}

// Changes the key if its last change was at `revision`; 0: if there is none. `*found` is what stands there else.
static int change_if(struct agent_store_thread *store_thread, const char *key, int64_t revision,
                     const struct weft_store_op *change, bool *changed, struct weft_store_list **found) {
  const struct weft_store_compare compare = {
      .key = key, .target = revision ? WEFT_STORE_MOD : WEFT_STORE_CREATE, .number = revision};
  const struct weft_store_op read = {.kind = WEFT_STORE_RANGE, .key = key};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &compare;
  txn.num_compares = 1;
  txn.success = change;
  txn.num_success = 1;
  txn.failure = &read;
  txn.num_failure = 1;
  struct weft_store_txn_result *result;
  int err = weft_store_txn_commit(store_thread->store, &txn, &result);
  if (err)
    return err;
  *changed = result->succeeded;
  if (!*changed) {
    *found = result->ranges[0];
    result->ranges[0] = NULL;
  }
  weft_store_txn_result_free(result);
  return 0;
}

// Whether what stands under this agent's name is its own, or of a process of this host that has ended.
static int check_owner(const weft_agent_t *agent, const struct weft_store_kv *kv) {
  struct agent_description *other;
  if (agent_blob_read(kv->value, kv->value_len, agent_seal(agent), &other) != 0)
    return fail(WEFT_ERR_EXISTS, "the key %s of the store is not an agent's: %s", kv->key, weft_last_error());
  bool own = other->incarnation == agent->incarnation;
  bool near = *agent->host && strcmp(agent->host, other->host) == 0 && agent->pid_namespace != 0 &&
              agent->pid_namespace == other->pid_namespace;
  bool dead = near && other->pid > 0 && !process_lives(other->pid, other->start_ticks);
  int err = own || dead ? 0
                        : fail(WEFT_ERR_EXISTS,
                               "an agent %s is in the store already, as incarnation %016" PRIx64 " (pid %" PRId32
                               " of host %s): use another name, or wait until its lease has run out",
                               other->name, other->incarnation, other->pid, other->host);
  free(other);
  return err;
}

static int publish_once(struct agent_store_thread *store_thread, const struct store_publication *publication,
                        int64_t *other_lease) {
  char key[STORE_THREAD_MAX_KEY];
  void *blob;
  size_t size;
  store_thread_key(store_thread, publication->name, key);
  int err = need_lease(store_thread);
  if (!err)
    err = make_blob(store_thread->agent, publication, &blob, &size);
  if (err)
    return err;
  const struct weft_store_op write = {
      .kind = WEFT_STORE_PUT, .key = key, .value = blob, .value_len = size, .lease = store_thread->lease};
  int64_t revision = 0;
  bool put = false;
  for (int i = 0; i < TRIES && !put && !err; i++) {
    struct weft_store_list *found = NULL;
    err = change_if(store_thread, key, revision, &write, &put, &found);
    if (!err && !put) {
      revision = found->count > 0 ? found->kvs[0]->mod_revision : 0;
      *other_lease = found->count > 0 ? found->kvs[0]->lease : 0;
      err = found->count > 0 ? check_owner(store_thread->agent, found->kvs[0]) : 0;
    }
    weft_store_list_free(found);
  }
  free(blob);
  if (err == WEFT_ERR_NOT_FOUND) // the lease ran out meanwhile
    store_thread->lease = 0;
  if (!err && !put)
    err = fail(WEFT_ERR_CONFLICT, "others change the key %s all the time", key);
  return err;
}

static bool is_passing(int err) {
  return err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_NOT_FOUND ||
         err == WEFT_ERR_CONFLICT;
}

// What stands in the way: a lease, and how long it has if it is not renewed.
struct obstacle {
  int64_t lease;
  int64_t least_s;   // the least time that it was seen to have
  uint64_t until_ns; // by then it would have run out
  char why[256];
};

// Whether its owner lives. That of one that has died only gets shorter.
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

// In the place of one of the same name. [publishing]
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

static bool is_own(const weft_agent_t *agent, const struct weft_store_kv *kv) {
  struct agent_description *description;
  if (agent_blob_read(kv->value, kv->value_len, agent_seal(agent), &description) != 0)
    return false;
  bool own = description->incarnation == agent->incarnation;
  free(description);
  return own;
}

// Deletes the key. One that another agent has put since, as this one's lease had run out, is left alone. [publishing]
static int delete_own(struct agent_store_thread *store_thread, const char *key) {
  const struct weft_store_op erase = {.kind = WEFT_STORE_DELETE, .key = key};
  int64_t revision = 0;
  bool gone = false;
  int err = 0;
  for (int i = 0; i < TRIES && !gone && !err; i++) {
    struct weft_store_list *found = NULL;
    err = change_if(store_thread, key, revision, &erase, &gone, &found);
    if (!err && !gone) {
      revision = found->count > 0 ? found->kvs[0]->mod_revision : 0;
      gone = found->count > 0 && !is_own(store_thread->agent, found->kvs[0]);
    }
    weft_store_list_free(found);
  }
  return err || gone ? err : fail(WEFT_ERR_CONFLICT, "others change the key %s all the time", key);
}

// The key is deleted while nobody puts it again.
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
  err = publication ? delete_own(store_thread, key)
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

// All of them again. [publishing]
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

// The lease and the key may have gone with the store that was.
static int renew(struct agent_store_thread *store_thread, uint64_t now_ns, bool *put) {
  int64_t ttl = ttl_s(store_thread);
  int err = store_thread->lease ? weft_store_lease_keepalive(store_thread->store, store_thread->lease, &ttl) : 0;
  if (err == WEFT_ERR_NOT_FOUND)
    store_thread->lease = 0;
  *put |= store_thread->lease == 0;
  store_thread->renew_ns = now_ns + (uint64_t)(ttl > 0 ? ttl : 1) * 1000000000u / 3;
  return err == WEFT_ERR_NOT_FOUND ? 0 : err;
}

uint64_t publish_tend(struct agent_store_thread *store_thread, uint64_t now_ns) {
  pthread_mutex_lock(&store_thread->lock);
  bool put = store_thread->must_put, check = store_thread->must_renew;
  store_thread->must_put = store_thread->must_renew = false;
  pthread_mutex_unlock(&store_thread->lock);
  if (SLIST_EMPTY(&store_thread->publications))
    return UINT64_MAX;
  int err =
      check || store_thread->lease == 0 || now_ns >= store_thread->renew_ns ? renew(store_thread, now_ns, &put) : 0;
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
