// The first packet of somebody who dials a rank: a right greeting, with the input's bytes laid over it by exclusive or,
// behind two bytes that tell how long the packet is. What is answered agrees in every size.
#include "ep/greeting.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { OWN_RANK = 3, PEER_RANK = 5, LONGER = 64 };

static struct weft_ep make_rank(int32_t rank) {
  struct weft_ep ep = {.rank = rank, .incarnation = 7, .capacity = 8, .experts_per_rank = 2, .dtype = WEFT_EP_FP8};
  ep_layout_init(&ep.layout, 16, 256, 4, ep.dtype, WEFT_EP_COMBINE_BF16);
  return ep;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct weft_ep own, peer;
  if (own.capacity == 0) {
    own = make_rank(OWN_RANK);
    peer = make_rank(PEER_RANK);
  }
  struct fuzz_input input = {(const char *)data, size};
  uint16_t shorter; // 0: the right length
  fuzz_bytes(&input, &shorter, sizeof shorter);
  const struct ep_greeting right = ep_greeting_make(&peer, EP_HELLO, own.incarnation);
  size_t length = sizeof right - shorter % sizeof right;
  if (shorter % 16 == 15)
    length = sizeof right + shorter / 16 % LONGER;
  uint8_t mask[sizeof right + LONGER], *packet = malloc(length); // of this very size, so that a read behind it shows
  fuzz_bytes(&input, mask, sizeof mask);
  bool changed = false;
  for (size_t i = 0; i < length; i++) {
    packet[i] = (i < sizeof right ? ((const uint8_t *)&right)[i] : 0) ^ mask[i];
    changed |= mask[i] != 0;
  }
  const struct ep_greeting *greeting = (const struct ep_greeting *)packet;
  if (ep_greeting_check(&own, greeting, length) == 0) {
    FUZZ_CHECK(length == sizeof right && memchr(greeting->why, '\0', sizeof greeting->why));
    FUZZ_CHECK(greeting->rank >= 0 && greeting->rank < (int32_t)own.capacity && greeting->rank != own.rank);
    FUZZ_CHECK(greeting->area_bytes == own.layout.area && greeting->topk == own.layout.topk);
    FUZZ_CHECK(greeting->max_tokens == own.layout.max_tokens && greeting->hidden == own.layout.hidden);
  } else {
    FUZZ_CHECK(changed || length != sizeof right);
  }
  free(packet);
  return 0;
}
