// The public functions: arguments are checked here, once for all kinds of store.
#include "base/fail.h"
#include "base/forked.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "store/limit.h"
#include "store/txn_read.h"
#include "store/vtable.h"
#include <string.h>

static _Thread_local const _Atomic uint64_t *thread_limit;

void store_limit_thread(const _Atomic uint64_t *until_ns) {
  thread_limit = until_ns;
}

uint64_t store_limit(void) {
  return thread_limit ? atomic_load(thread_limit) : CLOCK_NEVER;
}

static int check_store(const weft_store_t *store) {
  if (!store)
    return fail(WEFT_ERR_INVALID, "store is NULL; open one with weft_store_open() or weft_store_open_local()");
  return forked_check(store->opened, "the store");
}

// A prefix may be empty, a key may not.
static int check_key(const weft_store_t *store, const char *key, bool prefix) {
  int err = check_store(store);
  if (err)
    return err;
  if (!key)
    return fail(WEFT_ERR_INVALID, "%s is NULL", prefix ? "prefix" : "key");
  if (!prefix && !*key)
    return fail(WEFT_ERR_INVALID, "key is empty: want a key; only a prefix may be empty");
  return 0;
}

// More than an answer can have. Each store has its own limit, mostly of 1.5 MiB. But an invalid length, such as
// (size_t)-1, must not reach code that adds lengths and copies bytes.
enum { MOST_VALUE = 16 << 20 };

static int check_value(const char *key, const void *value, size_t value_len) {
  if (!value && value_len > 0)
    return fail(WEFT_ERR_INVALID, "value of key '%s' is NULL but has %zu bytes", key, value_len);
  if (value_len > MOST_VALUE)
    return fail(WEFT_ERR_LIMIT, "value of key '%s' has %zu bytes: want 1.5 MiB at most, its key included", key,
                value_len);
  return 0;
}

SIZED_DEFINE_INIT(store_options, WEFT_STORE_OPTIONS_INIT)

void weft_store_txn_init(struct weft_store_txn *txn, size_t size) {
  static const struct weft_store_txn initial = {.size = sizeof initial}; // the sizes of entries are the caller's
  sized_init(txn, size, &initial, sizeof initial);
}

SIZED_DEFINE_INIT(store_server_options, WEFT_STORE_SERVER_OPTIONS_INIT)

void weft_store_close(weft_store_t *store) {
  if (!store)
    return;
  if (forked_since(store->opened))
    store->ops->forget(store);
  else
    store->ops->close(store);
}

const char *weft_store_name(const weft_store_t *store) {
  return store ? store->ops->name(store) : "";
}

int weft_store_version(weft_store_t *store, char *text, size_t cap, size_t *size) {
  int err = check_store(store);
  if (!err && !text && cap > 0)
    err = fail(WEFT_ERR_INVALID, "text is NULL but its cap is %zu: want a buffer, or cap 0 to get the size", cap);
  struct text version = {0};
  if (!err)
    err = store->ops->version(store, &version);
  if (!err && version.failed)
    err = fail(WEFT_ERR_NOMEM, "no memory for the store's version");
  size_t need = version.size + 1;
  if (!err && size)
    *size = need;
  if (!err && cap > 0 && cap < need)
    err = fail(WEFT_ERR_ROOM, "the store's version takes %zu bytes, but there is room for %zu", need, cap);
  else if (!err && cap > 0)
    memcpy(text, version.data, need);
  text_free(&version);
  return err;
}

int weft_store_range(weft_store_t *store, const char *key, bool prefix, uint32_t limit, struct weft_store_list **out) {
  int err = check_key(store, key, prefix);
  if (!err && !out)
    err = fail(WEFT_ERR_INVALID, "out is NULL");
  return err ? err : store->ops->range(store, key, prefix, limit, out);
}

int weft_store_put(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
                   int64_t *revision) {
  int err = check_key(store, key, false);
  if (!err)
    err = check_value(key, value, value_len);
  return err ? err : store->ops->put(store, key, value, value_len, lease, revision);
}

int weft_store_delete(weft_store_t *store, const char *key, bool prefix, size_t *deleted) {
  int err = check_key(store, key, prefix);
  return err ? err : store->ops->del(store, key, prefix, deleted);
}

