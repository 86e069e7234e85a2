// Messages of peers on other hosts: the words that they would have stored themselves on this one.
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "ep/proxy.h"
#include "ep/publish.h"

// Words of headers and flags are of several types; what stores them here does not know which.
typedef uint64_t __attribute__((may_alias)) word;

static bool is_in_head(size_t at) {
  return at == offsetof(struct ep_area_head, start.op_plus_1) || at == offsetof(struct ep_area_head, start.epoch);
}

// `at` is from the beginning of a slot.
static bool is_flag(size_t at) {
  return at == offsetof(struct ep_slot_head, dispatch.flag) || at == offsetof(struct ep_slot_head, weights.flag) ||
         at == offsetof(struct ep_slot_head, combine.flag);
}
static bool is_header(size_t at) {
  return at >= offsetof(struct ep_slot_head, dispatch.active) && at <= offsetof(struct ep_slot_head, dispatch.count);
}
static bool is_taken(size_t at) {
  return at == offsetof(struct ep_slot_head, taken.dispatch) || at == offsetof(struct ep_slot_head, taken.combine);
}

static void store(void *area, const struct ep_word *from) {
  __atomic_store_n((word *)((char *)area + from->offset), from->value, __ATOMIC_RELEASE);
}

// Flags are only ever raised.
static void raise(void *area, const struct ep_word *from) {
  word *to = (word *)((char *)area + from->offset);
  if (__atomic_load_n(to, __ATOMIC_RELAXED) < from->value)
    __atomic_store_n(to, from->value, __ATOMIC_RELEASE);
}

// Where in its slot the word lies; SIZE_MAX: in none.
static size_t in_slot(const struct ep_layout *layout, uint32_t offset) {
  for (uint64_t slot = 0; slot < WEFT_EP_DEPTH; slot++) {
    size_t begin = sizeof(struct ep_area_head) + slot * layout->slot;
    if (offset >= begin && offset < begin + sizeof(struct ep_slot_head))
      return offset - begin;
  }
  return SIZE_MAX;
}

// Stores one word. False: the peer must not write there.
static bool take_word(struct ep_remote *remote, const struct ep_word *from) {
  struct ep_link *link = remote->link;
  size_t at = in_slot(&remote->ep->layout, from->offset);
  bool aligned = from->offset % sizeof from->value == 0;
  if (from->place == EP_PLACE_SIGN) {
    atomic_store_explicit(&ep_link_bell(link)->waiting_ns, clock_ns(), memory_order_relaxed);
    return true;
  }
  if (from->place == EP_PLACE_SHADOW && aligned && is_taken(at))
    raise(link->out.memory, from);
  else if (from->place == EP_PLACE_AREA && aligned && is_flag(at))
    raise(link->in.memory, from);
  else if (from->place == EP_PLACE_AREA && aligned && (is_header(at) || is_in_head(from->offset)))
    store(link->in.memory, from);
  else
    return false;
  return true;
}

void ep_remote_hear(struct ep_net *net, const void *bytes, size_t size) {
  struct ep_note note = {0};
  size_t head = offsetof(struct ep_note, words);
  if (size < head || size > sizeof note)
    return;
  memcpy(&note, bytes, size);
  struct ep_remote *remote = ep_remote_find(net, note.link);
  if (!remote || ep_remote_failed(remote)) // late: the link has been let go of
    return;
  atomic_fetch_add(&remote->heard, 1);
  if (remote->proxy) {
    ep_proxy_hear(remote, bytes, size);
    return;
  }
  bool right = note.version == EP_LAYOUT_VERSION && size == head + (size_t)note.count * sizeof *note.words;
  for (uint32_t i = 0; right && i < note.count; i++)
    right = take_word(remote, &note.words[i]);
  if (!right)
    ep_remote_fail(remote, WEFT_ERR_PROTOCOL, "it sent a message that is none");
  ep_doorbell_ring(ep_own_bell(remote->ep));
}
