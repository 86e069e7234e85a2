// A store reached over HTTP: each operation is one request, written and read here.
#include "store/client/client.h"

#include "base/fail.h"
#include "base/forked.h"
#include "store/client/http.h"
#include "store/client/json.h"
#include "store/client/wire.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct client *client_of(weft_store_t *store) {
  return (struct client *)store;
}

// Sends the content of `body` and frees it.
static int call(weft_store_t *store, const char *path, bool modifies, struct text *body, json_t **answer) {
  struct client_request request = {.path = path, .body = body, .modifies = modifies};
  int err = body->failed ? fail(WEFT_ERR_NOMEM, "no memory for a request to the store")
                         : client_call(client_of(store), &request, answer);
  text_free(body);
  return err;
}

// Names the endpoint in an error that was found while reading its answer, and frees the answer.
static int finish(weft_store_t *store, int err, json_t *answer) {
  json_decref(answer);
  return err == WEFT_ERR_PROTOCOL ? fail_context(err, "store %s", weft_store_name(store)) : err;
}

static int client_version(weft_store_t *store, struct text *out) {
  struct client_request request = {.path = "/version"};
  json_t *answer = NULL;
  int err = client_call(client_of(store), &request, &answer);
  if (err)
    return err;
  const char *version = json_string_value(json_object_get(answer, "etcdserver"));
  if (!version)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: no \"etcdserver\" in /version");
  else
    text_add(out, "%s", version);
  return finish(store, err, answer);
}

static int client_range(weft_store_t *store, const char *key, bool prefix, uint32_t limit,
                        struct weft_store_list **out) {
  struct text body = {0};
  json_t *answer = NULL;
  int64_t revision;
  text_add(&body, "{");
  client_wire_add_range(&body, key, prefix, limit);
  text_add(&body, "}");
  int err = call(store, "/v3/kv/range", false, &body, &answer);
  if (err)
    return err;
  err = client_wire_revision(answer, &revision);
  if (!err)
    err = client_wire_list(answer, key, prefix, revision, out);
  return finish(store, err, answer);
}

static int client_txn(weft_store_t *store, const struct weft_store_txn *txn, struct weft_store_txn_result **out) {
  struct text body = {0};
  json_t *answer = NULL;
  client_wire_add_txn(&body, txn);
  int err = call(store, "/v3/kv/txn", true, &body, &answer);
  if (err)
    return err;
  err = client_wire_txn_result(answer, txn, out);
  return finish(store, err, answer);
}

static int client_put(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
                      int64_t *revision) {
  struct text body = {0};
  json_t *answer = NULL;
  int64_t after;
  text_add(&body, "{");
  client_wire_add_put(&body, key, value, value_len, lease);
  text_add(&body, "}");
  int err = call(store, "/v3/kv/put", true, &body, &answer);
  if (err)
    return err;
  err = client_wire_revision(answer, &after);
  if (!err && revision)
    *revision = after;
  return finish(store, err, answer);
}

static int client_delete(weft_store_t *store, const char *key, bool prefix, size_t *deleted) {
  struct text body = {0};
  json_t *answer = NULL;
  int64_t count;
  text_add(&body, "{");
  client_wire_add_key(&body, key, prefix);
  text_add(&body, "}");
  int err = call(store, "/v3/kv/deleterange", true, &body, &answer);
  if (err)
    return err;
  err = client_json_int(answer, "deleted", &count);
  if (!err && count < 0)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: \"deleted\" is negative");
  if (!err && deleted)
    *deleted = (size_t)count;
  return finish(store, err, answer);
}

static int client_lease_grant(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s) {
  struct text body = {0};
  json_t *answer = NULL;
  int64_t id, granted;
  text_add(&body, "{\"TTL\":\"%" PRId64 "\"}", ttl_s);
  int err = call(store, "/v3/lease/grant", true, &body, &answer);
  if (err)
    return err;
  err = client_json_int(answer, "ID", &id);
  if (!err)
    err = client_json_int(answer, "TTL", &granted);
  if (!err && (id == 0 || granted <= 0))
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: a lease without ID or TTL");
  if (!err) {
    *lease = id;
    if (granted_s)
      *granted_s = granted;
  }
  return finish(store, err, answer);
}

