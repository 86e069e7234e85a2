// Checks the events of a watch. A key's version counts its puts, so a missing event shows, and so does one too many.
#include "store/impatient/watched.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void report(struct watched *watched, const char *wrong, const struct weft_store_event *event,
                   const struct watched_key *key) {
  if (atomic_load(&watched->wrong))
    return;
  if (event->kv)
    snprintf(watched->detail, sizeof watched->detail,
             "%s at %" PRId64 ", created %" PRId64 ", version %" PRId64 "; known: %" PRId64 ", %" PRId64 ", %" PRId64,
             event->kv->key, event->revision, event->kv->create_revision, event->kv->version, key ? key->modified : -1,
             key ? key->created : -1, key ? key->version : -1);
  else
    snprintf(watched->detail, sizeof watched->detail, "kind %d at %" PRId64, (int)event->kind, event->revision);
  atomic_store(&watched->wrong, wrong);
}

// NULL: there are more keys than the test has.
static struct watched_key *find(struct watched *watched, const char *key, bool *known) {
  struct watched_key *entry = watched->keys, *end = entry + WATCHED_KEYS;
  while (entry < end && entry->key[0] && strcmp(entry->key, key) != 0)
    entry++;
  if (entry == end)
    return NULL;
  *known = entry->key[0] || watched->knows_all;
  snprintf(entry->key, sizeof entry->key, "%s", key);
  return entry;
}

static void forget(struct watched *watched) {
  memset(watched->keys, 0, sizeof watched->keys);
  watched->knows_all = false;
  watched->revision = 0;
}

void watched_begin(struct watched *watched, const _Atomic uint64_t *generation) {
  memset(watched, 0, sizeof *watched);
  watched->generation = generation;
}

void watched_begin_at(struct watched *watched, const struct weft_store_list *list, const _Atomic uint64_t *generation,
                      uint64_t read_at) {
  watched_begin(watched, generation);
  watched->expected = read_at;
  watched->knows_all = true;
  watched->revision = list->revision;
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = list->kvs[i];
    bool known;
    struct watched_key *entry = find(watched, kv->key, &known);
    if (entry) {
      entry->created = kv->create_revision;
      entry->modified = kv->mod_revision;
      entry->version = kv->version;
    }
  }
}

static void take_put(struct watched *watched, const struct weft_store_event *event) {
  const struct weft_store_kv *kv = event->kv;
  bool known;
  struct watched_key *entry = find(watched, kv->key, &known);
  if (!entry) {
    report(watched, "a key of nobody", event, NULL);
    return;
  }
  if (kv->mod_revision != event->revision || kv->mod_revision <= entry->modified)
    report(watched, "an event twice, or out of order", event, entry);
  if (known && entry->version == 0 && (kv->version != 1 || kv->create_revision != kv->mod_revision))
    report(watched, "an event of an absent key is missing", event, entry);
  if (known && entry->version > 0 && (kv->version != entry->version + 1 || kv->create_revision != entry->created))
    report(watched, "an event is missing", event, entry);
  entry->created = kv->create_revision;
  entry->modified = kv->mod_revision;
  entry->version = kv->version;
}

static void take_delete(struct watched *watched, const struct weft_store_event *event) {
  bool known;
  struct watched_key *entry = find(watched, event->kv->key, &known);
  if (!entry) {
    report(watched, "a key of nobody", event, NULL);
    return;
  }
  if (event->kv->mod_revision != event->revision || event->revision <= entry->modified)
    report(watched, "an event twice, or out of order", event, entry);
  if (known && entry->version == 0)
    report(watched, "an absent key was deleted", event, entry);
  entry->modified = event->revision;
  entry->version = 0;
}

static void take_change(struct watched *watched, const struct weft_store_event *event) {
  if (!watched->begun)
    report(watched, "an event before the watch is established", event, NULL);
  if (watched->lost)
    report(watched, "an event while the watch is lost", event, NULL);
  if (event->revision < watched->revision)
    report(watched, "a revision goes back", event, NULL);
  watched->revision = event->revision;
  if (event->kind == WEFT_STORE_EVENT_PUT)
    take_put(watched, event);
  else
    take_delete(watched, event);
  atomic_store(&watched->seen, event->revision);
}

static void take_state(struct watched *watched, const struct weft_store_event *event) {
  if (event->kind == WEFT_STORE_EVENT_LOST) {
    if (!watched->begun || watched->lost)
      report(watched, "lost what was not established", event, NULL);
    watched->lost = true;
    atomic_store(&watched->seen, 0);
    atomic_fetch_add(&watched->losses, 1);
    return;
  }
  if (event->kind == WEFT_STORE_EVENT_RESUMED && watched->begun && !watched->lost)
    report(watched, "resumed what was not lost", event, NULL);
  if (event->kind == WEFT_STORE_EVENT_RESET)
    atomic_fetch_add(&watched->resets, 1);
  // At its first stream a watch cannot know that the store is another one by now.
  bool other = !watched->begun && watched->knows_all && atomic_load(watched->generation) != watched->expected;
  if (event->kind == WEFT_STORE_EVENT_RESET || other)
    forget(watched);
  watched->begun = true;
  watched->lost = false;
  // After RESET the caller would read everything, in the state of at least this revision.
  atomic_store(&watched->seen, event->kind == WEFT_STORE_EVENT_RESET ? event->revision : watched->revision);
}

void watched_take(void *arg, const struct weft_store_event *event) {
  struct watched *watched = arg;
  if (atomic_load(&watched->closed))
    report(watched, "an event after the end", event, NULL);
  atomic_fetch_add(&watched->events, 1);
  if (event->kind == WEFT_STORE_EVENT_PUT || event->kind == WEFT_STORE_EVENT_DELETE)
    take_change(watched, event);
  else
    take_state(watched, event);
}
