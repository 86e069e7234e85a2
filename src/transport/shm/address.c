// Addresses and keys as bytes: little-endian, with a sum, so that what was damaged on its way is found.
#include <string.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

enum { ADDRESS_MAGIC = 0x61534657, KEY_MAGIC = 0x6b534657, SUM = 4 };

struct writer {
  unsigned char bytes[256];
  size_t size;
};

static void put(struct writer *writer, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++)
    writer->bytes[writer->size++] = (unsigned char)(value >> (8 * i));
}

struct reader {
  const unsigned char *bytes;
};

static uint64_t get(struct reader *reader, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++)
    value |= (uint64_t)reader->bytes[i] << (8 * i);
  reader->bytes += size;
  return value;
}

// FNV-1a: each step is one to one, so any single changed byte changes it.
static uint32_t sum(const unsigned char *bytes, size_t size) {
  uint32_t hash = 0x811c9dc5;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * 0x01000193u;
  return hash;
}

static int hand_over(struct writer *writer, void *bytes, size_t *size, const char *what) {
  put(writer, sum(writer->bytes, writer->size), SUM);
  size_t space = *size;
  *size = writer->size;
  if (space < writer->size)
    return fail(WEFT_ERR_LIMIT, "%s takes %zu bytes, there is room for %zu", what, writer->size, space);
  memcpy(bytes, writer->bytes, writer->size);
  return 0;
}

static int check(const void *bytes, size_t size, size_t wanted, uint32_t magic, const char *what) {
  const unsigned char *raw = bytes;
  if (size != wanted)
    return fail(WEFT_ERR_PROTOCOL, "%s has %zu bytes, not %zu", what, size, wanted);
  struct reader head = {raw}, tail = {raw + size - SUM};
  if (get(&head, 4) != magic)
    return fail(WEFT_ERR_PROTOCOL, "this is not %s", what);
  uint32_t version = (uint32_t)get(&head, 4);
  if (get(&tail, SUM) != sum(raw, size - SUM))
    return fail(WEFT_ERR_PROTOCOL, "%s is damaged", what);
  if (version != SHM_VERSION)
    return fail(WEFT_ERR_VERSION, "%s is of version %u, this is %u", what, version, (unsigned)SHM_VERSION);
  return 0;
}

#define ADDRESS "a worker's address for shared memory"
#define KEY     "a region's key for shared memory"

// The fields in their order: X(name, bytes).
#define ADDRESS_FIELDS(X)                                                                                              \
  X(host[0], 8)                                                                                                        \
  X(host[1], 8)                                                                                                        \
  X(pid_space, 8)                                                                                                      \
  X(cookie, 8)                                                                                                         \
  X(page_device, 8) X(page_inode, 8) X(bell_inode, 8) X(pid, 4) X(page_fd, 4) X(bell_fd, 4)
#define KEY_FIELDS(X)                                                                                                  \
  X(cookie, 8)                                                                                                         \
  X(id, 8)                                                                                                             \
  X(address, 8) X(length, 8) X(device, 8) X(inode, 8) X(fd_offset, 8) X(gate, 4) X(fd, 4) X(read_only, 4)

#define PUT(name, size)  put(&writer, (uint64_t)from->name, size);
#define GET(name, size)  to->name = (__typeof__(to->name))get(&reader, size);
#define SIZE(name, size) +size
enum { ADDRESS_SIZE = 8 ADDRESS_FIELDS(SIZE) + SUM, KEY_SIZE = 8 KEY_FIELDS(SIZE) + SUM };

int shm_address_pack(const struct shm_address *from, void *bytes, size_t *size) {
  struct writer writer = {.size = 0};
  put(&writer, ADDRESS_MAGIC, 4);
  put(&writer, SHM_VERSION, 4);
  ADDRESS_FIELDS(PUT)
  return hand_over(&writer, bytes, size, ADDRESS);
}

int shm_address_read(struct shm_address *to, const void *bytes, size_t size) {
  int rc = check(bytes, size, ADDRESS_SIZE, ADDRESS_MAGIC, ADDRESS);
  if (rc != 0)
    return rc;
  struct reader reader = {(const unsigned char *)bytes + 8};
  ADDRESS_FIELDS(GET)
  return 0;
}

int shm_key_pack(const struct shm_key *from, void *bytes, size_t *size) {
  struct writer writer = {.size = 0};
  put(&writer, KEY_MAGIC, 4);
  put(&writer, SHM_VERSION, 4);
  KEY_FIELDS(PUT)
  return hand_over(&writer, bytes, size, KEY);
}

int shm_key_read(struct shm_key *to, const void *bytes, size_t size) {
  int rc = check(bytes, size, KEY_SIZE, KEY_MAGIC, KEY);
  if (rc != 0)
    return rc;
  struct reader reader = {(const unsigned char *)bytes + 8};
  KEY_FIELDS(GET)
  if (to->gate >= SHM_REGIONS || to->address + to->length < to->address)
    return fail(WEFT_ERR_PROTOCOL, KEY " makes no sense");
  return 0;
}
