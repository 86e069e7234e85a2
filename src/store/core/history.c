// The history of changes, for watches and reads of the past, and its compaction.
#include "store/core/parts.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

struct core_event *core_history_at(const struct core_history *history, uint64_t number) {
  return &history->ring[number & (history->capacity - 1)];
}

bool core_history_reserve(struct core_history *history, size_t more) {
  size_t need = (size_t)(history->end - history->first) + more;
  if (need <= history->capacity)
    return true;
  struct core_history grown = *history;
  grown.capacity = history->capacity ? history->capacity : FIRST_CAPACITY;
  while (grown.capacity < need)
    grown.capacity *= 2;
  grown.ring = calloc(grown.capacity, sizeof *grown.ring);
  if (!grown.ring)
    return false;
  for (uint64_t number = history->first; number < history->end; number++)
    *core_history_at(&grown, number) = *core_history_at(history, number);
  free(history->ring);
  *history = grown;
  return true;
}

// The bytes that an event counts. The previous state is counted with the event that made it.
static size_t size_of(const struct core_event *event) {
  return event->now ? event->now->key_size + event->now->value_size : event->prev->key_size;
}

void core_history_add(struct core_history *history, struct core_event event) {
  history->bytes += size_of(&event);
  *core_history_at(history, history->end++) = event;
}

// The holder of a record's only reference may use its memory again, since nobody else can make a further reference.
static void drop_record(struct core_history *history, struct core_record *record) {
  bool ours = record && atomic_load_explicit(&record->refs, memory_order_acquire) == 1;
  if (ours && history->num_spares < CORE_SPARES)
    history->spares[history->num_spares++] = record;
  else
    core_record_unref(record);
}

int64_t core_history_drop(struct core_history *history) {
  int64_t revision = core_history_at(history, history->first)->revision;
  while (history->first < history->end) {
    struct core_event *event = core_history_at(history, history->first);
    if (event->revision != revision)
      break;
    history->bytes -= size_of(event);
    drop_record(history, event->now);
    drop_record(history, event->prev);
    history->first++;
  }
  return revision;
}

void core_history_free(struct core_history *history) {
  while (history->first < history->end)
    core_history_drop(history);
  while (history->num_spares > 0)
    core_record_unref(history->spares[--history->num_spares]);
  free(history->ring);
  *history = (struct core_history){0};
}

uint64_t core_history_seek(const struct core_history *history, int64_t revision) {
  uint64_t low = history->first, high = history->end;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (core_history_at(history, middle)->revision < revision)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
