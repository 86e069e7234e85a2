// Applies puts and deletes to the store in memory.
#include "store/core/parts.h"

#include <stdlib.h>

struct core_node *core_change_put(struct core *core, struct core_record *record, struct core_lease *lease,
                                  struct core_node *spare) {
  struct core_node *node = core_keys_find(&core->keys, (struct core_bytes){record->data, record->key_size});
  struct core_record *prev = node ? node->record : NULL;
  record->mod_revision = core->revision + 1;
  record->create_revision = prev ? prev->create_revision : record->mod_revision;
  record->version = prev ? prev->version + 1 : 1;
  record->lease = lease ? lease->id : 0;
  core->live += core_record_cost(record) - (prev ? core_record_cost(prev) : 0);
  if (node) {
    node->record = record;
    core_lease_detach(node);
  } else {
    node = spare;
    spare = NULL;
    node->record = record;
    core_keys_insert(&core->keys, node);
  }
  core_lease_attach(lease, node);
  core_history_add(&core->history, (struct core_event){record->mod_revision, core_record_ref(record), prev});
  return spare;
}

void core_change_delete(struct core *core, struct core_node *node) {
  core_keys_remove(&core->keys, node);
  core->live -= core_record_cost(node->record);
  core_lease_detach(node);
  core_history_add(&core->history, (struct core_event){core->revision + 1, NULL, node->record});
  free(node);
}

// The revision just made stays whatever its size: watches at the tip shall get it.
static bool over_limits(const struct core *core) {
  const struct core_history *history = &core->history;
  return (history->end - history->first > core->limits.events || history->bytes > core->limits.bytes) &&
         core_history_at(history, history->first)->revision < core->revision;
}

void core_commit(struct core *core, uint64_t begin) {
  if (core->history.end == begin)
    return;
  core->revision++;
  core_watch_notify(core, begin);
  while (over_limits(core))
    core->oldest = core_history_drop(&core->history) + 1;
}
