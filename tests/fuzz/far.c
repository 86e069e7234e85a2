// The first packet of somebody on another host who calls a rank, and the first of what answers such a call: a right
// one, with the input's bytes laid over it by exclusive or. What is taken agrees in every size and comes from who it
// should.
//
// An input: a byte of choices, two of how long the packet is, then patches of two bytes of offset, one of length, and
// the bytes.
#include "ep/greeting.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { OWN_RANK = 3, PEER_RANK = 5, LONGER = 64, CHOICE_ANSWER = 1, CHOICE_REFUSED = 2, CHOICE_YIELD = 4 };

static struct weft_ep make_rank(int32_t rank) {
  struct weft_ep ep = {.rank = rank, .incarnation = 7, .capacity = 8, .experts_per_rank = 2, .dtype = WEFT_EP_FP8};
  ep_layout_init(&ep.layout, 16, 256, 4, ep.dtype, WEFT_EP_COMBINE_BF16);
  memset(ep.links.token, 0x5A, sizeof ep.links.token);
  return ep;
}

static struct ep_far_greeting make_right(const struct weft_ep *own, const struct weft_ep *peer, uint8_t choices) {
  enum ep_greeting_kind kind = EP_HELLO;
  if (choices & CHOICE_ANSWER)
    kind = choices & CHOICE_REFUSED ? EP_REFUSED : choices & CHOICE_YIELD ? EP_YIELD : EP_WELCOME;
  struct ep_far_greeting right = ep_far_greeting_make(peer, kind, own->incarnation);
  if (kind == EP_HELLO)
    memcpy(right.token, own->links.token, sizeof right.token);
  if (kind == EP_REFUSED)
    right.greeting.error = WEFT_ERR_AUTH;
  strcpy(right.transport, "ofi");
  right.address_size = 100;
  right.key_size = 50;
  return right;
}

static bool patch(uint8_t *packet, size_t size, struct fuzz_input *input) {
  bool changed = false;
  while (input->size > 0) {
    uint16_t offset;
    uint8_t length, mask[UINT8_MAX];
    fuzz_bytes(input, &offset, sizeof offset);
    fuzz_bytes(input, &length, sizeof length);
    fuzz_bytes(input, mask, length);
    for (size_t i = 0; i < length && offset % sizeof(struct ep_far_greeting) + i < size; i++) {
      packet[offset % sizeof(struct ep_far_greeting) + i] ^= mask[i];
      changed |= mask[i] != 0;
    }
  }
  return changed;
}

static void check_taken(const struct weft_ep *own, const struct ep_far_greeting *far, size_t size) {
  FUZZ_CHECK(size == sizeof *far && far->size == size && far->version == EP_LAYOUT_VERSION);
  FUZZ_CHECK(far->address_size <= sizeof far->address && far->key_size <= sizeof far->key);
  FUZZ_CHECK(memchr(far->transport, '\0', sizeof far->transport));
  FUZZ_CHECK(far->greeting.rank >= 0 && far->greeting.rank < (int32_t)own->capacity && far->greeting.rank != own->rank);
  FUZZ_CHECK(far->greeting.area_bytes == own->layout.area);
}

static void check_hello(const struct weft_ep *own, const struct ep_far_greeting *hello, size_t size, bool changed) {
  bool known = false;
  int rc = ep_far_hello_check(own, hello, size, &known);
  if (rc != 0) {
    FUZZ_CHECK(changed || size != sizeof *hello);
    FUZZ_CHECK(known || size < offsetof(struct ep_far_greeting, greeting) || changed);
    return;
  }
  check_taken(own, hello, size);
  FUZZ_CHECK(known && memcmp(hello->token, own->links.token, sizeof hello->token) == 0);
  FUZZ_CHECK(hello->greeting.kind == EP_HELLO && hello->greeting.to == own->incarnation);
}

static void check_answer(const struct weft_ep *own, const struct weft_ep *peer, const struct ep_far_greeting *answer,
                         size_t size, bool changed) {
  bool yield = true;
  int rc = ep_far_answer_check(own, answer, size, peer->rank, peer->incarnation, &yield);
  if (rc != 0) {
    FUZZ_CHECK(!yield && rc <= WEFT_ERR_INVALID && rc >= WEFT_ERR_COMPACTED);
    for (const char *at = weft_last_error(); *at; at++)
      FUZZ_CHECK((unsigned char)*at >= ' ');
    FUZZ_CHECK(changed || size != sizeof *answer || answer->greeting.kind == EP_REFUSED);
    return;
  }
  check_taken(own, answer, size);
  FUZZ_CHECK(answer->greeting.rank == peer->rank && answer->greeting.incarnation == peer->incarnation);
  FUZZ_CHECK(answer->greeting.kind == (yield ? EP_YIELD : EP_WELCOME));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct weft_ep own, peer;
  if (own.capacity == 0) {
    own = make_rank(OWN_RANK);
    peer = make_rank(PEER_RANK);
  }
  struct fuzz_input input = {(const char *)data, size};
  uint8_t choices;
  uint16_t shorter; // 0: the right length
  fuzz_bytes(&input, &choices, sizeof choices);
  fuzz_bytes(&input, &shorter, sizeof shorter);
  const struct ep_far_greeting right = make_right(&own, &peer, choices);
  size_t length = sizeof right - shorter % sizeof right;
  if (shorter % 16 == 15)
    length = sizeof right + shorter / 16 % LONGER;
  uint8_t *packet = calloc(1, length); // of this very size, so that a read behind it shows
  memcpy(packet, &right, length < sizeof right ? length : sizeof right);
  bool changed = patch(packet, length, &input);
  if (choices & CHOICE_ANSWER)
    check_answer(&own, &peer, (struct ep_far_greeting *)packet, length, changed);
  else
    check_hello(&own, (struct ep_far_greeting *)packet, length, changed);
  free(packet);
  return 0;
}
