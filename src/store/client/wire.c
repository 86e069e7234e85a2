// Converts Weft's types to and from the gateway's JSON.
#include "store/client/wire.h"

#include "base/fail.h"
#include "store/client/json.h"
#include "store/list.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_base64(struct text *body, const char *name, const void *bytes, size_t size) {
  text_add(body, "\"%s\":\"", name);
  client_base64_add(body, bytes, size);
  text_add(body, "\"");
}

// The end of a prefix's range: the first key behind it. A prefix of nothing but 0xff bytes, or an empty one, has none;
// that is written as one zero byte.
static void add_range_end(struct text *body, const char *prefix) {
  size_t size = strlen(prefix);
  while (size && (unsigned char)prefix[size - 1] == 0xff)
    size--;
  struct text end = {0};
  text_add_bytes(&end, prefix, size);
  if (size && end.data)
    end.data[size - 1]++;
  else
    text_add_bytes(&end, "", 1);
  body->failed = body->failed || end.failed;
  if (!body->failed) {
    text_add(body, ",");
    add_base64(body, "range_end", end.data, end.size);
  }
  text_free(&end);
}

void client_wire_add_key(struct text *body, const char *key, bool prefix) {
  // The empty key means the first possible key, a zero byte, since etcd accepts no empty key.
  add_base64(body, "key", key, prefix && !*key ? 1 : strlen(key));
  if (prefix)
    add_range_end(body, key);
}

void client_wire_add_range(struct text *body, const char *key, bool prefix, uint32_t limit) {
  client_wire_add_key(body, key, prefix);
  if (limit)
    text_add(body, ",\"limit\":\"%" PRIu32 "\"", limit);
}

void client_wire_add_put(struct text *body, const char *key, const void *value, size_t value_len, int64_t lease) {
  client_wire_add_key(body, key, false);
  text_add(body, ",");
  add_base64(body, "value", value, value_len);
  if (lease)
    text_add(body, ",\"lease\":\"%" PRId64 "\"", lease);
}

static void add_compare(struct text *body, const struct weft_store_compare *compare) {
  static const char *const relations[] = {"EQUAL", "GREATER", "LESS", "NOT_EQUAL"};
  static const struct {
    const char *target;
    const char *field;
  } targets[] = {{"CREATE", "create_revision"}, {"MOD", "mod_revision"}, {"VERSION", "version"}, {"VALUE", "value"}};
  text_add(body, "{");
  client_wire_add_key(body, compare->key, false);
  text_add(body, ",\"result\":\"%s\",\"target\":\"%s\",", relations[compare->relation],
           targets[compare->target].target);
  if (compare->target == WEFT_STORE_VALUE)
    add_base64(body, "value", compare->value, compare->value_len);
  else
    text_add(body, "\"%s\":\"%" PRId64 "\"", targets[compare->target].field, compare->number);
  text_add(body, "}");
}

static void add_op(struct text *body, const struct weft_store_op *op) {
  switch (op->kind) {
  case WEFT_STORE_PUT:
    text_add(body, "{\"request_put\":{");
    client_wire_add_put(body, op->key, op->value, op->value_len, op->lease);
    break;
  case WEFT_STORE_DELETE:
    text_add(body, "{\"request_delete_range\":{");
    client_wire_add_key(body, op->key, op->flags & WEFT_STORE_OP_PREFIX);
    break;
  case WEFT_STORE_RANGE:
    text_add(body, "{\"request_range\":{");
    client_wire_add_range(body, op->key, op->flags & WEFT_STORE_OP_PREFIX, op->limit);
    break;
  }
  text_add(body, "}}");
}

static void add_branch(struct text *body, const char *name, const struct weft_store_op *ops, size_t count) {
  text_add(body, ",\"%s\":[", name);
  for (size_t i = 0; i < count; i++) {
    text_add(body, "%s", i ? "," : "");
    add_op(body, &ops[i]);
  }
  text_add(body, "]");
}

void client_wire_add_txn(struct text *body, const struct weft_store_txn *txn) {
  text_add(body, "{\"compare\":[");
  for (size_t i = 0; i < txn->num_compares; i++) {
    text_add(body, "%s", i ? "," : "");
    add_compare(body, &txn->compares[i]);
  }
  text_add(body, "]");
  add_branch(body, "success", txn->success, txn->num_success);
  add_branch(body, "failure", txn->failure, txn->num_failure);
  text_add(body, "}");
}

int client_wire_revision(const json_t *answer, int64_t *revision) {
  const json_t *header;
  int err = client_json_object(answer, "header", &header);
  if (!err)
    err = client_json_int(header, "revision", revision);
  if (!err && (*revision <= 0 || *revision == INT64_MAX)) // there is always a next one
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: no revision in its header");
  return err;
}

// Reads the numbers of a key's state.
static int read_numbers(const json_t *object, struct weft_store_kv *kv) {
  int err = client_json_int(object, "create_revision", &kv->create_revision);
  if (!err)
    err = client_json_int(object, "mod_revision", &kv->mod_revision);
  if (!err)
    err = client_json_int(object, "version", &kv->version);
  if (!err)
    err = client_json_int(object, "lease", &kv->lease);
  if (!err && (kv->mod_revision <= 0 || kv->mod_revision == INT64_MAX))
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: a key without mod_revision");
  return err;
}

