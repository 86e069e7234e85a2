// Checks the words that a peer on another host sends, and stores them.
#include "ep/remote/update.h"

#include <string.h>

#include "base/fail.h"

// Words of headers and flags have several types; the code that stores them here does not know the type.
typedef uint64_t __attribute__((may_alias)) word;

static bool is_in_head(size_t at) {
  return at == offsetof(struct ep_area_head, start.op_plus_1) || at == offsetof(struct ep_area_head, start.epoch);
}

// `at`: offset in a slot.
static bool is_flag(size_t at) {
  return at == offsetof(struct ep_slot_head, dispatch.flag) || at == offsetof(struct ep_slot_head, weights.flag) ||
         at == offsetof(struct ep_slot_head, combine.flag);
}
static bool is_header(size_t at) {
  return at >= offsetof(struct ep_slot_head, dispatch.active) &&
         at <= offsetof(struct ep_slot_head, dispatch.route_rows);
}
static bool is_taken(size_t at) {
  return at == offsetof(struct ep_slot_head, taken.dispatch) || at == offsetof(struct ep_slot_head, taken.combine);
}

// The word's offset in its slot; SIZE_MAX: it is in no slot.
static size_t in_slot(const struct ep_layout *layout, uint32_t offset) {
  for (uint64_t slot = 0; slot < EP_DEPTH; slot++) {
    size_t begin = sizeof(struct ep_area_head) + slot * layout->slot;
    if (offset >= begin && offset < begin + sizeof(struct ep_slot_head))
      return offset - begin;
  }
  return SIZE_MAX;
}

// Whether a peer may write that word.
static bool is_theirs(const struct ep_layout *layout, const struct ep_word *from) {
  size_t at = in_slot(layout, from->offset);
  bool aligned = from->offset % sizeof from->value == 0;
  if (from->place == EP_PLACE_AREA)
    return aligned && (is_flag(at) || is_header(at) || is_in_head(from->offset));
  if (from->place == EP_PLACE_SHADOW)
    return aligned && is_taken(at);
  return from->place == EP_PLACE_SIGN;
}

int ep_update_check(const struct ep_layout *layout, const void *bytes, size_t size, struct ep_update *out) {
  struct ep_update update = {0};
  size_t head = offsetof(struct ep_update, words);
  if (size < head || size > sizeof update)
    return fail(WEFT_ERR_PROTOCOL, "it sent a message of %zu bytes, a size that no message has", size);
  memcpy(&update, bytes, size);
  if (update.version != EP_LAYOUT_VERSION)
    return fail(WEFT_ERR_VERSION, "it sent a message of version %u, and ours is %u: use one version of Weft everywhere",
                update.version, EP_LAYOUT_VERSION);
  if (update.count > EP_WORDS || size != head + update.count * sizeof *update.words)
    return fail(WEFT_ERR_PROTOCOL, "it sent a message of %zu bytes that announces %u words", size, update.count);
  for (uint32_t i = 0; i < update.count; i++)
    if (!is_theirs(layout, &update.words[i]))
      return fail(WEFT_ERR_PROTOCOL, "it sent a word for place %u, offset %u, but it must not write there",
                  update.words[i].place, update.words[i].offset);
  *out = update;
  return 0;
}

static void store(void *area, const struct ep_word *from) {
  __atomic_store_n((word *)((char *)area + from->offset), from->value, __ATOMIC_RELEASE);
}

// Flags only increase.
static void raise(void *area, const struct ep_word *from) {
  word *to = (word *)((char *)area + from->offset);
  if (__atomic_load_n(to, __ATOMIC_RELAXED) < from->value)
    __atomic_store_n(to, from->value, __ATOMIC_RELEASE);
}

static uint64_t known_word(const void *area, size_t at) {
  return __atomic_load_n((const word *)((const char *)area + at), __ATOMIC_RELAXED);
}

// The word of the update for that place in the area's head; 0: none.
static uint64_t new_word(const struct ep_update *update, size_t at) {
  for (uint32_t i = 0; i < update->count; i++)
    if (update->words[i].place == EP_PLACE_AREA && update->words[i].offset == at)
      return update->words[i].value;
  return 0;
}

// Whether the update has no start, or one that is known or was replaced. A start that is published again is that of an
// earlier operation, and messages may overtake each other. The word of a rank that awaits its start is published again
// with a newer epoch or a later stage.
static bool is_old_start(const struct ep_update *update, const void *area) {
  const size_t at = offsetof(struct ep_area_head, start.op_plus_1), epoch = offsetof(struct ep_area_head, start.epoch);
  uint64_t start = new_word(update, at), known = known_word(area, at);
  if (start == 0 || known == 0)
    return start == 0;
  return start != EP_START_AWAITED || known != start ? known <= start
                                                     : new_word(update, epoch) <= known_word(area, epoch);
}

bool ep_update_store(const struct ep_update *update, const struct ep_layout *layout, void *area, void *shadow) {
  bool waits = false, old_start = is_old_start(update, area);
  for (uint32_t i = 0; i < update->count; i++) {
    const struct ep_word *from = &update->words[i];
    if (from->place == EP_PLACE_SIGN)
      waits = true;
    else if (from->place == EP_PLACE_SHADOW)
      raise(shadow, from);
    else if (is_flag(in_slot(layout, from->offset)))
      raise(area, from);
    else if (!old_start || !is_in_head(from->offset))
      store(area, from);
  }
  return waits;
}
