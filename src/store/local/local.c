// The store of one process: calls on the store in memory.
#include "store/local/local.h"

#include "base/fail.h"
#include "base/forked.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

static struct local *local_of(weft_store_t *store) {
  return (struct local *)store;
}

int local_fail(enum core_status status, const char *key) {
  if (*key)
    return fail(core_status_err(status), "key '%s': %s", key, core_status_text(status));
  return fail(core_status_err(status), "%s", core_status_text(status));
}

struct core_range local_range(const char *key, bool prefix, char *bounds) {
  size_t size = strlen(key);
  if (!prefix)
    return (struct core_range){.key = {key, size}};
  if (size == 0)
    return (struct core_range){.key = {"", 1}, .end = {"", 1}}; // one NUL byte each: all keys
  memcpy(bounds, key, size);
  size_t last = size;
  while (last > 0 && (unsigned char)bounds[last - 1] == 0xff)
    last--;
  if (last == 0)
    return (struct core_range){.key = {key, size}, .end = {"", 1}}; // nothing sorts behind this prefix's keys
  bounds[last - 1]++;
  return (struct core_range){.key = {key, size}, .end = {bounds, last}};
}

struct weft_store_kv local_kv(const struct core_record *record) {
  return (struct weft_store_kv){
      .key = record->data,
      .value = core_record_value(record),
      .key_len = record->key_size,
      .value_len = record->value_size,
      .create_revision = record->create_revision,
      .mod_revision = record->mod_revision,
      .version = record->version,
      .lease = record->lease,
  };
}

static void lock(struct local *local) {
  pthread_mutex_lock(&local->lock);
}
static void unlock(struct local *local) {
  pthread_mutex_unlock(&local->lock);
}

static const char *name(const weft_store_t *store) {
  (void)store;
  return "local";
}

static int version(weft_store_t *store, struct text *out) {
  (void)store;
  text_add(out, "weft %s", weft_version());
  return 0;
}

// One operation as a transaction.
static int run(weft_store_t *store, const struct weft_store_op *op, struct weft_store_txn_result **out) {
  return local_txn(store, &(struct weft_store_txn){.success = op, .num_success = 1}, out);
}

static int range(weft_store_t *store, const char *key, bool prefix, uint32_t limit, struct weft_store_list **out) {
  struct weft_store_op op = {
      .kind = WEFT_STORE_RANGE, .key = key, .flags = prefix ? WEFT_STORE_OP_PREFIX : 0, .limit = limit};
  struct weft_store_txn_result *result;
  int err = run(store, &op, &result);
  if (err)
    return err;
  *out = result->ranges[0];
  result->ranges[0] = NULL;
  weft_store_txn_result_free(result);
  return 0;
}

static int put(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
               int64_t *revision) {
  struct weft_store_op op = {
      .kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = value_len, .lease = lease};
  struct core_response response;
  int err = local_change(store, &op, &response);
  if (!err && revision)
    *revision = response.revision;
  return err;
}

static int del(weft_store_t *store, const char *key, bool prefix, size_t *deleted) {
  struct core_response response;
  struct weft_store_op op = {.kind = WEFT_STORE_DELETE, .key = key, .flags = prefix ? WEFT_STORE_OP_PREFIX : 0};
  int err = local_change(store, &op, &response);
  if (!err && deleted)
    *deleted = response.count;
  return err;
}

static int lease_fail(enum core_status status, int64_t lease) {
  return status == CORE_OK ? 0 : fail_context(local_fail(status, ""), "lease %llx", (unsigned long long)lease);
}

static int lease_grant(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s) {
  struct local *local = local_of(store);
  int64_t id = 0, granted = ttl_s;
  lock(local);
  local_note_pause(local);
  enum core_status status = core_lease_grant(local->core, clock_ns(), &id, &granted);
  pthread_cond_signal(&local->work); // it may be the next to expire
  unlock(local);
  if (status != CORE_OK)
    return fail_context(local_fail(status, ""), "a lease of %lld s", (long long)ttl_s);
  *lease = id;
  if (granted_s)
    *granted_s = granted;
  return 0;
}

static int lease_keepalive(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  struct local *local = local_of(store);
  int64_t ttl;
  lock(local);
  local_note_pause(local);
  enum core_status status = core_lease_keepalive(local->core, clock_ns(), lease, &ttl);
  unlock(local);
  if (status == CORE_OK && ttl_s)
    *ttl_s = ttl;
  return lease_fail(status, lease);
}

static int lease_ttl(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  struct local *local = local_of(store);
  struct core_lease_state state;
  lock(local);
  local_note_pause(local);
  enum core_status status = core_lease_state(local->core, clock_ns(), lease, false, &state);
  unlock(local);
  if (status == CORE_OK)
    *ttl_s = state.left_s;
  return lease_fail(status, lease);
}

static int lease_revoke(weft_store_t *store, int64_t lease) {
  struct local *local = local_of(store);
  lock(local);
  enum core_status status = core_lease_revoke(local->core, lease);
  unlock(local);
  return lease_fail(status, lease);
}

static void destroy(struct local *local) {
  core_events_clear(&local->events);
  core_free(local->core);
  pthread_cond_destroy(&local->idle);
  pthread_cond_destroy(&local->work);
  pthread_mutex_destroy(&local->lock);
  free(local);
}

static void close_store(weft_store_t *store) {
  struct local *local = local_of(store);
  while (!LIST_EMPTY(&local->watches))
    local_watch_end(LIST_FIRST(&local->watches));
  lock(local);
  local->stopping = true;
  pthread_cond_signal(&local->work);
  unlock(local);
  pthread_join(local->thread, NULL);
  destroy(local);
}

// In a forked child. A lock that is held there stays held: data that its holder was changing is not freed.
static void forget(weft_store_t *store) {
  struct local *local = local_of(store);
  if (pthread_mutex_trylock(&local->lock) != 0)
    return;
  if (!local->delivering)
    core_events_clear(&local->events);
  core_forget_watches(local->core);
  core_free(local->core);
  free(local);
}

static const struct store_ops ops = {
    .close = close_store,
    .forget = forget,
    .version = version,
    .range = range,
    .txn = local_txn,
    .put = put,
    .del = del,
    .lease_grant = lease_grant,
    .lease_keepalive = lease_keepalive,
    .lease_ttl = lease_ttl,
    .lease_revoke = lease_revoke,
    .watch_open = local_watch_open,
    .watch_close = local_watch_close,
    .watch_free = local_watch_free,
    .name = name,
};

int weft_store_open_local(weft_store_t **store) {
  if (!store)
    return fail(WEFT_ERR_INVALID, "store is NULL");
  struct local *local = calloc(1, sizeof *local);
  struct core *core = core_create(CORE_LIMITS_DEFAULT);
  if (!local || !core) {
    core_free(core);
    free(local);
    return fail(WEFT_ERR_NOMEM, "no memory for a local store");
  }
  local->base = (struct weft_store){.ops = &ops, .opened = forked_now()};
  local->core = core;
  LIST_INIT(&local->watches);
  TAILQ_INIT(&local->ready);
  pthread_mutex_init(&local->lock, NULL);
  pthread_cond_init(&local->idle, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&local->work, &monotonic);
  pthread_condattr_destroy(&monotonic);
  int error = thread_create(&local->thread, NULL, local_thread, local);
  if (error) {
    destroy(local);
    return fail_thread(error, "a local store's thread");
  }
  *store = &local->base;
  return 0;
}
