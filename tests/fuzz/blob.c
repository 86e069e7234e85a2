// An agent's metadata from somebody else: as it is, and with the size and the checksum of its head made right, so that
// what stands behind them is reached. What is taken can be written again and means the same.
#include "agent/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "fuzz.h"

static void check_regions(const struct agent_description *description) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < description->num_regions; i++) {
    const struct agent_region_description *region = &description->regions[i];
    FUZZ_CHECK(region->id > last && region->kind < WEFT_MEMORY_KINDS && region->num_keys <= AGENT_MAX_TRANSPORTS);
    FUZZ_CHECK(region->address + region->length >= region->address);
    last = region->id;
    for (uint32_t j = 0; j < region->num_keys; j++)
      FUZZ_CHECK(region->keys[j].transport < description->num_transports && region->keys[j].size <= TRANSPORT_MAX_KEY);
  }
}

static void check(const void *blob, size_t size) {
  struct agent_description *description = NULL, *again = NULL;
  if (agent_blob_read(blob, size, &description) != 0) {
    FUZZ_CHECK(!description);
    return;
  }
  FUZZ_CHECK(*description->name && memchr(description->name, '\0', sizeof description->name));
  FUZZ_CHECK(memchr(description->host, '\0', sizeof description->host));
  FUZZ_CHECK(description->num_transports <= AGENT_MAX_TRANSPORTS && description->num_regions <= size);
  check_regions(description);
  size_t need = 0;
  FUZZ_CHECK(agent_blob_write(description, NULL, &need) == WEFT_ERR_LIMIT && need <= size);
  uint8_t *written = malloc(need), *twice = malloc(need);
  FUZZ_CHECK(agent_blob_write(description, written, &need) == 0);
  FUZZ_CHECK(agent_blob_read(written, need, &again) == 0);
  FUZZ_CHECK(agent_blob_write(again, twice, &need) == 0 && memcmp(written, twice, need) == 0);
  free(written);
  free(twice);
  free(description);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check(data, size);
  if (size < AGENT_BLOB_HEAD)
    return 0;
  uint8_t *sealed = malloc(size);
  memcpy(sealed, data, size);
  struct wire_writer writer = {.bytes = sealed, .capacity = size};
  wire_patch_number(&writer, BLOB_AT_SIZE, size, 8);
  wire_patch_number(&writer, BLOB_AT_CHECKSUM, blob_checksum(sealed, size), 4);
  check(sealed, size);
  free(sealed);
  return 0;
}