static int check_compares(const weft_store_t *store, const struct weft_store_compare *compares, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int err = check_key(store, compares[i].key, false);
    if (!err && compares[i].target == WEFT_STORE_VALUE)
      err = check_value(compares[i].key, compares[i].value, compares[i].value_len);
    if (!err && (unsigned)compares[i].target > WEFT_STORE_VALUE)
      err = fail(WEFT_ERR_INVALID, "target %d is not in enum weft_store_target", (int)compares[i].target);
    if (!err && (unsigned)compares[i].relation > WEFT_STORE_NOT_EQUAL)
      err = fail(WEFT_ERR_INVALID, "relation %d is not in enum weft_store_relation", (int)compares[i].relation);
    if (err)
      return fail_context(err, "comparison %zu of the transaction", i);
  }
  return 0;
}

static int check_op(const weft_store_t *store, const struct weft_store_op *op) {
  if ((unsigned)op->kind > WEFT_STORE_RANGE)
    return fail(WEFT_ERR_INVALID, "kind %d is not in enum weft_store_op_kind", (int)op->kind);
  uint32_t unknown = op->flags & ~(uint32_t)(op->kind == WEFT_STORE_PUT ? 0 : WEFT_STORE_OP_PREFIX);
  if (unknown)
    return fail(WEFT_ERR_INVALID, "flags: bit 0x%x is no flag of %s", (unsigned)unknown,
                op->kind == WEFT_STORE_PUT ? "a PUT: want 0" : "enum weft_store_op_flag");
  if (op->reserved)
    return fail(WEFT_ERR_INVALID, "reserved is %u: want 0", (unsigned)op->reserved);
  int err = check_key(store, op->key, op->flags & WEFT_STORE_OP_PREFIX);
  if (!err && op->kind == WEFT_STORE_PUT)
    err = check_value(op->key, op->value, op->value_len);
  return err;
}

static int check_branch(const weft_store_t *store, const char *name, const struct weft_store_op *ops, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int err = check_op(store, &ops[i]);
    if (err)
      return fail_context(err, "operation %zu of the transaction's %s branch", i, name);
  }
  return 0;
}

int weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *given, struct weft_store_txn_result **out) {
  int err = check_store(store);
  if (!err && (!given || !out))
    err = fail(WEFT_ERR_INVALID, "%s is NULL", given ? "out" : "txn");
  struct store_txn read = {0};
  if (!err)
    err = store_txn_read(given, &read);
  if (err)
    return err;
  const struct weft_store_txn *txn = read.txn;
  err = check_compares(store, txn->compares, txn->num_compares);
  if (!err)
    err = check_branch(store, "success", txn->success, txn->num_success);
  if (!err)
    err = check_branch(store, "failure", txn->failure, txn->num_failure);
  if (!err)
    err = store->ops->txn(store, txn, out);
  store_txn_end(&read);
  return err;
}

int weft_store_lease_grant(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s) {
  int err = check_store(store);
  if (!err && !lease)
    err = fail(WEFT_ERR_INVALID, "lease is NULL");
  if (!err && ttl_s < 1)
    err = fail(WEFT_ERR_INVALID, "a lease of %lld s: want 1 s or more", (long long)ttl_s);
  return err ? err : store->ops->lease_grant(store, ttl_s, lease, granted_s);
}

static int check_lease(const weft_store_t *store, int64_t lease) {
  int err = check_store(store);
  if (!err && lease == 0)
    err = fail(WEFT_ERR_INVALID, "lease 0 does not exist: want a lease of weft_store_lease_grant()");
  return err;
}

int weft_store_lease_keepalive(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  int err = check_lease(store, lease);
  return err ? err : store->ops->lease_keepalive(store, lease, ttl_s);
}

int weft_store_lease_ttl(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  int err = check_lease(store, lease);
  if (!err && !ttl_s)
    err = fail(WEFT_ERR_INVALID, "ttl_s is NULL");
  return err ? err : store->ops->lease_ttl(store, lease, ttl_s);
}

int weft_store_lease_revoke(weft_store_t *store, int64_t lease) {
  int err = check_lease(store, lease);
  return err ? err : store->ops->lease_revoke(store, lease);
}

int weft_store_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                          weft_store_watch_t **watch) {
  int err = check_key(store, prefix, true);
  if (!err && (!fn || !watch))
    err = fail(WEFT_ERR_INVALID, "%s is NULL", fn ? "watch" : "fn");
  if (!err && from < 0)
    err = fail(WEFT_ERR_INVALID, "a watch from revision %lld: want 0 or more", (long long)from);
  return err ? err : store->ops->watch_open(store, prefix, from, fn, arg, watch);
}

void weft_store_watch_close(weft_store_watch_t *watch) {
  if (!watch)
    return;
  if (!watch->store || forked_since(watch->opened))
    watch->ops->watch_free(watch);
  else
    watch->ops->watch_close(watch);
}
