// Keys and values of a group, as any client that can write to the store may have put them. The first line names the
// kind of the second: "view", "claim", "offer", "incarnation" or "key". Accepted data keeps its meaning when it is
// encoded again.
#include "group/codec.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"
#include "group/view.h"

enum { CAPACITY = 64 };

static const char prefix[] = "/weft/g/";

// A blank behind JSON changes nothing: what is read the fast way, being as written by us, is read the same as any JSON.
static void decode_spaced(const char *value, size_t size, const struct group_view *view) {
  struct group_view *spaced = NULL;
  char *text = malloc(size + 1);
  memcpy(text, value, size);
  text[size] = ' ';
  int err = group_view_decode(text, size + 1, CAPACITY, &spaced);
  FUZZ_CHECK(view ? err == 0 && group_view_equal(view, spaced) : err != 0);
  group_view_unref(spaced);
  free(text);
}

static void decode_view(const char *value, size_t size) {
  struct group_view *view = NULL, *again;
  int err = group_view_decode(value, size, CAPACITY, &view);
  decode_spaced(value, size, view);
  if (err != 0) {
    FUZZ_CHECK(!view);
    return;
  }
  FUZZ_CHECK(view->epoch > 0 && view->count <= CAPACITY);
  for (uint32_t i = 0; i < view->count; i++) {
    FUZZ_CHECK(view->members[i].rank >= 0 && view->members[i].rank < CAPACITY && view->members[i].incarnation != 0);
    FUZZ_CHECK(i == 0 || view->members[i].rank > view->members[i - 1].rank);
  }
  char *text = group_view_encode(view);
  FUZZ_CHECK(text && group_view_decode(text, strlen(text), CAPACITY, &again) == 0 && group_view_equal(view, again));
  free(text);
  group_view_unref(view);
  group_view_unref(again);
}

static void decode_claim(const char *value, size_t size) {
  uint64_t incarnation = 0, incarnation_again;
  char *address = NULL, *address_again;
  if (group_claim_decode(value, size, &incarnation, &address) != 0) {
    FUZZ_CHECK(incarnation == 0 && !address);
    return;
  }
  FUZZ_CHECK(incarnation != 0 && strlen(address) < GROUP_ADDRESS_SIZE);
  char *text = group_claim_encode(incarnation, address);
  FUZZ_CHECK(text && group_claim_decode(text, strlen(text), &incarnation_again, &address_again) == 0);
  FUZZ_CHECK(incarnation == incarnation_again && strcmp(address, address_again) == 0);
  free(text);
  free(address);
  free(address_again);
}

static void decode_offer(const char *value, size_t size) {
  uint64_t incarnation = 0, incarnation_again;
  enum group_offer_stage stage = GROUP_OFFER_NONE, stage_again;
  if (group_offer_decode(value, size, &incarnation, &stage) != 0) {
    FUZZ_CHECK(incarnation == 0 && stage == GROUP_OFFER_NONE);
    return;
  }
  FUZZ_CHECK(incarnation != 0 && stage > GROUP_OFFER_NONE && stage <= GROUP_OFFER_TAKEN);
  char *text = group_offer_encode(incarnation, stage);
  FUZZ_CHECK(text && group_offer_decode(text, strlen(text), &incarnation_again, &stage_again) == 0);
  FUZZ_CHECK(incarnation == incarnation_again && stage == stage_again);
  free(text);
}

static void decode_incarnation(const char *value, size_t size) {
  uint64_t incarnation = 0;
  if (group_incarnation_decode(value, size, &incarnation) != 0) {
    FUZZ_CHECK(incarnation == 0);
    return;
  }
  char *text = group_incarnation_encode(incarnation);
  FUZZ_CHECK(text && strlen(text) == size && memcmp(text, value, size) == 0);
  free(text);
}

static void parse_key(const char *key) {
  struct group_key parsed = group_key_parse(prefix, CAPACITY, key);
  char *again = NULL, *name;
  switch (parsed.kind) {
  case GROUP_KEY_OTHER:
    return;
  case GROUP_KEY_VIEW:
    again = group_key_view(prefix);
    break;
  case GROUP_KEY_CLAIM:
    again = group_key_claim(prefix, parsed.rank);
    break;
  case GROUP_KEY_OFFER:
    again = group_key_offer(prefix, parsed.rank);
    break;
  case GROUP_KEY_TICKET:
    again = group_key_ticket(prefix, parsed.incarnation);
    break;
  case GROUP_KEY_BARRIER:
    name = strndup(parsed.name, parsed.name_length);
    again = group_key_barrier(prefix, name, parsed.rank);
    free(name);
    break;
  }
  FUZZ_CHECK(again && strcmp(key, again) == 0);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  char *what = fuzz_line(&input, NULL);
  if (!what)
    return 0;
  char *value = malloc(input.size + 1); // of this very size, so that a read behind it shows
  memcpy(value, input.data, input.size);
  value[input.size] = '\0';
  if (*what == 'k')
    parse_key(value);
  value = realloc(value, input.size ? input.size : 1);
  if (*what == 'v')
    decode_view(value, input.size);
  else if (*what == 'c')
    decode_claim(value, input.size);
  else if (*what == 'o')
    decode_offer(value, input.size);
  else if (*what == 'i')
    decode_incarnation(value, input.size);
  free(value);
  free(what);
  return 0;
}
