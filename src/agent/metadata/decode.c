// Decodes metadata. The sender is not trusted: every count is checked against the number of bytes before anything is
// allocated for it, and if a seal is required, it is checked before anything behind the head is read.
#include "agent/metadata/blob.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/wire/wire.h"

enum {
  REGION_LEAST = 38, // bytes of a region without keys, its length included
  KEY_LEAST = 6,
};

// The result of decoding a blob: one allocation. The blob's bytes are at its end; keys and addresses point into them.
struct blob_reading {
  struct agent_description *description;
  struct agent_region_description *regions;
  struct agent_key *keys; // the next free one
};

static bool is_name(const char *name, size_t size) {
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
      return false;
  return true;
}

static int take_name(struct wire_reader *reader, const char *what, char *out, size_t capacity) {
  size_t size = wire_take_number(reader, 2);
  const char *name = wire_take(reader, size);
  if (!name)
    return fail(WEFT_ERR_PROTOCOL, "metadata ends within %s", what);
  if (size >= capacity || !is_name(name, size))
    return fail(WEFT_ERR_PROTOCOL, "metadata has %s of %zu bytes: want text of at most %zu", what, size, capacity - 1);
  memcpy(out, name, size);
  out[size] = '\0';
  return 0;
}

static int read_identity(struct wire_reader *reader, struct agent_description *description) {
  uint64_t flags = wire_take_number(reader, 4);
  description->complete = flags & BLOB_COMPLETE;
  description->all_regions = flags & BLOB_ALL_REGIONS;
  description->incarnation = wire_take_number(reader, 8);
  description->change = wire_take_number(reader, 8);
  description->pid_namespace = wire_take_number(reader, 8);
  description->start_ticks = wire_take_number(reader, 8);
  description->pid = (int32_t)wire_take_number(reader, 4);
  description->heartbeat_ms = (uint32_t)wire_take_number(reader, 4);
  int err = take_name(reader, "the agent's name", description->name, sizeof description->name);
  if (!err)
    err = take_name(reader, "the host's name", description->host, sizeof description->host);
  const void *key = wire_take(reader, sizeof description->key);
  if (!err && !key)
    err = fail(WEFT_ERR_PROTOCOL, "metadata of agent %s ends within its key", description->name);
  if (!err)
    memcpy(description->key, key, sizeof description->key);
  if (!err && !*description->name)
    err = fail(WEFT_ERR_PROTOCOL, "metadata of an agent without a name");
  if (!err && (description->incarnation == 0 || description->incarnation == WEFT_PEER_SELF))
    err = fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has an invalid incarnation", description->name);
  return err;
}

static int read_transport(struct wire_reader *reader, struct agent_description *description, uint32_t place) {
  struct agent_transport *transport = &description->transports[place];
  int err = take_name(reader, "a transport's name", transport->name, sizeof transport->name);
  if (err)
    return err;
  for (uint32_t i = 0; i < place; i++)
    if (strcmp(transport->name, description->transports[i].name) == 0)
      return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s names the transport %s twice", description->name,
                  transport->name);
  transport->address_size = (uint32_t)wire_take_number(reader, 4);
  transport->address = wire_take(reader, transport->address_size);
  if (!transport->address)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s ends within its address of %s", description->name,
                transport->name);
  if (transport->address_size > TRANSPORT_MAX_ADDRESS || (transport->address_size > 0 && !description->complete))
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has %u bytes for its address of %s", description->name,
                transport->address_size, transport->name);
  if (transport->address_size == 0)
    transport->address = NULL;
  return *transport->name ? 0 : fail(WEFT_ERR_PROTOCOL, "metadata of agent %s names no transport", description->name);
}

static int read_transports(struct wire_reader *reader, struct agent_description *description) {
  uint64_t count = wire_take_number(reader, 4);
  if (reader->failed || count > AGENT_MAX_TRANSPORTS)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has %" PRIu64 " transports: at most %d", description->name,
                count, AGENT_MAX_TRANSPORTS);
  int err = 0;
  for (uint32_t i = 0; i < count && !err; i++)
    err = read_transport(reader, description, i);
  description->num_transports = (uint32_t)count;
  return err;
}

static int read_key(struct wire_reader *reader, const struct agent_description *description,
                    const struct agent_key *last, struct agent_key *key) {
  key->transport = (uint32_t)wire_take_number(reader, 2);
  key->size = (uint32_t)wire_take_number(reader, 4);
  key->bytes = wire_take(reader, key->size);
  if (!key->bytes)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s ends within a key", description->name);
  if (key->transport >= description->num_transports || (last && key->transport <= last->transport))
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has a key for transport %u of %u, in the wrong place",
                description->name, key->transport, description->num_transports);
  if (key->size > TRANSPORT_MAX_KEY)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has a key of %u bytes: at most %d", description->name,
                key->size, TRANSPORT_MAX_KEY);
  return 0;
}

