// JSON values in the store: get, put and create, and the inbox that watches a prefix.
#include "run/common/store_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"

// Takes over `json`.
static char *dump(json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  json_decref(json);
  if (!text)
    fail(WEFT_ERR_NOMEM, "no memory for a value of the store");
  return text;
}

int run_storage_put(weft_store_t *store, const char *key, json_t *json, int64_t lease) {
  char *text = dump(json);
  if (!text)
    return WEFT_ERR_NOMEM;
  int err = weft_store_put(store, key, text, strlen(text), lease, NULL);
  free(text);
  return err;
}

int run_storage_create(weft_store_t *store, const char *key, json_t *json, int64_t lease, bool *created) {
  char *text = dump(json);
  if (!text)
    return WEFT_ERR_NOMEM;
  size_t size = strlen(text);
  struct weft_store_compare absent = {.key = key, .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_EQUAL};
  struct weft_store_op put = {.kind = WEFT_STORE_PUT, .key = key, .value = text, .value_len = size, .lease = lease};
  struct weft_store_op read = {.kind = WEFT_STORE_RANGE, .key = key};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &absent;
  txn.num_compares = 1;
  txn.success = &put;
  txn.num_success = 1;
  txn.failure = &read;
  txn.num_failure = 1;
  struct weft_store_txn_result *result;
  int err = weft_store_txn_commit(store, &txn, &result);
  if (!err) {
    const struct weft_store_list *there = result->succeeded ? NULL : result->ranges[0];
    *created = result->succeeded ||
               (there->count == 1 && there->kvs[0]->value_len == size && memcmp(there->kvs[0]->value, text, size) == 0);
    weft_store_txn_result_free(result);
  }
  free(text);
  return err;
}

int run_storage_get(weft_store_t *store, const char *key, json_t **json) {
  struct weft_store_list *list;
  int err = weft_store_range(store, key, false, 1, &list);
  if (err)
    return err;
  json_t *read = NULL;
  json_error_t error;
  if (list->count > 0) {
    read = json_loadb(list->kvs[0]->value, list->kvs[0]->value_len, JSON_DECODE_ANY, &error);
    if (!read)
      err = fail(WEFT_ERR_PROTOCOL, "key '%s' of the store does not hold JSON: %s", key, error.text);
  }
  weft_store_list_free(list);
  if (!err)
    *json = read;
  return err;
}

bool run_storage_may_pass(int err) {
  return err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT;
}

struct item {
  struct run_change change;
  struct item *next;
};

struct run_inbox {
  weft_store_t *store;
  weft_store_watch_t *watch;
  char *prefix;
  int fd;
  pthread_mutex_t mutex; // guards the fields below
  struct item *first, **last;
  int64_t revision; // of the newest change
};

// Called with the mutex held.
static void push(struct run_inbox *inbox, enum weft_store_event_kind kind, const struct weft_store_kv *kv) {
  struct item *item = calloc(1, sizeof *item);
  if (item && kv)
    item->change.key = strndup(kv->key, kv->key_len);
  if (!item || (kv && !item->change.key)) {
    log_error("no memory for an event of the store");
    free(item);
    return;
  }
  item->change.kind = kind;
  if (kind == WEFT_STORE_EVENT_PUT)
    item->change.json = json_loadb(kv->value, kv->value_len, JSON_DECODE_ANY, NULL);
  *inbox->last = item;
  inbox->last = &item->next;
  eventfd_write(inbox->fd, 1);
}

static void on_event(void *arg, const struct weft_store_event *event) {
  struct run_inbox *inbox = arg;
  bool has_key = event->kind == WEFT_STORE_EVENT_PUT || event->kind == WEFT_STORE_EVENT_DELETE;
  pthread_mutex_lock(&inbox->mutex);
  if (has_key)
    inbox->revision = event->revision;
  else if (event->kind == WEFT_STORE_EVENT_RESET)
    inbox->revision = 0; // revisions begin again
  push(inbox, event->kind, has_key ? event->kv : NULL);
  pthread_mutex_unlock(&inbox->mutex);
}

// Pushes the list, unless newer changes have arrived already. Returns whether it pushed the list.
static bool push_list(struct run_inbox *inbox, const struct weft_store_list *list) {
  pthread_mutex_lock(&inbox->mutex);
  bool current = inbox->revision <= list->revision;
  for (size_t i = 0; current && i < list->count; i++)
    push(inbox, WEFT_STORE_EVENT_PUT, list->kvs[i]);
  pthread_mutex_unlock(&inbox->mutex);
  return current;
}

int run_inbox_read(struct run_inbox *inbox) {
  bool current = false;
  while (!current) { // it is repeated only after a change, so it ends when changes stop
    struct weft_store_list *list;
    int err = weft_store_range(inbox->store, inbox->prefix, true, 0, &list);
    if (err)
      return err;
    current = push_list(inbox, list);
    weft_store_list_free(list);
  }
  return 0;
}

int run_inbox_open(struct run_inbox **out, weft_store_t *store, const char *prefix) {
  struct run_inbox *inbox = calloc(1, sizeof *inbox);
  if (!inbox)
    return fail(WEFT_ERR_NOMEM, "no memory for a watch");
  inbox->store = store;
  inbox->last = &inbox->first;
  inbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_mutex_init(&inbox->mutex, NULL);
  struct weft_store_list *list;
  int err = inbox->fd < 0 ? fail_errno(errno, "cannot make an eventfd") : 0;
  if (!err && !(inbox->prefix = strdup(prefix)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a watch");
  if (!err)
    err = weft_store_range(store, prefix, true, 0, &list);
  if (!err) {
    push_list(inbox, list);
    err = weft_store_watch_open(store, prefix, list->revision + 1, on_event, inbox, &inbox->watch);
    weft_store_list_free(list);
  }
  if (err) {
    run_inbox_close(inbox);
    return err;
  }
  *out = inbox;
  return 0;
}

void run_inbox_close(struct run_inbox *inbox) {
  if (!inbox)
    return;
  weft_store_watch_close(inbox->watch);
  struct run_change change;
  while (run_inbox_take(inbox, &change))
    run_change_free(&change);
  if (inbox->fd >= 0)
    close(inbox->fd);
  pthread_mutex_destroy(&inbox->mutex);
  free(inbox->prefix);
  free(inbox);
}

int run_inbox_fd(const struct run_inbox *inbox) {
  return inbox->fd;
}

bool run_inbox_take(struct run_inbox *inbox, struct run_change *change) {
  eventfd_t count;
  pthread_mutex_lock(&inbox->mutex);
  struct item *item = inbox->first;
  if (item) {
    inbox->first = item->next;
    if (!inbox->first)
      inbox->last = &inbox->first;
  } else {
    eventfd_read(inbox->fd, &count); // only when the inbox is empty, under the mutex, so no event is missed
  }
  pthread_mutex_unlock(&inbox->mutex);
  if (item)
    *change = item->change;
  free(item);
  return item != NULL;
}

void run_change_free(struct run_change *change) {
  free(change->key);
  json_decref(change->json);
}
