// An agent's metadata from somebody else: unchanged; with the size and the checksum of its head corrected, so that the
// data behind them is reached; and sealed with the secret. Accepted metadata keeps its meaning when it is encoded
// again. An agent that requires a seal accepts only metadata sealed with its own key.
#include "agent/metadata/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/wire/wire.h"
#include "fuzz/support/fuzz.h"

static void check_regions(const struct agent_description *description) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < description->num_regions; i++) {
    const struct agent_region_description *region = &description->regions[i];
    FUZZ_CHECK(region->id > last && region->kind < TRANSPORT_KINDS && region->num_keys <= AGENT_MAX_TRANSPORTS);
    FUZZ_CHECK(region->address + region->length >= region->address);
    last = region->id;
    for (uint32_t j = 0; j < region->num_keys; j++)
      FUZZ_CHECK(region->keys[j].transport < description->num_transports && region->keys[j].size <= TRANSPORT_MAX_KEY);
  }
}

// A string would bring a NUL too many.
static const uint8_t key[SECRET_KEY_SIZE] = {'t', 'h', 'e', ' ', 'k', 'e', 'y', ' ', 't', 'h', 'a',
                                             't', ' ', 'a', 'l', 'l', ' ', 's', 'h', 'a', 'r', 'e',
                                             ',', ' ', '3', '2', ' ', 'b', 'y', 't', 'e', 's'};

// `seal`: the key that is asked for; NULL: none is.
static void check(const void *blob, size_t size, const uint8_t *seal) {
  struct agent_description *description = NULL, *again = NULL;
  if (agent_blob_read(blob, size, seal, &description) != 0) {
    FUZZ_CHECK(!description);
    return;
  }
  FUZZ_CHECK(*description->name && memchr(description->name, '\0', sizeof description->name));
  FUZZ_CHECK(memchr(description->host, '\0', sizeof description->host));
  FUZZ_CHECK(description->num_transports <= AGENT_MAX_TRANSPORTS && description->num_regions <= size);
  check_regions(description);
  size_t need = 0;
  FUZZ_CHECK(agent_blob_write(description, seal, NULL, &need) == WEFT_ERR_ROOM && need <= size);
  uint8_t *written = malloc(need), *twice = malloc(need);
  FUZZ_CHECK(agent_blob_write(description, seal, written, &need) == 0);
  FUZZ_CHECK(agent_blob_read(written, need, seal, &again) == 0);
  FUZZ_CHECK(agent_blob_write(again, seal, twice, &need) == 0 && memcmp(written, twice, need) == 0);
  free(written);
  free(twice);
  free(description);
  free(again);
}

// With a right seal behind it, and with one bit of that changed.
static void check_sealed(const uint8_t *data, size_t size) {
  size_t whole = size + BLOB_SEAL_WHOLE;
  uint8_t *blob = malloc(whole);
  memcpy(blob, data, size);
  struct wire_writer writer = {.bytes = blob, .capacity = whole, .at = size};
  wire_put_number(&writer, BLOB_SEAL, 2);
  wire_put_number(&writer, 0, 2);
  wire_put_number(&writer, HMAC_SIZE, 4);
  wire_patch_number(&writer, BLOB_AT_SIZE, whole, 8);
  FUZZ_CHECK(blob_seal(blob, writer.at, key, blob + writer.at) == 0);
  wire_patch_number(&writer, BLOB_AT_CHECKSUM, blob_checksum(blob, whole), 4);
  check(blob, whole, key);
  struct agent_description *none = NULL;
  blob[whole - 1 - size % HMAC_SIZE] ^= (uint8_t)(1u << size % 8);
  wire_patch_number(&writer, BLOB_AT_CHECKSUM, blob_checksum(blob, whole), 4);
  FUZZ_CHECK(agent_blob_read(blob, whole, key, &none) != 0 && !none);
  free(blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct agent_description *none = NULL;
  check(data, size, NULL);
  FUZZ_CHECK(agent_blob_read(data, size, key, &none) != 0);
  if (size < AGENT_BLOB_HEAD)
    return 0;
  uint8_t *sealed = malloc(size);
  memcpy(sealed, data, size);
  struct wire_writer writer = {.bytes = sealed, .capacity = size};
  wire_patch_number(&writer, BLOB_AT_SIZE, size, 8);
  wire_patch_number(&writer, BLOB_AT_CHECKSUM, blob_checksum(sealed, size), 4);
  check(sealed, size, NULL);
  free(sealed);
  check_sealed(data, size);
  return 0;
}
