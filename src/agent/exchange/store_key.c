// The agent's keys in the store, and their lease. A key is put or deleted only if no other living agent has it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/exchange/store_thread.h"
#include "agent/metadata/describe.h"
#include "base/fail.h"
#include "base/process.h"
#include "base/time/clock.h"

enum { TRIES = 8 }; // while others change the key

// --- the lease ---

static uint32_t ttl_s(const struct agent_store_thread *store_thread) {
  return store_thread->agent->options.lease_ttl_s;
}

static int need_lease(struct agent_store_thread *store_thread) {
  if (store_thread->lease != 0)
    return 0;
  int64_t granted = ttl_s(store_thread);
  int err = weft_store_lease_grant(store_thread->store, ttl_s(store_thread), &store_thread->lease, &granted);
  store_thread->renew_ns = clock_deadline_ms((uint64_t)granted * 1000 / 3);
  return err;
}

// The store may have lost the lease, and the keys with it.
int store_key_renew_lease(struct agent_store_thread *store_thread, uint64_t now_ns, bool *put) {
  int64_t ttl = ttl_s(store_thread);
  int err = store_thread->lease ? weft_store_lease_keepalive(store_thread->store, store_thread->lease, &ttl) : 0;
  if (err == WEFT_ERR_NOT_FOUND)
    store_thread->lease = 0;
  *put |= store_thread->lease == 0;
  store_thread->renew_ns = now_ns + (uint64_t)(ttl > 0 ? ttl : 1) * 1000000000u / 3;
  return err == WEFT_ERR_NOT_FOUND ? 0 : err;
}

// --- changing a key ---

// Changes the key if it was last changed at `revision`; 0: if it does not exist. Else `*found` is the current state.
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

// EXISTS, unless the key belongs to this agent, or to a process of this host that has ended.
static int check_owner(const weft_agent_t *agent, const struct weft_store_kv *kv) {
  struct agent_description *other;
  if (agent_blob_read(kv->value, kv->value_len, agent_seal(agent), &other) != 0)
    return fail(WEFT_ERR_EXISTS, "the key %s of the store is not an agent's: %s", kv->key, weft_last_error());
  bool own = other->incarnation == agent->incarnation;
  bool same_host = *agent->host && strcmp(agent->host, other->host) == 0 && agent->pid_namespace != 0 &&
                   agent->pid_namespace == other->pid_namespace;
  bool dead = same_host && other->pid > 0 && !process_lives(other->pid, other->start_ticks);
  int err = own || dead ? 0
                        : fail(WEFT_ERR_EXISTS,
                               "an agent %s is in the store already, as incarnation %016" PRIx64 " (pid %" PRId32
                               " of host %s): use another name, or wait until its lease has run out",
                               other->name, other->incarnation, other->pid, other->host);
  free(other);
  return err;
}

int store_key_put(struct agent_store_thread *store_thread, const char *key, const struct store_publication *publication,
                  int64_t *other_lease) {
  void *blob;
  size_t size;
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

static bool is_own(const weft_agent_t *agent, const struct weft_store_kv *kv) {
  struct agent_description *description;
  if (agent_blob_read(kv->value, kv->value_len, agent_seal(agent), &description) != 0)
    return false;
  bool own = description->incarnation == agent->incarnation;
  free(description);
  return own;
}

int store_key_delete(struct agent_store_thread *store_thread, const char *key) {
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
