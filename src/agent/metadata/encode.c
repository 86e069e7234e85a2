// Metadata to bytes.
#include "agent/metadata/blob.h"

#include "base/fail.h"
#include "base/wire/crc32c.h"
#include "base/wire/wire.h"
#include "secure/hmac.h"

uint32_t blob_checksum(const void *blob, size_t size) {
  static const uint8_t zeros[4];
  const uint8_t *bytes = blob;
  const size_t behind = BLOB_AT_CHECKSUM + sizeof zeros;
  uint32_t crc = crc32c(0, bytes, BLOB_AT_CHECKSUM);
  crc = crc32c(crc, zeros, sizeof zeros);
  return crc32c(crc, bytes + behind, size - behind);
}

int blob_seal(const void *blob, size_t size, const uint8_t key[SECRET_KEY_SIZE], uint8_t seal[HMAC_SIZE]) {
  static const uint8_t zeros[4];
  const uint8_t *bytes = blob;
  const size_t behind = BLOB_AT_CHECKSUM + sizeof zeros;
  const struct hmac_part parts[] = {{bytes, BLOB_AT_CHECKSUM}, {zeros, sizeof zeros}, {bytes + behind, size - behind}};
  return hmac_sha256(key, SECRET_KEY_SIZE, parts, 3, seal);
}

int agent_incarnation(const char *name, const uint8_t key[EXCHANGE_SIZE], uint64_t *incarnation) {
  static const char purpose[] = "weft incarnation 1";
  uint8_t digest[HMAC_SIZE];
  const struct hmac_part parts[] = {{purpose, sizeof purpose}, {name, strlen(name) + 1}, {key, EXCHANGE_SIZE}};
  int rc = secure_sha256(parts, 3, digest);
  struct wire_reader reader = {.bytes = digest, .size = sizeof digest};
  if (rc == 0)
    *incarnation = wire_take_number(&reader, 8);
  return rc;
}

static void put_name(struct wire_writer *writer, const char *name) {
  size_t size = strlen(name);
  wire_put_number(writer, size, 2);
  wire_put(writer, name, size);
}

// Starts a section; returns its place, for end_section().
static size_t begin_section(struct wire_writer *writer, enum blob_section section) {
  wire_put_number(writer, section, 2);
  wire_put_number(writer, 0, 2);
  wire_put_number(writer, 0, 4);
  return writer->at;
}

// Also ends a region, which has its length before it in the same way.
static void end_section(struct wire_writer *writer, size_t place) {
  wire_patch_number(writer, place - 4, writer->at - place, 4);
}

static void put_identity(struct wire_writer *writer, const struct agent_description *description) {
  size_t place = begin_section(writer, BLOB_IDENTITY);
  uint32_t flags = (description->complete ? BLOB_COMPLETE : 0u) | (description->all_regions ? BLOB_ALL_REGIONS : 0u);
  wire_put_number(writer, flags, 4);
  wire_put_number(writer, description->incarnation, 8);
  wire_put_number(writer, description->change, 8);
  wire_put_number(writer, description->pid_namespace, 8);
  wire_put_number(writer, description->start_ticks, 8);
  wire_put_number(writer, (uint32_t)description->pid, 4);
  wire_put_number(writer, description->heartbeat_ms, 4);
  put_name(writer, description->name);
  put_name(writer, description->host);
  wire_put(writer, description->key, sizeof description->key);
  end_section(writer, place);
}

static void put_transports(struct wire_writer *writer, const struct agent_description *description) {
  size_t place = begin_section(writer, BLOB_TRANSPORTS);
  wire_put_number(writer, description->num_transports, 4);
  for (uint32_t i = 0; i < description->num_transports; i++) {
    const struct agent_transport *transport = &description->transports[i];
    uint32_t size = description->complete ? transport->address_size : 0;
    put_name(writer, transport->name);
    wire_put_number(writer, size, 4);
    wire_put(writer, transport->address, size);
  }
  end_section(writer, place);
}

static void put_region(struct wire_writer *writer, const struct agent_region_description *region) {
  wire_put_number(writer, 0, 4);
  size_t place = writer->at;
  wire_put_number(writer, region->id, 8);
  wire_put_number(writer, region->address, 8);
  wire_put_number(writer, region->length, 8);
  wire_put_number(writer, (uint32_t)region->device, 4);
  wire_put_number(writer, region->kind, 2);
  wire_put_number(writer, region->read_only ? BLOB_READ_ONLY : 0, 2);
  wire_put_number(writer, region->num_keys, 2);
  for (uint32_t i = 0; i < region->num_keys; i++) {
    wire_put_number(writer, region->keys[i].transport, 2);
    wire_put_number(writer, region->keys[i].size, 4);
    wire_put(writer, region->keys[i].bytes, region->keys[i].size);
  }
  end_section(writer, place);
}

// Reserves room for the seal; its content is computed over all bytes before it.
static void put_seal(struct wire_writer *writer) {
  static const uint8_t room[HMAC_SIZE];
  size_t place = begin_section(writer, BLOB_SEAL);
  wire_put(writer, room, sizeof room);
  end_section(writer, place);
}

// Fills in the fields that depend on the whole blob.
static int complete(struct wire_writer *writer, const uint8_t *seal) {
  wire_patch_number(writer, BLOB_AT_SIZE, writer->at, 8);
  int rc = seal ? blob_seal(writer->bytes, writer->at - HMAC_SIZE, seal, writer->bytes + writer->at - HMAC_SIZE) : 0;
  if (rc == 0)
    wire_patch_number(writer, BLOB_AT_CHECKSUM, blob_checksum(writer->bytes, writer->at), 4);
  return rc;
}

int agent_blob_write(const struct agent_description *description, const uint8_t *seal, void *blob, size_t *size) {
  struct wire_writer writer = {.bytes = blob, .capacity = blob ? *size : 0};
  wire_put(&writer, BLOB_MAGIC, 8);
  wire_put_number(&writer, BLOB_VERSION, 2);
  wire_put_number(&writer, BLOB_MINIMUM_READER, 2);
  wire_put_number(&writer, 0, 4);
  wire_put_number(&writer, 0, 8);
  put_identity(&writer, description);
  put_transports(&writer, description);
  size_t place = begin_section(&writer, BLOB_REGIONS);
  wire_put_number(&writer, description->num_regions, 4);
  for (uint32_t i = 0; i < description->num_regions; i++)
    put_region(&writer, &description->regions[i]);
  end_section(&writer, place);
  if (seal)
    put_seal(&writer);
  *size = writer.at;
  if (writer.at > AGENT_MAX_BLOB || description->num_regions > AGENT_MAX_REGIONS)
    return fail(WEFT_ERR_LIMIT, "metadata of %u regions takes %zu bytes; at most %d and %d: name fewer of them",
                description->num_regions, writer.at, AGENT_MAX_REGIONS, AGENT_MAX_BLOB);
  if (writer.at > writer.capacity)
    return fail(WEFT_ERR_ROOM, "metadata takes %zu bytes, but there is room for %zu", writer.at, writer.capacity);
  return complete(&writer, seal);
}