static int check_region(const struct agent_description *description, const struct agent_region_description *region,
                        uint64_t last_id, uint64_t kind) {
  if (region->id <= last_id)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s has region %" PRIu64 " after %" PRIu64, description->name,
                region->id, last_id);
  if (kind >= TRANSPORT_KINDS)
    return fail(WEFT_ERR_PROTOCOL, "region %" PRIu64 " of agent %s is of kind %" PRIu64 ", which does not exist",
                region->id, description->name, kind);
  if (region->length > UINT64_MAX - region->address)
    return fail(WEFT_ERR_PROTOCOL, "region %" PRIu64 " of agent %s goes past the end of all addresses", region->id,
                description->name);
  return 0;
}

static int read_region(struct wire_reader *all, struct blob_reading *reading, uint64_t last_id,
                       struct agent_region_description *region) {
  struct wire_reader reader = wire_take_part(all, wire_take_number(all, 4));
  region->id = wire_take_number(&reader, 8);
  region->address = wire_take_number(&reader, 8);
  region->length = wire_take_number(&reader, 8);
  region->device = (int32_t)wire_take_number(&reader, 4);
  uint64_t kind = wire_take_number(&reader, 2);
  region->kind = (enum weft_memory_kind)kind;
  region->read_only = wire_take_number(&reader, 2) & BLOB_READ_ONLY;
  region->num_keys = (uint32_t)wire_take_number(&reader, 2);
  if (reader.failed)
    return fail(WEFT_ERR_PROTOCOL, "metadata of agent %s ends within a region", reading->description->name);
  int err = check_region(reading->description, region, last_id, kind);
  struct agent_key *keys = reading->keys;
  region->keys = keys;
  for (uint32_t i = 0; i < region->num_keys && !err; i++)
    err = read_key(&reader, reading->description, i > 0 ? &keys[i - 1] : NULL, &keys[i]);
  reading->keys += region->num_keys;
  return err;
}

static int read_regions(struct wire_reader *reader, struct blob_reading *reading) {
  struct agent_description *description = reading->description;
  description->regions = reading->regions;
  description->num_regions = (uint32_t)wire_take_number(reader, 4);
  int err = 0;
  uint64_t last_id = 0;
  for (uint32_t i = 0; i < description->num_regions && !err; i++) {
    err = read_region(reader, reading, last_id, &reading->regions[i]);
    last_id = reading->regions[i].id;
  }
  return err;
}

// Computes the memory that is needed; counts that do not fit into the bytes are refused here.
static int count_regions(struct wire_reader reader, uint64_t *num_regions, uint64_t *num_keys) {
  *num_regions = wire_take_number(&reader, 4);
  *num_keys = 0;
  if (reader.failed || *num_regions > AGENT_MAX_REGIONS || *num_regions > wire_left(&reader) / REGION_LEAST)
    return fail(WEFT_ERR_PROTOCOL, "metadata claims %" PRIu64 " regions in %zu bytes", *num_regions,
                wire_left(&reader));
  for (uint64_t i = 0; i < *num_regions; i++) {
    struct wire_reader region = wire_take_part(&reader, wire_take_number(&reader, 4));
    wire_take(&region, REGION_LEAST - 4 - 2);
    uint64_t keys = wire_take_number(&region, 2);
    if (region.failed || keys > AGENT_MAX_TRANSPORTS || keys > wire_left(&region) / KEY_LEAST)
      return fail(WEFT_ERR_PROTOCOL, "metadata claims %" PRIu64 " keys of a region in %zu bytes", keys,
                  wire_left(&region));
    *num_keys += keys;
  }
  return 0;
}

static int check_size(const uint8_t *bytes, size_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size, .at = BLOB_AT_SIZE};
  uint64_t says = wire_take_number(&reader, 8);
  if (says == size && size <= AGENT_MAX_BLOB)
    return 0;
  if (__builtin_bswap64(says) == size)
    return fail(WEFT_ERR_PROTOCOL, "metadata whose numbers are big-endian: want little-endian");
  return fail(WEFT_ERR_PROTOCOL, "metadata says that it has %" PRIu64 " bytes, but there are %zu (at most %d)", says,
              size, AGENT_MAX_BLOB);
}

// The head has the same form in all versions.
static int check_head(const uint8_t *bytes, size_t size) {
  if (size < AGENT_BLOB_HEAD)
    return fail(WEFT_ERR_PROTOCOL, "metadata has at least %d bytes, but there are %zu", AGENT_BLOB_HEAD, size);
  if (memcmp(bytes, BLOB_MAGIC, 8) != 0)
    return fail(WEFT_ERR_PROTOCOL, "these bytes are not the metadata of an agent: their beginning is wrong");
  int err = check_size(bytes, size);
  if (err)
    return err;
  struct wire_reader reader = {.bytes = bytes, .size = size, .at = 8};
  uint64_t version = wire_take_number(&reader, 2), minimum = wire_take_number(&reader, 2);
  if (wire_take_number(&reader, 4) != blob_checksum(bytes, size))
    return fail(
        WEFT_ERR_PROTOCOL,
        "metadata is damaged: its checksum does not fit its %zu bytes; send the bytes unchanged, as they are not text",
        size);
  if (minimum > BLOB_VERSION)
    return fail(WEFT_ERR_VERSION,
                "metadata of format %" PRIu64 " needs a reader of format %" PRIu64
                " or newer, but this one has format %d; use the same version of Weft on both sides",
                version, minimum, BLOB_VERSION);
  if (version < BLOB_OLDEST)
    return fail(WEFT_ERR_VERSION,
                "metadata of format %" PRIu64
                " is too old; the oldest that can be read is %d: use the same version of Weft on both sides",
                version, BLOB_OLDEST);
  return 0;
}

