// A worker address of UCX, or behind the letter k, or g for a GPU's memory, a key, as a peer sends them. The checks get
// them in a buffer of exactly their size, so that a read beyond the end is detected. An accepted address ends exactly
// at its end.
#include "transport/ucx/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"

// This side has TCP and UCX's own memory, as UCX 1.13 writes them.
static struct ucx_sizes own_sizes(void) {
  struct ucx_sizes sizes = {.count = 2};
  sizes.of[0].transport = ucx_transport_sum("tcp");
  sizes.of[0].device = 6;
  sizes.of[0].interface = 2;
  sizes.of[1].transport = ucx_transport_sum("self");
  sizes.of[1].interface = 8;
  return sizes;
}

static int check(const void *bytes, size_t size) {
  const struct ucx_sizes own = own_sizes();
  return ucx_address_check(bytes, size, &own);
}

// Cut anywhere, or with a byte more, it is another address.
static void check_ends(const uint8_t *bytes, size_t size) {
  for (size_t cut = 0; cut < size; cut++) {
    uint8_t *part = malloc(cut ? cut : 1);
    memcpy(part, bytes, cut);
    FUZZ_CHECK(check(part, cut) != 0);
    free(part);
  }
  uint8_t *longer = calloc(1, size + 1);
  memcpy(longer, bytes, size);
  FUZZ_CHECK(check(longer, size + 1) != 0);
  free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  bool key = data[0] == 'k' || data[0] == 'g';
  struct ucx_sizes learned;
  uint8_t *bytes = malloc(size > 1 ? size - 1 : 1);
  memcpy(bytes, data + 1, size - 1);
  if (key)
    ucx_rkey_check(bytes, size - 1, data[0] == 'g');
  else if (check(bytes, size - 1) == 0)
    check_ends(bytes, size - 1);
  if (!key && ucx_address_learn(bytes, size - 1, &learned) == 0)
    FUZZ_CHECK(learned.count > 0 && learned.count <= UCX_MOST_ENTRIES);
  free(bytes);
  return 0;
}
