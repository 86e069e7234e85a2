// Watches on the store in memory.
#include "store/core/parts.h"

#include <stdlib.h>

static bool matches(const struct core_watch *watch, const struct core_event *event) {
  const struct core_record *record = event->now ? event->now : event->prev;
  return event->revision >= watch->from && core_range_holds(&watch->range, record->data, record->key_size);
}

// Moves the watch on to the first event from its place on that it wants, or to the end.
static bool advance(const struct core *core, struct core_watch *watch) {
  while (watch->next < core->history.end && !matches(watch, core_history_at(&core->history, watch->next)))
    watch->next++;
  return watch->next < core->history.end;
}

void core_watch_add(struct core *core, struct core_watch *watch, int64_t from) {
  watch->from = from > 0 ? from : core->revision + 1;
  watch->older = core->watches;
  watch->newer = NULL;
  if (core->watches)
    core->watches->newer = watch;
  core->watches = watch;
  if (watch->from < core->oldest) { // to be found out when taking
    watch->next = 0;
    watch->pending = true;
    return;
  }
  watch->next = core_history_seek(&core->history, watch->from);
  watch->pending = advance(core, watch);
}

void core_watch_remove(struct core *core, struct core_watch *watch) {
  if (watch->newer)
    watch->newer->older = watch->older;
  else
    core->watches = watch->older;
  if (watch->older)
    watch->older->newer = watch->newer;
}

void core_watch_notify(struct core *core, uint64_t begin) {
  for (struct core_watch *watch = core->watches; watch; watch = watch->older) {
    if (watch->pending)
      continue;
    watch->next = begin;
    watch->pending = advance(core, watch);
    if (watch->pending)
      watch->wake(watch);
  }
}

static bool add(struct core_events *events, const struct core_event *event) {
  if (events->count == events->capacity) {
    size_t capacity = events->capacity ? 2 * events->capacity : 16;
    struct core_event *items = realloc(events->items, capacity * sizeof *items);
    if (!items)
      return false;
    events->items = items;
    events->capacity = capacity;
  }
  struct core_event *copy = &events->items[events->count++];
  *copy = *event;
  if (copy->now)
    core_record_ref(copy->now);
  if (copy->prev)
    core_record_ref(copy->prev);
  return true;
}

// Drops all but the first `count`.
static void truncate(struct core_events *events, size_t count) {
  while (events->count > count) {
    struct core_event *event = &events->items[--events->count];
    core_record_unref(event->now);
    core_record_unref(event->prev);
  }
}

void core_events_drop(struct core_events *events) {
  truncate(events, 0);
}

void core_events_clear(struct core_events *events) {
  truncate(events, 0);
  free(events->items);
  *events = (struct core_events){0};
}

static size_t size_of(const struct core_record *record) {
  return record ? record->key_size + record->value_size : 0;
}

enum core_status core_watch_take(struct core *core, struct core_watch *watch, size_t enough, struct core_events *out) {
  if (watch->pending && watch->next < core->history.first)
    return CORE_COMPACTED;
  size_t before = out->count, bytes = 0;
  uint64_t start = watch->next;
  int64_t revision = 0;
  for (; advance(core, watch); watch->next++) {
    const struct core_event *event = core_history_at(&core->history, watch->next);
    bool full = out->count - before >= enough || bytes >= CORE_BATCH_BYTES;
    if (full && event->revision != revision)
      break;
    revision = event->revision;
    bytes += size_of(event->now) + size_of(event->prev);
    if (!add(out, event)) {
      truncate(out, before);
      watch->next = start;
      return CORE_NO_MEMORY;
    }
  }
  watch->pending = watch->next < core->history.end;
  return CORE_OK;
}
