// A fixed description of an agent, comparisons, and blobs made of descriptions.
#include "agent/support/describe.h"

#include "agent/metadata/blob.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"
#include <stdlib.h>

static const struct agent_key keys[] = {
    {.transport = 0, .size = 5, .bytes = "key-a"},
    {.transport = 1, .size = 3, .bytes = "\0\1\2"},
    {.transport = 1, .size = 0, .bytes = ""},
};

static const struct agent_region_description regions[DESCRIBE_REGIONS] = {
    {.id = 1, .kind = WEFT_MEMORY_HOST, .address = 0x7F0012345000, .length = 1 << 20, .num_keys = 2, .keys = keys},
    {.id = 3,
     .kind = WEFT_MEMORY_CUDA,
     .address = 0xABCD00,
     .length = 4096,
     .device = 2,
     .num_keys = 1,
     .keys = keys + 2},
    {.id = 0x100000002, .kind = WEFT_MEMORY_FILE, .read_only = true, .device = -1, .keys = keys},
};

static const struct agent_description fixed = {
    .name = "decoder/7",
    .incarnation = 0xF31244D4BD941031, // derived from the name and the key
    .change = 42,
    .complete = true,
    .all_regions = true,
    .host = "5f1c8a2e-boot",
    .pid_namespace = 4026531836,
    .start_ticks = 123456789,
    .pid = 4711,
    .heartbeat_ms = 1000,
    // single letters, since a string literal would add a NUL
    .key = {'a', ' ', 'p', 'u', 'b', 'l', 'i', 'c', ' ', 'k', 'e', 'y', ' ', 'o', 'f', ' ',
            't', 'h', 'i', 'r', 't', 'y', '-', 't', 'w', 'o', ' ', 'b', 'y', 't', 'e', 's'},
    .num_transports = 2,
    .num_regions = DESCRIBE_REGIONS,
    .transports = {{.name = "shm", .address = "shm-address", .address_size = 11},
                   {.name = "ucx", .address = "\xFF\0\xFE", .address_size = 3}},
    .regions = regions,
};

const struct agent_description *describe_fixed(void) {
  return &fixed;
}

static bool same(const void *a, uint32_t a_size, const void *b, uint32_t b_size) {
  return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

static bool same_region(const struct agent_region_description *a, const struct agent_region_description *b) {
  bool equal = a->id == b->id && a->kind == b->kind && a->read_only == b->read_only && a->address == b->address &&
               a->length == b->length && a->device == b->device && a->num_keys == b->num_keys;
  for (uint32_t i = 0; equal && i < a->num_keys; i++)
    equal = a->keys[i].transport == b->keys[i].transport &&
            same(a->keys[i].bytes, a->keys[i].size, b->keys[i].bytes, b->keys[i].size);
  return equal;
}

bool describe_equal(const struct agent_description *a, const struct agent_description *b) {
  bool equal = strcmp(a->name, b->name) == 0 && strcmp(a->host, b->host) == 0 && a->incarnation == b->incarnation &&
               a->change == b->change && a->complete == b->complete && a->all_regions == b->all_regions &&
               a->pid_namespace == b->pid_namespace && a->start_ticks == b->start_ticks && a->pid == b->pid &&
               a->heartbeat_ms == b->heartbeat_ms && memcmp(a->key, b->key, sizeof a->key) == 0 &&
               a->num_transports == b->num_transports && a->num_regions == b->num_regions;
  for (uint32_t i = 0; equal && i < a->num_transports; i++)
    equal = strcmp(a->transports[i].name, b->transports[i].name) == 0 &&
            same(a->transports[i].address, a->transports[i].address_size, b->transports[i].address,
                 b->transports[i].address_size);
  for (uint32_t i = 0; equal && i < a->num_regions; i++)
    equal = same_region(&a->regions[i], &b->regions[i]);
  return equal;
}

void *describe_write(const struct agent_description *description, size_t *size) {
  *size = 0;
  assert_int_equal(agent_blob_write(description, NULL, NULL, size), WEFT_ERR_ROOM);
  void *blob = malloc(*size); // exactly this size, so that a sanitizer reports an access beyond it
  assert_non_null(blob);
  assert_int_equal(agent_blob_write(description, NULL, blob, size), 0);
  return blob;
}

void describe_seal(void *blob, size_t size) {
  struct wire_writer writer = {.bytes = blob, .capacity = size};
  wire_patch_number(&writer, BLOB_AT_CHECKSUM, blob_checksum(blob, size), 4);
}