static int no_lease(weft_store_t *store, int64_t lease) {
  return fail(WEFT_ERR_NOT_FOUND, "store %s: no lease %" PRId64 ": it was never granted, or has ended",
              weft_store_name(store), lease);
}

// Sends a lease's number to `path`.
static int call_lease(weft_store_t *store, const char *path, bool modifies, int64_t lease, json_t **answer) {
  struct text body = {0};
  text_add(&body, "{\"ID\":\"%" PRId64 "\"}", lease);
  int err = call(store, path, modifies, &body, answer);
  return err == WEFT_ERR_NOT_FOUND ? no_lease(store, lease) : err;
}

static int client_lease_keepalive(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  json_t *answer = NULL;
  const json_t *result;
  int64_t ttl = 0;
  int err = call_lease(store, "/v3/lease/keepalive", false, lease, &answer);
  if (err)
    return err;
  err = client_json_object(answer, "result", &result);
  if (!err && !result)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: a keepalive without \"result\"");
  if (!err)
    err = client_json_int(result, "TTL", &ttl);
  if (!err && ttl <= 0)
    err = no_lease(store, lease);
  if (!err && ttl_s)
    *ttl_s = ttl;
  return finish(store, err, answer);
}

static int client_lease_ttl(weft_store_t *store, int64_t lease, int64_t *ttl_s) {
  json_t *answer = NULL;
  int64_t ttl;
  int err = call_lease(store, "/v3/lease/timetolive", false, lease, &answer);
  if (err)
    return err;
  err = client_json_int(answer, "TTL", &ttl);
  if (!err && ttl < 0)
    err = no_lease(store, lease);
  if (!err)
    *ttl_s = ttl;
  return finish(store, err, answer);
}

static int client_lease_revoke(weft_store_t *store, int64_t lease) {
  json_t *answer = NULL;
  int err = call_lease(store, "/v3/lease/revoke", true, lease, &answer);
  return err ? err : finish(store, 0, answer);
}

static const char *client_name(const weft_store_t *store) {
  struct client *client = (struct client *)store; // atomic_load() wants it without const
  return client->endpoints[client_endpoint(client)];
}

static void client_close(weft_store_t *store) {
  struct client *client = client_of(store);
  client_watcher_stop(client->watcher);
  client_pool_free(client->pool);
  client_options_free(client);
  pthread_mutex_destroy(&client->lock);
  free(client);
}

// Clients of the parent that a forked child has closed.
static _Atomic(struct client *) left_behind;

// In a forked child. curl's handles stay: their end would say good-bye on connections that are the parent's.
static void client_forget(weft_store_t *store) {
  struct client *client = client_of(store);
  client_options_free(client);
  client->next_left_behind = atomic_exchange(&left_behind, client);
}

static const struct store_ops client_ops = {
    .close = client_close,
    .forget = client_forget,
    .version = client_version,
    .range = client_range,
    .txn = client_txn,
    .put = client_put,
    .del = client_delete,
    .lease_grant = client_lease_grant,
    .lease_keepalive = client_lease_keepalive,
    .lease_ttl = client_lease_ttl,
    .lease_revoke = client_lease_revoke,
    .watch_open = client_watch_open,
    .watch_close = client_watch_close,
    .watch_free = client_watch_free,
    .name = client_name,
};

int weft_store_open(weft_store_t **store, const struct weft_store_options *options) {
  if (!store)
    return fail(WEFT_ERR_INVALID, "weft_store_open: store is NULL: want a place for the handle");
  struct client *client = calloc(1, sizeof *client);
  if (!client)
    return fail(WEFT_ERR_NOMEM, "no memory for a store client");
  client->base = (struct weft_store){.ops = &client_ops, .opened = forked_now()};
  pthread_mutex_init(&client->lock, NULL);
  int err = client_options_set(client, options);
  if (!err && !(client->pool = client_pool_create()))
    err = fail(WEFT_ERR_NOMEM, "no memory for a store client");
  if (err) {
    client_close(&client->base);
    return err;
  }
  *store = &client->base;
  return 0;
}
