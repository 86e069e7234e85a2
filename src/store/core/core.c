// Opens and closes the store in memory.
#include "store/core/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct core *core_create(struct core_limits limits) {
  struct core *core = calloc(1, sizeof *core);
  if (!core)
    return NULL;
  core->limits = limits;
  core->revision = 1; // etcd's, of an empty store
  core->oldest = 1;
  if (!core_keys_init(&core->keys)) {
    free(core);
    return NULL;
  }
  return core;
}

void core_free(struct core *core) {
  if (!core)
    return;
  assert(!core->watches);
  for (size_t i = 0; i < core->num_leases; i++)
    free(core->leases[i]);
  free(core->leases);
  core_history_free(&core->history);
  core_keys_free(&core->keys);
  free(core);
}

void core_forget_watches(struct core *core) {
  core->watches = NULL;
}

int64_t core_revision(const struct core *core) {
  return core->revision;
}
size_t core_count(const struct core *core) {
  return core->keys.count;
}
int64_t core_oldest_revision(const struct core *core) {
  return core->oldest;
}

// A spare record with so much room, and not much more.
static struct core_record *take_spare(struct core_history *history, size_t room) {
  for (size_t i = 0; i < history->num_spares; i++) {
    struct core_record *spare = history->spares[i];
    if (spare->room < room || spare->room > 2 * room + 64)
      continue;
    history->spares[i] = history->spares[--history->num_spares];
    return spare;
  }
  return NULL;
}

struct core_record *core_record_create(struct core *core, struct core_bytes key, struct core_bytes value) {
  size_t room = key.size + value.size + 2;
  struct core_record *record = take_spare(&core->history, room);
  if (record)
    room = record->room;
  else if (!(record = malloc(sizeof *record + room)))
    return NULL;
  *record = (struct core_record){.refs = 1, .key_size = key.size, .value_size = value.size, .room = room};
  char *place = record->data;
  memcpy(place, key.data, key.size);
  place += key.size;
  *place++ = '\0';
  if (value.size > 0)
    memcpy(place, value.data, value.size);
  place[value.size] = '\0';
  return record;
}

struct core_record *core_record_ref(struct core_record *record) {
  atomic_fetch_add_explicit(&record->refs, 1, memory_order_relaxed);
  return record;
}

void core_record_unref(struct core_record *record) {
  if (record && atomic_fetch_sub_explicit(&record->refs, 1, memory_order_acq_rel) == 1)
    free(record);
}

void core_records_free(struct core_record **records, size_t count) {
  for (size_t i = 0; i < count; i++)
    core_record_unref(records[i]);
  free(records);
}
