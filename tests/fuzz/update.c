// A message of a peer on another host. An accepted message writes only words of heads that the peer may write; nothing
// is known of messages that are refused. An input is the message.
#include "ep/remote/update.h"

#include <stdlib.h>
#include <string.h>
#include <weft/ep.h>

#include "fuzz/support/fuzz.h"

enum { TOKENS = 4, HIDDEN = 128, TOPK = 2, FILL = 0x33 };

// Whether a peer may write the word at `offset`: coded again from the comment of the layout.
static bool may_change(const struct ep_layout *layout, size_t offset, bool shadow) {
  if (offset < sizeof(struct ep_area_head))
    return !shadow && offset < 2 * sizeof(uint64_t); // start
  size_t at = (offset - sizeof(struct ep_area_head)) % layout->slot;
  size_t line = at / EP_LINE, in_line = at % EP_LINE;
  if ((offset - sizeof(struct ep_area_head)) / layout->slot >= EP_DEPTH)
    return false;
  if (shadow)
    return line == 3 && in_line < 2 * sizeof(uint64_t); // taken
  return line == 0 || ((line == 1 || line == 2) && in_line < sizeof(uint64_t));
}

static void check(const struct ep_layout *layout, const uint8_t *bytes, bool shadow) {
  for (size_t i = 0; i < layout->area; i++)
    FUZZ_CHECK(bytes[i] == FILL || may_change(layout, i, shadow));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct ep_layout layout;
  static uint8_t *area, *shadow; // of this very size, so that a store behind them shows
  if (!area) {
    ep_layout_init(&layout, TOKENS, HIDDEN, TOPK, WEFT_EP_BF16, WEFT_EP_COMBINE_BF16);
    area = aligned_alloc(EP_PAGE, layout.area);
    shadow = aligned_alloc(EP_PAGE, layout.area);
    FUZZ_CHECK(area && shadow);
  }
  memset(area, FILL, layout.area);
  memset(shadow, FILL, layout.area);
  uint8_t *bytes = malloc(size);
  memcpy(bytes, data, size);
  struct ep_update note;
  memset(&note, FILL, sizeof note);
  if (ep_update_check(&layout, bytes, size, &note) != 0) {
    FUZZ_CHECK(fuzz_untouched(&note, FILL, sizeof note));
  } else {
    FUZZ_CHECK(note.count <= EP_WORDS);
    ep_update_store(&note, &layout, area, shadow);
    check(&layout, area, false);
    check(&layout, shadow, true);
  }
  free(bytes);
  return 0;
}