// Whether an agent that has the secret sealed the blob. Before this check no byte behind the head is trusted.
static int check_seal(const uint8_t *bytes, size_t size, const uint8_t *key) {
  if (size < AGENT_BLOB_HEAD + BLOB_SEAL_WHOLE)
    return fail(WEFT_ERR_AUTH,
                "metadata is not sealed, but this agent has a token: the agent that wrote it needs the same token");
  struct wire_reader reader = {.bytes = bytes, .size = size, .at = size - BLOB_SEAL_WHOLE};
  uint64_t section = wire_take_number(&reader, 2), zero = wire_take_number(&reader, 2);
  if (section != BLOB_SEAL || zero != 0 || wire_take_number(&reader, 4) != HMAC_SIZE)
    return fail(WEFT_ERR_AUTH,
                "metadata is not sealed, but this agent has a token: the agent that wrote it needs the same token");
  uint8_t seal[HMAC_SIZE];
  int err = blob_seal(bytes, size - HMAC_SIZE, key, seal);
  if (!err && !hmac_equal(seal, bytes + size - HMAC_SIZE))
    err = fail(WEFT_ERR_AUTH, "metadata is sealed with another token than this agent's, or was changed later");
  return err;
}

// Finds the sections. One of an unknown number is passed over.
static int find_sections(const uint8_t *bytes, size_t size, struct wire_reader sections[BLOB_REGIONS + 1]) {
  struct wire_reader reader = {.bytes = bytes, .size = size, .at = AGENT_BLOB_HEAD};
  uint64_t last = 0;
  while (wire_left(&reader) > 0) {
    size_t place = reader.at;
    uint64_t section = wire_take_number(&reader, 2);
    wire_take_number(&reader, 2);
    struct wire_reader part = wire_take_part(&reader, wire_take_number(&reader, 4));
    if (part.failed || section <= last)
      return fail(WEFT_ERR_PROTOCOL, "metadata has a section %" PRIu64 " at byte %zu that %s", section, place,
                  part.failed ? "goes past its end" : "is out of order");
    if (section <= BLOB_REGIONS)
      sections[section] = part;
    last = section;
  }
  for (int i = BLOB_IDENTITY; i <= BLOB_REGIONS; i++)
    if (!sections[i].bytes)
      return fail(WEFT_ERR_PROTOCOL, "metadata lacks its section %d", i);
  return 0;
}

static int read_sections(struct wire_reader sections[BLOB_REGIONS + 1], struct blob_reading *reading) {
  int err = read_identity(&sections[BLOB_IDENTITY], reading->description);
  if (!err)
    err = read_transports(&sections[BLOB_TRANSPORTS], reading->description);
  return err ? err : read_regions(&sections[BLOB_REGIONS], reading);
}

int agent_blob_read(const void *blob, size_t size, const uint8_t *seal, struct agent_description **description) {
  if (!blob || !description)
    return fail(WEFT_ERR_INVALID, "%s is NULL", blob ? "description" : "blob");
  struct wire_reader sections[BLOB_REGIONS + 1] = {0};
  uint64_t num_regions = 0, num_keys = 0;
  int err = check_head(blob, size);
  if (!err && seal)
    err = check_seal(blob, size, seal);
  if (!err)
    err = find_sections(blob, size, sections);
  if (!err)
    err = count_regions(sections[BLOB_REGIONS], &num_regions, &num_keys);
  if (err)
    return err;
  size_t regions_at = sizeof(struct agent_description);
  size_t keys_at = regions_at + num_regions * sizeof(struct agent_region_description);
  size_t bytes_at = keys_at + num_keys * sizeof(struct agent_key);
  char *memory = calloc(1, bytes_at + size);
  if (!memory)
    return fail(WEFT_ERR_NOMEM, "no memory for metadata of %" PRIu64 " regions", num_regions);
  memcpy(memory + bytes_at, blob, size);
  for (int i = BLOB_IDENTITY; i <= BLOB_REGIONS; i++)
    sections[i].bytes = (uint8_t *)memory + bytes_at + (sections[i].bytes - (const uint8_t *)blob);
  struct blob_reading reading = {.description = (struct agent_description *)memory,
                                 .regions = (struct agent_region_description *)(memory + regions_at),
                                 .keys = (struct agent_key *)(memory + keys_at)};
  err = read_sections(sections, &reading);
  if (err)
    free(memory);
  else
    *description = reading.description;
  return err;
}
