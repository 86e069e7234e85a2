// Builds the lists of keys that stores answer with.
#include "store/list.h"

#include "base/fail.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The whole of a list; the caller's list is its beginning.
struct list {
  struct weft_store_list given;
  size_t capacity;
};

// A key with its bytes behind it: key, NUL, value, NUL.
static struct weft_store_kv *copy_kv(const struct weft_store_kv *kv) {
  struct weft_store_kv *copy = malloc(sizeof *copy + kv->key_len + kv->value_len + 2);
  if (!copy)
    return NULL;
  char *key = (char *)(copy + 1), *value = key + kv->key_len + 1;
  *copy = *kv;
  copy->key = key;
  copy->value = value;
  if (kv->key_len > 0)
    memcpy(key, kv->key, kv->key_len);
  key[kv->key_len] = '\0';
  if (kv->value_len > 0)
    memcpy(value, kv->value, kv->value_len);
  value[kv->value_len] = '\0';
  return copy;
}

static bool grow(struct list *list) {
  if (list->given.count < list->capacity)
    return true;
  size_t capacity = list->capacity ? 2 * list->capacity : 8;
  struct weft_store_kv **kvs = realloc(list->given.kvs, capacity * sizeof *kvs);
  if (!kvs)
    return false;
  list->given.kvs = kvs;
  list->capacity = capacity;
  return true;
}

struct weft_store_list *store_list_create(void) {
  struct list *list = calloc(1, sizeof *list);
  if (list)
    return &list->given;
  fail(WEFT_ERR_NOMEM, "no memory for a list of keys");
  return NULL;
}

int store_list_add(struct weft_store_list *list, const struct weft_store_kv *kv) {
  struct weft_store_kv *copy = grow((struct list *)list) ? copy_kv(kv) : NULL;
  if (!copy)
    return fail(WEFT_ERR_NOMEM, "no memory for a key of %zu bytes and its value of %zu", kv->key_len, kv->value_len);
  list->kvs[list->count++] = copy;
  return 0;
}

void weft_store_list_free(struct weft_store_list *list) {
  if (!list)
    return;
  for (size_t i = 0; i < list->count; i++)
    free(list->kvs[i]);
  free(list->kvs);
  free(list);
}

struct weft_store_txn_result *store_result_create(size_t num_responses) {
  struct weft_store_txn_result *result = calloc(1, sizeof *result);
  if (result && num_responses) {
    result->num_responses = num_responses;
    result->ranges = calloc(num_responses, sizeof(struct weft_store_list *));
    result->deleted = calloc(num_responses, sizeof *result->deleted);
  }
  if (result && (!num_responses || (result->ranges && result->deleted)))
    return result;
  weft_store_txn_result_free(result);
  fail(WEFT_ERR_NOMEM, "no memory for the result of a transaction");
  return NULL;
}

void weft_store_txn_result_free(struct weft_store_txn_result *result) {
  if (!result)
    return;
  for (size_t i = 0; result->ranges && i < result->num_responses; i++)
    weft_store_list_free(result->ranges[i]);
  free(result->ranges);
  free(result->deleted);
  free(result);
}
