// Builds the lists of keys that stores answer with.
#include "store/list.h"

#include "base/fail.h"
#include <stdlib.h>
#include <string.h>

// Key, NUL, value, NUL in one block, which the key's address names.
static char *copy_bytes(const struct weft_store_kv *kv) {
  char *block = malloc(kv->key_len + kv->value_len + 2);
  if (!block)
    return NULL;
  char *place = block;
  if (kv->key_len > 0)
    memcpy(place, kv->key, kv->key_len);
  place += kv->key_len;
  *place++ = '\0';
  if (kv->value_len > 0)
    memcpy(place, kv->value, kv->value_len);
  place[kv->value_len] = '\0';
  return block;
}

// `priv` holds the capacity.
static bool grow(struct weft_store_list *list) {
  size_t capacity = (size_t)(uintptr_t)list->priv;
  if (list->count < capacity)
    return true;
  capacity = capacity ? 2 * capacity : 8;
  struct weft_store_kv *kvs = realloc(list->kvs, capacity * sizeof *kvs);
  if (!kvs)
    return false;
  list->kvs = kvs;
  list->priv = (void *)(uintptr_t)capacity;
  return true;
}

int store_list_add(struct weft_store_list *list, const struct weft_store_kv *kv) {
  char *block = grow(list) ? copy_bytes(kv) : NULL;
  if (!block)
    return fail(WEFT_ERR_NOMEM, "no memory for a key of %zu bytes and its value of %zu", kv->key_len, kv->value_len);
  struct weft_store_kv *copy = &list->kvs[list->count++];
  *copy = *kv;
  copy->key = block;
  copy->value = block + kv->key_len + 1;
  return 0;
}

void weft_store_list_free(struct weft_store_list *list) {
  if (!list)
    return;
  for (size_t i = 0; i < list->count; i++)
    free((char *)list->kvs[i].key);
  free(list->kvs);
  *list = (struct weft_store_list){0};
}

void weft_store_txn_result_free(struct weft_store_txn_result *result) {
  if (!result)
    return;
  for (size_t i = 0; result->ranges && i < result->num_responses; i++)
    weft_store_list_free(&result->ranges[i]);
  free(result->ranges);
  free(result->deleted);
  *result = (struct weft_store_txn_result){0};
}