int client_wire_kv(const json_t *object, struct weft_store_list *list) {
  struct weft_store_kv kv = {0};
  struct text key = {0};
  struct text value = {0};
  int err = json_is_object(object) ? read_numbers(object, &kv)
                                   : fail(WEFT_ERR_PROTOCOL, "malformed answer: a key that is not an object");
  if (!err)
    err = client_json_bytes(object, "key", &key);
  if (!err)
    err = client_json_bytes(object, "value", &value);
  if (!err && key.size == 0)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: a key of no bytes");
  if (!err) {
    kv.key = key.data;
    kv.key_len = key.size;
    kv.value = value.size ? value.data : "";
    kv.value_len = value.size;
    err = store_list_add(list, &kv);
  }
  text_free(&key);
  text_free(&value);
  return err;
}

static int check_key(const struct weft_store_kv *kv, const char *wanted, bool prefix) {
  size_t size = strlen(wanted);
  if (kv->key_len >= size && memcmp(kv->key, wanted, size) == 0 && (prefix || kv->key_len == size))
    return 0;
  return fail(WEFT_ERR_PROTOCOL, "malformed answer: a key that %s \"%s\"", prefix ? "does not begin with" : "is not",
              wanted);
}

int client_wire_list(const json_t *answer, const char *key, bool prefix, int64_t revision,
                     struct weft_store_list **out) {
  struct weft_store_list *list = store_list_create();
  if (!list)
    return WEFT_ERR_NOMEM;
  list->revision = revision;
  bool more = false;
  const json_t *kvs;
  int64_t total = 0;
  int err = client_json_array(answer, "kvs", &kvs);
  for (size_t i = 0; !err && i < json_array_size(kvs); i++) {
    err = client_wire_kv(json_array_get(kvs, i), list);
    if (!err)
      err = check_key(list->kvs[i], key, prefix);
  }
  if (!err)
    err = client_json_int(answer, "count", &total);
  if (!err)
    err = client_json_bool(answer, "more", &more);
  if (!err && total < (int64_t)list->count)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: %zu keys of %" PRId64, list->count, total);
  if (err) {
    weft_store_list_free(list);
    return err;
  }
  list->total = (size_t)total;
  list->more = more;
  *out = list;
  return 0;
}

// A transaction's range holds at the revision in its own header, which is lower than the transaction's if writes
// follow.
static int read_range(const json_t *answer, const struct weft_store_op *op, int64_t revision,
                      struct weft_store_list **range) {
  if (json_object_get(answer, "header")) {
    int err = client_wire_revision(answer, &revision);
    if (err)
      return err;
  }
  return client_wire_list(answer, op->key, op->flags & WEFT_STORE_OP_PREFIX, revision, range);
}

static int read_response(const json_t *response, const struct weft_store_op *op, int64_t revision,
                         struct weft_store_list **range, size_t *deleted) {
  static const char *const names[] = {"response_put", "response_delete_range", "response_range"};
  const json_t *answer;
  int64_t count = 0;
  int err = client_json_object(response, names[op->kind], &answer);
  if (err || op->kind == WEFT_STORE_PUT)
    return err;
  if (!answer)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: a transaction's response is not a %s", names[op->kind]);
  if (op->kind == WEFT_STORE_RANGE)
    return read_range(answer, op, revision, range);
  err = client_json_int(answer, "deleted", &count);
  if (!err && count < 0)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: \"deleted\" is negative");
  if (!err)
    *deleted = (size_t)count;
  return err;
}

static int read_responses(const json_t *answer, const struct weft_store_op *ops, struct weft_store_txn_result *out) {
  const json_t *responses;
  int err = client_json_array(answer, "responses", &responses);
  if (!err && json_array_size(responses) != out->num_responses)
    err = fail(WEFT_ERR_PROTOCOL, "malformed answer: %zu responses to %zu operations", json_array_size(responses),
               out->num_responses);
  for (size_t i = 0; !err && i < out->num_responses; i++)
    err = read_response(json_array_get(responses, i), &ops[i], out->revision, &out->ranges[i], &out->deleted[i]);
  return err;
}

int client_wire_txn_result(const json_t *answer, const struct weft_store_txn *txn, struct weft_store_txn_result **out) {
  bool succeeded;
  int64_t revision;
  int err = client_json_bool(answer, "succeeded", &succeeded);
  if (!err)
    err = client_wire_revision(answer, &revision);
  if (err)
    return err;
  struct weft_store_txn_result *result = store_result_create(succeeded ? txn->num_success : txn->num_failure);
  if (!result)
    return WEFT_ERR_NOMEM;
  result->succeeded = succeeded;
  result->revision = revision;
  err = read_responses(answer, succeeded ? txn->success : txn->failure, result);
  if (err)
    weft_store_txn_result_free(result);
  else
    *out = result;
  return err;
}
